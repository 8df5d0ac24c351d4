// Solves validated problems on CPU lanes.
#pragma once

#include <functional>

#include <hjcdik/result.hpp>
#include <hjcdik/solver.hpp>

#include "cpu/lanes.h"
#include "model/chain.hpp"

namespace hjcdik::cpu {

// What a solve needs, checked by the solver. Pointers stay valid during the call.
struct Problem {
  const model::Chain* chain;
  TargetView targets;
  SolveOptions options;  // coarse_sweeps set
};

// LM iterations of one start, and starts per target that a batch_size below it is spread over.
constexpr int kIterations = 20;
constexpr int kStarts = 64;
// Starts that a target beyond the reach bound gets, for its approximate rows.
constexpr int kStartsOutOfReach = 16;

// Any thread may call it at any time; threads >= 1.
void solve(const Lanes& lanes, int threads, const Problem& problem, const ResultView& out,
           const std::function<void(std::int64_t)>& progress);

}  // namespace hjcdik::cpu
