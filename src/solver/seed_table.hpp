// The configurations that the first random start of a target is chosen from (core/random.h).
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "model/chain.hpp"

namespace hjcdik {

struct SeedTable {
  SeedTable(const model::Chain& chain, std::uint32_t seed);

  std::uint32_t seed;
  std::vector<float> q;  // kSeedTable x dof
  // Number k of the pose of entry m (core::seed_distance) at pose[k][m].
  alignas(64) float pose[12][core::kSeedTable];
};

}  // namespace hjcdik
