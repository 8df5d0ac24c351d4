// The worlds of a solver, packed for its executors.
#pragma once

#include <cstdint>
#include <vector>

#include <hjcdik/world.hpp>

#include "core/geometry.h"
#include "model/chain.hpp"

namespace hjcdik {

template <class S>
struct ObstacleArrays {
  std::vector<core::Box<S>> boxes;
  std::vector<core::Capsule<S>> capsules;
  std::vector<core::Cylinder<S>> cylinders;
};

// Immutable; a solve holds the one that was in force when it began.
struct WorldSet {
  WorldSet(const model::Chain& chain, std::vector<World> worlds);

  std::vector<World> worlds;
  ObstacleArrays<float> f32;
  ObstacleArrays<double> f64;
  // By world, where its obstacles lie, and for each of them its row in the array it was given in. Spheres
  // come behind the capsules of their world.
  struct Extent {
    std::int32_t boxes, capsules, cylinders;
  };
  std::vector<Extent> begins;  // of every world, and the ends of the last
  std::vector<std::int32_t> box_rows, capsule_rows, cylinder_rows;
  std::vector<core::BoundingNode> nodes;
  std::vector<core::WorldRange> ranges;  // of every world; the empty one comes last
  std::uint64_t id;                      // of this set, unique in the process

  bool has_obstacles(std::int32_t world) const {
    return ranges[std::size_t(world)].begin < ranges[std::size_t(world)].end;
  }
  std::int32_t empty_world() const { return std::int32_t(worlds.size()); }
  // -1 as in SolveOptions::world_index.
  std::int32_t world_of(std::int32_t index) const { return index < 0 ? empty_world() : index; }

  template <class S>
  core::WorldTable<S> table(const ObstacleArrays<S>& a) const {
    return {a.boxes.data(), a.capsules.data(), a.cylinders.data(), nodes.data(), ranges.data()};
  }
  core::WorldTable<float> table_f32() const { return table(f32); }
  core::WorldTable<double> table_f64() const { return table(f64); }
};

}  // namespace hjcdik
