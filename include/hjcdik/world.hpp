// Obstacles: what a robot must not touch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <hjcdik/error.hpp>

namespace hjcdik {

// Obstacles where they lie: rows of doubles in the robot's base frame, metres, quaternions wxyz of any
// finite nonzero norm.
struct WorldView {
  std::span<const double> boxes;      // x 10: cx cy cz, qw qx qy qz, sx sy sz (full side lengths)
  std::span<const double> capsules;   // x 7: x0 y0 z0, x1 y1 z1, r (end points of the axis, radius)
  std::span<const double> cylinders;  // x 9: cx cy cz, qw qx qy qz, r, L (axis local z, full length)
  std::span<const double> spheres;    // x 4: cx cy cz, r
  // Cylinders as they are. Otherwise each becomes the capsule of the same axis and length, whose round
  // ends reach r beyond the flat faces.
  bool exact_cylinders = false;
};

// An immutable set of obstacles, any number of each kind. Cheap to copy.
class World {
 public:
  World();  // empty
  // Throws InvalidArgument, which names array, row and field.
  explicit World(const WorldView& view);

  bool empty() const noexcept;
  // The rows in force, in the forms of WorldView: quaternions normalised, cylinders among the capsules
  // (behind those given) unless they are exact.
  const std::vector<double>& boxes() const noexcept;
  const std::vector<double>& capsules() const noexcept;
  const std::vector<double>& cylinders() const noexcept;
  const std::vector<double>& spheres() const noexcept;

  // For the library's own parts.
  struct Obstacles;
  const Obstacles& obstacles() const noexcept { return *obstacles_; }

 private:
  std::shared_ptr<const Obstacles> obstacles_;
};

// What a link comes closest to. A cylinder keeps its own kind and row, also where it stands for a capsule.
enum class ObstacleKind : std::uint8_t { none, link, box, capsule, cylinder, sphere };

const char* to_string(ObstacleKind kind) noexcept;

// The verdict on one configuration.
struct Check {
  bool free = true;  // no self pair overlaps, and no obstacle is nearer than the margin
  // Smallest signed distance, m, negative where they overlap; infinite where there is nothing to compare.
  double self_clearance_m, world_clearance_m;
  // The pair responsible: of the smallest clearance, obstacles counting less the margin.
  std::int32_t link = -1;  // of Robot::collision_links(); -1 for none
  ObstacleKind other = ObstacleKind::none;
  std::int32_t other_index = -1;  // of Robot::collision_links(), or the row as given to World
};

}  // namespace hjcdik
