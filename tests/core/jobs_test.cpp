// Jobs in key order: starts as themselves, and the walks behind them.
#include "core/jobs.h"

#include <map>
#include <tuple>

#include <gtest/gtest.h>

namespace hjcdik {
namespace {

using core::JobPlan;
using core::kWalks;
using core::Start;

struct Budget {
  int candidates, each;
};

// All that a start is, but for whether it is walked from.
std::tuple<int, int, bool, bool> identity(const Start& s) {
  return {s.candidate, s.start, s.is_warm, s.is_first};
}

// Start k of a plan by counting: the warm rows, then what else there is, candidate by candidate.
std::vector<std::tuple<int, int, bool, bool>> starts_in_order(const Budget& budget, int warm) {
  std::vector<std::tuple<int, int, bool, bool>> starts;
  for (int c = 0; c < warm; c++) starts.push_back({c, 0, true, false});
  bool first = true;
  for (int c = 0; c < budget.candidates; c++) {
    for (int s = c < warm ? 1 : 0; s < budget.each; s++) {
      starts.push_back({c, s, false, first});
      first = false;
    }
  }
  return starts;
}

TEST(Jobs, EveryStartOnceAndTheFirstOnesAgainAsWalks) {
  // At least 64 starts, as a solve has them.
  for (const Budget& budget : {Budget{1, 64}, {10, 7}, {33, 2}, {63, 2}, {64, 1}, {70, 1}, {2000, 1}}) {
    for (const int warm : {0, 1, 7, 31, 32, 33, 40, 63, 64, 70, 2000}) {
      if (warm > budget.candidates) continue;
      const auto starts = starts_in_order(budget, warm);
      ASSERT_EQ(starts.size(), std::size_t(budget.candidates * budget.each));
      for (const int walks : {0, kWalks}) {
        SCOPED_TRACE(std::to_string(budget.candidates) + " candidates, " + std::to_string(warm) + " warm, " +
                     std::to_string(walks) + " walks");
        const JobPlan plan{int(starts.size()), budget.each, warm, walks};
        ASSERT_EQ(plan.jobs(), int(starts.size()) + walks);
        // Each kind runs through the starts in their order, walks through the first of them.
        std::map<bool, std::vector<int>> jobs_of;  // by whether it is a walk
        for (int job = 0; job < plan.jobs(); job++) {
          const Start s = core::start_of_job(plan, job);
          auto& jobs = jobs_of[s.walk];
          ASSERT_LT(jobs.size(), s.walk ? std::size_t(walks) : starts.size()) << "job " << job;
          ASSERT_EQ(identity(s), starts[jobs.size()]) << "job " << job;
          jobs.push_back(job);
        }
        ASSERT_EQ(jobs_of[false].size(), starts.size());
        ASSERT_EQ(jobs_of[true].size(), std::size_t(walks));
        for (int k = 0; k < walks; k++)
          ASSERT_GT(jobs_of[true][std::size_t(k)], jobs_of[false][std::size_t(k)]);
        for (int k = 0; k < warm; k++) ASSERT_EQ(jobs_of[false][std::size_t(k)], k) << "warm rows come first";
      }
    }
  }
}

// A walk comes soon after its start: most targets have their row by then.
TEST(Jobs, WalksComeBlockByBlock) {
  for (const int warm : {0, 1, 40}) {
    const JobPlan plan{2000, 1, warm, kWalks};
    for (int job = 0; job < plan.jobs(); job++) {
      const int behind = job - warm;
      const bool expected = behind >= 0 && behind < 2 * kWalks && behind / core::kWalkBlock % 2 == 1;
      ASSERT_EQ(core::start_of_job(plan, job).walk, expected) << "job " << job;
    }
  }
}

}  // namespace
}  // namespace hjcdik
