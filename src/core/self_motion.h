// The walk along the self-motion: from a configuration that reaches the target but collides, step by step to
// others that reach it, both ways, until one is free. Arms of more than six joints have such a motion; what
// it passes is judged as every other candidate is.
#pragma once

#include "core/random.h"

namespace hjcdik::HJCDIK_CORE {

constexpr float kWalkStep = 0.15f;   // rad or m, length in joint space
constexpr int kWalkPoints = 20;      // one way
constexpr int kWalkCorrections = 4;  // iterations back to the target after a step
constexpr u32 kWalkStream = 0x5bd1e995u;

// Joint i of the motion that the first step is the projection of: its sign does not matter, as the walk goes
// both ways, but where the arm has several self-motions, starts should try different ones.
HJCDIK_FN float walk_direction(u32 stream, int i) {
  return kWalkStep * (2.0f * uniform(mix((stream ^ kWalkStream) + 0x9e3779b9u * u32(i + 1))) - 1.0f);
}

}  // namespace hjcdik::HJCDIK_CORE
