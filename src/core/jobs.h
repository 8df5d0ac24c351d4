// Which start of which candidate a job runs. Jobs are numbered in key order: the answer to a target is the
// first that give rows.
#pragma once

#include "core/config.h"

namespace hjcdik::core {

// Where collision counts, the first starts come twice: as they are, and later once more with a walk
// (core/self_motion.h). The walks of warm starts follow these at once, since what they find is near; those of
// the others follow in blocks. There are never fewer than kWalks starts.
constexpr int kWalkBlock = 32;
constexpr int kWalks = 64;

struct JobPlan {
  int starts;  // of all candidates
  int starts_per_candidate;
  int warm_rows;  // given starts: start 0 of the first candidates, first of all jobs
  int walks;      // 0 or kWalks

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
  const int warm = plan.warm_rows, others = plan.starts - warm;
  const int warm_walks = warm < plan.walks ? warm : plan.walks, walks = plan.walks - warm_walks;
  if (job < warm || plan.walks == 0) return start_at(plan, job, false);
  int j = job - warm;
  if (j < warm_walks) return start_at(plan, j, true);
  j -= warm_walks;
  const int blocks = (walks + kWalkBlock - 1) / kWalkBlock, in_blocks = blocks * kWalkBlock;
  if (others < in_blocks) {
    return j < others ? start_at(plan, warm + j, false) : start_at(plan, warm_walks + (j - others), true);
  }
  if (j >= in_blocks + walks) return start_at(plan, warm + j - walks, false);
  const int first = j / (2 * kWalkBlock) * kWalkBlock, in_block = j % kWalkBlock;
  if (j % (2 * kWalkBlock) < kWalkBlock) return start_at(plan, warm + first + in_block, false);
  return start_at(plan, warm_walks + first + in_block, true);
}

}  // namespace hjcdik::HJCDIK_CORE
