// The work that a solve is made of, as plain data: the lane objects include this too, and nothing here
// may become a function that two of them share.
#pragma once

#include <cstdint>

#include "core/chain.h"
#include "core/geometry.h"
#include "core/jobs.h"

namespace hjcdik {

// A job is one start of one candidate. Jobs are numbered in key order, warm starts first; the answer to
// a target is the first jobs that converge, so it does not depend on which lanes ran them when.
struct TargetState {
  float start[12];         // target^-1 . base, as ChainConstants::start
  std::int32_t next_job;   // in: where to begin; out: where a further search would go on
  std::int32_t job_end;    // one past the last job
  std::int32_t need;       // stop once this many jobs have converged
  std::int32_t hits;       // out: jobs that converged, at most need, in job order
  std::int32_t near_hits;  // out: the best that did not, where fewer than need converged
  std::int32_t world;      // that the target is in
  // out, added to: starts that came near the target in collision with the robot itself, and with the world.
  std::int32_t self_rejected, world_rejected;
};

// Searches that judge what they find. A hit is then a configuration that converged and that float32 finds
// free, or cannot tell.
struct CollisionTask {
  core::SphereTable<float> robot;
  core::WorldTable<float> worlds;
  float margin;          // to obstacles, m
  bool self;             // whether self pairs count
  bool judges;           // else whatever converges is a hit, with a clearance of -kCollides
  float* hit_clearance;  // per hit: the smaller of self clearance and that to the world less the margin, m
};

// Of a near hit that collides: its score is the depth plus this. Lower ones are free.
constexpr float kCollides = 1e3f;

struct SearchTask {
  const core::ChainConstants<float>* chain;
  float orientation_weight;  // m/rad
  float damping_floor;       // m²
  float position_tolerance, orientation_tolerance;
  std::uint32_t seed;
  core::JobPlan plan;
  std::int32_t iterations;
  std::int32_t coarse_sweeps;
  bool greedy;

  const float* warm;  // plan.warm_rows x dof, in the limits, of target 0
  std::int64_t warm_target_stride;

  // The table that the first random start comes from (solver/seed_table.hpp): 12 x kSeedTable, kSeedTable x
  // dof.
  const float* seed_pose;
  const float* seed_q;

  TargetState* targets;
  const std::int32_t* order;  // the targets to search
  std::int32_t count;         // how many

  // Of target t: hit r at (t * hit_capacity + r), near hits likewise; q has dof values a row.
  std::int32_t hit_capacity;
  float* hit_q;
  std::int32_t* hit_job;
  std::int32_t near_capacity;
  float* near_q;
  float* near_score;
  std::int32_t* near_job;

  // Of one target only: distance, angle and joints at the end of every job; null for none. Jobs then run on
  // whatever has been found, and are not judged.
  float* job_errors;
  float* job_q;

  const CollisionTask* collision;  // null: open world

  std::int64_t lane_iterations;  // out, added to
};

struct PolishTask {
  const core::ChainConstants<double>* chain;
  double orientation_weight, damping_floor;
  std::int32_t iterations;
  // A row whose error is below takes one more step and is done.
  double last_step_below;
  std::int32_t count;
  const double* const* start;  // per row: 12 numbers
  double* q;                   // per row: dof values, in and out
};

struct EvaluateTask {
  const core::ChainConstants<double>* chain;
  std::int32_t count;
  const double* const* start;  // per row: 12 numbers
  const double* q;             // per row: dof values
  double* tool;                // out, per row: tool in the target's frame, 12 numbers as start
  double* distance;            // out, per row, m
  double* angle;               // out, per row, rad
};

// Many configurations at once, one a lane.
struct JudgeTask {
  const core::ChainConstants<float>* chain;
  core::SphereTable<float> robot;
  core::WorldTable<float> worlds;
  float margin;  // to obstacles, m
  float room;    // what has to be left besides, m
  bool self;
  std::int32_t count;
  const float* q;             // per row: dof values
  const std::int32_t* world;  // per row
  bool* free;                 // out, per row: free by more than `room` and what float32 may be off
};

}  // namespace hjcdik
