// Plain data of collision tests: a robot as spheres, and worlds of obstacles under trees of bounding
// spheres. The functions on it stand in collision.h.
#pragma once

#include "core/config.h"

namespace hjcdik::core {

constexpr int kMaxSpheres = 768;
// Arrays of spheres are padded to a multiple of this with spheres far from everything.
constexpr int kSpherePadding = 32;
constexpr float kFarAway = 1e15f;

// Spheres of one link, and their bounding sphere in the frame of the joint that carries them.
struct SphereGroup {
  int begin, end;
  int joint;  // -1: the base's frame
  float center[3], radius;
};

// In the frames of joints as in chain.h, after their motion. Spheres of links that only self pairs know (the
// base's) come last.
template <class S>
struct SphereTable {
  int spheres, world_spheres, groups, pairs;
  const S *x, *y, *z, *radius;
  const int* joint;
  const SphereGroup* group;
  const short (*pair)[2];  // of groups
};

template <class S>
struct Box {
  S center[3], axis[9], half[3];  // axis: the box's axes, one after the other
};

// A sphere is a capsule whose axis is zero.
template <class S>
struct Capsule {
  S end[3], axis[3];  // one end, and from there to the other
  S inverse;          // 1 / |axis|², 0 for a sphere
  S radius;
};

template <class S>
struct Cylinder {
  S center[3], axis[3], half, radius;  // axis: unit length
};

enum ObstacleShape : int { kInner = -1, kBoxes, kCapsules, kCylinders };

// A tree in depth-first order: where the bounding sphere is not near, go on at `skip`.
struct BoundingNode {
  float center[3], radius;
  int skip;
  int shape;  // of the obstacles begin .. end - 1 that a leaf holds
  int begin, end;
};

struct WorldRange {
  int begin, end;  // nodes
  float slack;     // how far float32 clearances may be off, m
};

template <class S>
struct WorldTable {
  const Box<S>* boxes;
  const Capsule<S>* capsules;
  const Cylinder<S>* cylinders;
  const BoundingNode* nodes;
  const WorldRange* worlds;
};

}  // namespace hjcdik::core

#ifdef HJCDIK_CORE_IS_PRIVATE
namespace hjcdik::HJCDIK_CORE {
using core::BoundingNode;
using core::Box;
using core::Capsule;
using core::Cylinder;
using core::kBoxes;
using core::kCapsules;
using core::kFarAway;
using core::kInner;
using core::kMaxSpheres;
using core::kSpherePadding;
using core::SphereGroup;
using core::SphereTable;
using core::WorldRange;
using core::WorldTable;
}  // namespace hjcdik::HJCDIK_CORE
#endif
