// Solves validated problems on CPU lanes.
#pragma once

#include <functional>

#include "cpu/lanes.h"
#include "solver/worker.hpp"

namespace hjcdik::cpu {

// Any thread may call it at any time; threads >= 1.
void solve(const Lanes& lanes, int threads, const Problem& problem, const ResultView& out,
           const std::function<void(std::int64_t)>& progress);

}  // namespace hjcdik::cpu
