// From searches to rows: the part of a solve that is the same for every executor.
#pragma once

#include <algorithm>
#include <memory>

#include <hjcdik/result.hpp>
#include <hjcdik/solver.hpp>

#include "model/chain.hpp"
#include "solver/engine.hpp"
#include "solver/judge.hpp"
#include "solver/seed_table.hpp"

namespace hjcdik {

// What a solve needs, checked by the solver. Pointers stay valid during the call.
struct Problem {
  const model::Chain* chain;
  TargetView targets;
  SolveOptions options;    // coarse_sweeps and collision set
  const SeedTable* seeds;  // of the options' seed
  const WorldSet* worlds;

  bool judged() const { return options.collision == Collision::hard || options.collision == Collision::both; }
  CollisionRule rule() const { return {worlds, options.collision_margin_m, options.self_collision}; }
  std::int32_t world_of(std::int64_t target) const {
    return worlds->world_of(options.world_index != nullptr ? options.world_index[target] : 0);
  }
  // What may be hit at all; else an open-world search does.
  core::JobPlan plan() const;
};

// Converged, in float64 after the polish.
constexpr double kConverged = 1e-6;
// Without a polish a search ends with what float leaves, m and rad for an arm of a metre. Such rows count as
// solved only where they happen to be within kConverged.
inline double converged_fp32(const model::Chain& chain) { return 1e-5 * std::max(1.0, chain.reach.radius); }
// The search hands over to the polish here; with float32 coordinates of a metre it cannot do much better.
constexpr float kSearchOrientation = 1e-5f;
inline float search_position_tolerance(const model::Chain& chain) {
  return 3e-6f * std::max(1.0f, float(chain.reach.radius));
}
// Quadratic convergence: one more step from here usually ends at rounding. A row that then is not within
// kPolished is polished further, down to kLastSlowPolishStep and a step more.
constexpr double kLastPolishStep = 2e-6;
constexpr double kPolished = 1e-9;
constexpr double kLastSlowPolishStep = 1e-8;
constexpr int kPolishIterations = 20;
// The scale of the arm, m. An arm whose axes all meet in one point with the tool has no length of its own.
inline double arm_scale(const model::Chain& chain) { return std::max(chain.length, 1e-3); }
// Makes rotations comparable to translations, m/rad.
inline double orientation_weight(const model::Chain& chain) { return 0.28 * arm_scale(chain); }
inline double damping_floor(const model::Chain& chain) { return 1e-9 * arm_scale(chain) * arm_scale(chain); }

// LM iterations of one start, and starts per target that a batch_size below it is spread over.
constexpr int kIterations = 20;
constexpr int kStarts = 64;
// Starts that a target out of reach gets, for its approximate rows.
constexpr int kStartsOutOfReach = 16;

// With "soft" the rows come from among this many times as many, and at least so many.
constexpr std::int64_t kSoftChoice = 4, kLeastSoftChoice = 64;
// Where no start is free and converged, what is returned is free and this near, m and rad.
constexpr double kFallbackDistance = 5e-3, kFallbackAngle = 0.05;

// Judging many first hits together: they stand if the polish moved no point farther than this, m. It is less
// than core::kSureDepth, so that no search that judges would reject them.
constexpr double kLittleMoved = 5e-4;

// Hits that one target may hold between two polishes: what a worker's memory grows with.
std::int64_t hits_per_target(const SolveOptions& options);

// Solves targets first .. first + count - 1. Not for two threads at once; kept from solve to solve for
// its memory alone.
class Worker {
 public:
  Worker();
  ~Worker();
  void solve(Engine& engine, const Problem& problem, std::int64_t first, std::int64_t count,
             const ResultView& out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hjcdik
