// What the host hands to the kernels. Compiled by the host's compiler and by NVRTC.
#pragma once

#include "core/chain.h"
#include "core/geometry.h"
#include "core/jobs.h"

namespace hjcdik::cuda {

using core::Reach;
using core::u32;

constexpr int kBlock = 128;  // threads

// Outcomes that only the executor sees: the search is to go on behind the hit, and there is no hit.
constexpr unsigned char kRetry = 255, kUnsolved = 254;
// In place of the job of a hit.
constexpr int kNoHit = -2147483647 - 1;

// What collision-aware programs need besides.
struct CollisionParams {
  core::WorldTable<float> worlds;
  core::WorldTable<double> worlds_f64;
  const int* world_of;  // per target; null: `world` for all
  int world;
  double margin;
  int self;      // whether self pairs count
  double lever;  // how far a radian may move a sphere, m

  HJCDIK_FN int world_at(long long target) const { return world_of != nullptr ? world_of[target] : world; }
};

// The search: groups of lanes of a warp, each at one target at a time.
struct SearchParams {
  const double* targets;  // rows of x y z qw qx qy qz; null: the one in `target`, or `starts`
  long long target_stride;
  double target[7];
  const float* starts;    // of each target instead, 12 numbers as TargetState::start
  const u32* list;        // which targets; null: 0 .. count - 1
  const u32* list_count;  // how many are in the list; null: count
  u32 count;
  u32* next;  // work counter, zero before the launch; null: group g takes target g, one each

  // Jobs as in solver/tasks.h: job_begin .. job_end - 1; a target without a hit below pause_job
  // goes to the leftover list there.
  int job_begin, pause_job, job_end, job_end_out_of_reach;
  u32* leftover;
  u32* leftover_count;
  // Goes on behind hit_job, for targets whose hit the polish did not confirm; job_begin is not used.
  bool resume;

  // Per target. hit_job: the first job that converged, or -1 - the nearest one's; hit_q its end.
  float* hit_q;
  int* hit_job;
  // The nearest end so far, kept between the launches of one solve.
  float* near_score;
  int* near_job;

  // Instead, with null for all of the above: the end of every job, with distance and angle. The i-th target
  // of the list runs jobs job_range[2 i] .. job_range[2 i + 1] - 1, whose rows begin at i * jobs.
  const int* job_range;
  int jobs;
  float* job_q;
  float* job_errors;
  float* job_clearance;  // with collision: self clearance, and that to the world less the margin

  const float* warm;  // plan.warm_rows x dof a target
  long long warm_target_stride;

  // The seed table (core/random.h): 12 x kSeedTable, kSeedTable x dof.
  const float* seed_pose;
  const float* seed_q;
  u32 seed;
  core::JobPlan plan;
  int iterations, coarse_sweeps, greedy;
  float orientation_weight, damping_floor, position_tolerance, orientation_tolerance;
  int group;  // lanes a target: 1, 2, 4, 8, 16 or 32
  int fetch;  // targets that a warp takes from the counter at once, 1 .. 32

  Reach reach;

  CollisionParams collision;
  float* hit_clearance;  // per target, with hit_q
};

// Counters of a session, in device memory.
enum Counter { kNext, kNextLeftover, kLeftoverCount, kRetryCount, kBlocksDone, kCounters };

// Written by one store of eight bytes: both halves arrive together.
struct alignas(8) Mailbox {
  u32 retries;
  u32 ticket;  // of the solve that is done
};

// The polish, and the rows as users get them: one thread a row.
struct PolishParams {
  // Either targets with hits of the search, or rows on their own.
  bool of_targets;
  const double* targets;  // null: the one in `target`
  long long target_stride;
  double target[7];
  const float* hit_q;
  const int* hit_job;
  const float* hit_clearance;
  CollisionParams collision;
  const double* starts;  // rows of 12; null with targets
  double* row_q;         // rows of dof, in and out; null with targets
  const u32* list;       // which targets or rows; null: 0 .. count - 1
  u32 count;

  int iterations;  // 0: evaluate only
  // As kLastPolishStep, kPolished and kLastSlowPolishStep in solver/worker.hpp.
  double last_step_below, polished, last_slow_step_below;
  // Errors within which a hit of the search stands, and within which it is solved.
  double confirmed, converged;
  double orientation_weight, damping_floor;

  // Results of targets, at their own places, or with `compact` at their places in the list.
  bool compact;
  double* q;
  double* pose;
  double* distance;
  double* angle;
  long long* found;
  unsigned char* outcome;
  // Outcome kRetry: the polish did not confirm the search's hit.
  u32* retry;  // those targets; null: not wanted
  // Results of rows.
  double* tool;
  // Zero before the first launch. The last block sets all of them back to zero for the next solve.
  u32* counters;
  // Where the host waits, in its own memory; null: it does not. Written last of all.
  Mailbox* mailbox;
  u32 ticket;
};

// Of rows of the open-world programs, which are free for sure: one thread a row.
struct JudgeParams {
  CollisionParams collision;
  u32 count;
  // Per target, as the polish left them. Outcome kRetry: not for sure.
  const double* q;
  const float* hit_q;
  const int* hit_job;
  unsigned char* outcome;
  double little_moved;  // as kLittleMoved in solver/worker.hpp
  u32* retry;           // those targets; null: not wanted
  u32* counters;        // as PolishParams
  Mailbox* mailbox;
  u32 ticket;
};

}  // namespace hjcdik::cuda
