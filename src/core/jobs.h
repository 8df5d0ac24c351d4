// Which start of which candidate a job runs. Jobs are numbered in key order: the answer to a target is the first
// that give rows.
#pragma once

#include "core/config.h"

namespace hjcdik::core {

// Where collision counts, the first starts come twice: blocks of starts as they are, each followed by as many
// walks (core/self_motion.h). There are never fewer than kWalks starts.
constexpr int kWalkBlock = 32;
constexpr int kWalks = 64;

struct JobPlan {
  int starts;                // of all candidates
  int starts_per_candidate;
  int warm_rows;             // given starts: start 0 of the first candidates, first of all jobs
  int walks;                 // 0 or kWalks

  HJCDIK_FN int jobs() const { return starts + walks; }
};

}  // namespace hjcdik::core

namespace hjcdik::HJCDIK_CORE {
#ifdef HJCDIK_CORE_IS_PRIVATE
using core::JobPlan;
using core::kWalkBlock;
using core::kWalks;
#endif

struct Start {
  int candidate, start;
  bool is_warm;   // warm row `candidate`
  bool is_first;  // the first of the others, which comes from the seed table
  bool walk;      // along the self-motion, from where the start converged in collision
};

// Starts in key order: the warm ones, then the other starts candidate by candidate.
HJCDIK_FN Start start_at(const JobPlan& plan, int number, bool walk) {
  const int warm = plan.warm_rows, each = plan.starts_per_candidate;
  if (number < warm) return {number, 0, true, false, walk};
  const int index = number - warm, others = each - 1, left_over = warm * others;
  if (index < left_over) return {index / others, 1 + index % others, false, index == 0, walk};
  return {warm + (index - left_over) / each, (index - left_over) % each, false, index == 0, walk};
}

HJCDIK_FN Start start_of_job(const JobPlan& plan, int job) {
  const int warm = plan.warm_rows, walks = plan.walks, others = plan.starts - warm;
  const int j = job - warm;
  if (walks == 0 || j < 0) return start_at(plan, job, false);
  if (others < walks) return j < others ? start_at(plan, job, false) : start_at(plan, j - others, true);
  if (j >= 2 * walks) return start_at(plan, job - walks, false);
  const int in_block = j % kWalkBlock, first = j / (2 * kWalkBlock) * kWalkBlock;
  if (j % (2 * kWalkBlock) < kWalkBlock) return start_at(plan, warm + first + in_block, false);
  return start_at(plan, first + in_block, true);
}

}  // namespace hjcdik::HJCDIK_CORE
