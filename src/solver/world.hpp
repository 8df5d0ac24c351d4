// The obstacles behind a World.
#pragma once

#include <cstdint>
#include <vector>

#include <hjcdik/world.hpp>

namespace hjcdik {

struct World::Obstacles {
  // The rows in force, in the forms of WorldView: validated, quaternions normalised.
  std::vector<double> boxes, capsules, cylinders, spheres;
  // The capsules as given come first, behind them those that stand for cylinders, in their order.
  std::int64_t given_capsules = 0;
  std::int64_t cylinders_as_capsules = 0;
};

}  // namespace hjcdik
