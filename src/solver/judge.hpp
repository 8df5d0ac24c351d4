// The verdict on single configurations, in float64: what the solver's answers stand on.
#pragma once

#include <string>
#include <vector>

#include <hjcdik/world.hpp>

#include "solver/world_set.hpp"

namespace hjcdik {

// What counts as a collision.
struct CollisionRule {
  const WorldSet* worlds;
  double margin = 0;  // to obstacles, m
  bool self = true;
};

// Smallest of the self clearance and the clearance to the world less the margin, m; `interest` where it is
// not smaller than that.
double clearance(const model::Chain& chain, const double* q, const CollisionRule& rule, std::int32_t world,
                 double interest);
inline bool is_free(const model::Chain& chain, const double* q, const CollisionRule& rule,
                    std::int32_t world) {
  return clearance(chain, q, rule, world, 1e-3) >= 0;
}

// With the pair responsible. Looks at everything.
Check check(const model::Chain& chain, const double* q, const CollisionRule& rule, std::int32_t world);

// Sum over the robot's spheres of their deepest penetration of an obstacle, m.
double penetration(const model::Chain& chain, const double* q, const WorldSet& worlds, std::int32_t world);

// Moves q, inside the limits, away from what it touches until it is free, by the deepest contact each time.
// False if that fails.
bool push_out(const model::Chain& chain, double* q, const CollisionRule& rule, std::int32_t world);

// Obstacles that spheres of the base touch, a sentence each.
std::vector<std::string> base_contacts(const model::Chain& chain, const WorldSet& worlds);

}  // namespace hjcdik
