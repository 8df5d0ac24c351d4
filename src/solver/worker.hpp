// From searches to rows: the part of a solve that is the same for every executor.
#pragma once

#include <memory>

#include <hjcdik/result.hpp>
#include <hjcdik/solver.hpp>

#include "model/chain.hpp"
#include "solver/engine.hpp"

namespace hjcdik {

// What a solve needs, checked by the solver. Pointers stay valid during the call.
struct Problem {
  const model::Chain* chain;
  TargetView targets;
  SolveOptions options;  // coarse_sweeps set
};

// LM iterations of one start, and starts per target that a batch_size below it is spread over.
constexpr int kIterations = 20;
constexpr int kStarts = 64;
// Starts that a target out of reach gets, for its approximate rows.
constexpr int kStartsOutOfReach = 16;

// Hits that one target may hold between two polishes: what a worker's memory grows with.
std::int64_t hits_per_target(const SolveOptions& options);

// Solves targets first .. first + count - 1. Not for two threads at once; kept from solve to solve for
// its memory alone.
class Worker {
 public:
  Worker();
  ~Worker();
  void solve(Engine& engine, const Problem& problem, std::int64_t first, std::int64_t count, const ResultView& out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hjcdik
