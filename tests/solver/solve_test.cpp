// What a solve returns: rows that are right, in limits, ordered, padded; what options change.
#include <malloc.h>

#include <ctime>
#include <set>
#include <thread>

#include "rows.hpp"

namespace hjcdik {
namespace {

using namespace test;

class EveryPreset : public testing::TestWithParam<std::string> {
 protected:
  Solver solver_{Robot::preset(GetParam())};
  const Robot& robot() const { return solver_.robot(); }
};
INSTANTIATE_TEST_SUITE_P(Presets, EveryPreset, testing::ValuesIn(preset_names()),
                         [](const auto& info) { return info.param; });

TEST_P(EveryPreset, TenThousandTargetsStrictly) {
  const std::vector<Pose> targets = solver_.sample_targets(few(10'000), 31);
  const SolveOptions options = open();
  const Result result = solver_.solve(view(targets), options);
  expect_sound(robot(), targets, options, result);
  EXPECT_EQ(solved(result), std::int64_t(targets.size()));
}

TEST_P(EveryPreset, FewCandidates) {
  const std::vector<Pose> targets = solver_.sample_targets(few(2000), 32);
  for (const std::int64_t candidates : {1, 10}) {
    const SolveOptions options = open({.batch_size = candidates});
    const Result result = solver_.solve(view(targets), options);
    expect_sound(robot(), targets, options, result);
    EXPECT_GE(double(solved(result)), (candidates == 1 ? 0.99 : 1.0) * double(targets.size()));
  }
}

TEST_P(EveryPreset, SeveralRows) {
  const std::vector<Pose> targets = solver_.sample_targets(few(200), 33);
  for (const std::int64_t rows : {2, 8, 40}) {
    const SolveOptions options = open({.num_solutions = rows, .stats = true});
    const Result result = solver_.solve(view(targets), options);
    expect_sound(robot(), targets, options, result);
    EXPECT_EQ(solved(result), std::int64_t(targets.size()));
    if (robot().dof() == 6) continue;
    // A redundant arm has a continuum: two rows at least, and mostly all that were asked for.
    std::int64_t full = 0;
    for (const std::int64_t count : result.count) {
      EXPECT_GE(count, 2);
      full += count == rows;
    }
    EXPECT_GT(double(full), 0.9 * double(targets.size())) << rows;
  }
}

TEST_P(EveryPreset, OutOfReachTargets) {
  std::vector<Pose> targets = solver_.sample_targets(50, 34);
  for (std::size_t t = 0; t < targets.size(); t++) targets[t][t % 3] += t % 2 ? 10 : -1000;
  for (const std::int64_t rows : {1, 4, 30}) {
    for (const std::int64_t candidates : {1, 2000}) {
      const SolveOptions options = open({.num_solutions = rows, .batch_size = candidates, .stats = true});
      const Result result = solver_.solve(view(targets), options);
      expect_sound(robot(), targets, options, result);
      for (std::size_t t = 0; t < targets.size(); t++) {
        EXPECT_EQ(result.outcome[t], Outcome::approximate);
        EXPECT_GE(result.count[t], 1);
        // The search ends after the first round.
        EXPECT_LE(result.stats[t].n_refined, std::min<std::int64_t>(candidates, 16));
        EXPECT_EQ(result.stats[t].n_ik_accurate, 0);
      }
    }
  }
}

// Stretched towards a target that is 10 mm too far, the best row is 10 mm off.
TEST(Solve, JustOutOfReachIsAsNearAsItGets) {
  const Solver solver(load(Planar{}.text()));
  for (const double beyond : {0.0001, 0.001, 0.01}) {
    const Pose target = {0.8 + beyond, 0, 0, 1, 0, 0, 0};
    const Result result = solver.solve(target, open({.num_solutions = 2}));
    expect_sound(solver.robot(), {target}, open({.num_solutions = 2}), result);
    EXPECT_EQ(result.outcome[0], Outcome::approximate);
    EXPECT_NEAR(result.pos_err_m[0], beyond, 1e-4 * beyond);
    EXPECT_LT(result.ori_err_rad[0], 0.01);
  }
  const Result reached = solver.solve(Pose{0.8, 0, 0, 1, 0, 0, 0}, open());
  EXPECT_EQ(reached.outcome[0], Outcome::solved);
  EXPECT_NEAR(reached.q[0], 0, 1e-2);
}

// Within the reach bound, but the orientation is impossible: every start runs, rows are finite.
TEST(Solve, ImpossibleOrientationUsesTheBudgetOnly) {
  const Solver solver(load(Planar{}.text()));
  const std::vector<Pose> targets(20, Pose{0.5, 0.2, 0, 0, 1, 0, 0});
  const SolveOptions options = open({.num_solutions = 3, .batch_size = 100, .stats = true});
  const Result result = solver.solve(view(targets), options);
  expect_sound(solver.robot(), targets, options, result);
  for (std::size_t t = 0; t < targets.size(); t++) {
    EXPECT_EQ(result.outcome[t], Outcome::approximate);
    EXPECT_LE(result.stats[t].n_refined, 100);
    // Turned by a half turn about x, where only turns about z can be made.
    EXPECT_NEAR(result.ori_err_rad[t * 3], std::numbers::pi, 0.5);
  }
}

TEST(Solve, Ur5eHasAtMostEightRows) {
  const Solver solver(Robot::preset("ur5e"));
  const std::vector<Pose> targets = solver.sample_targets(few(500), 35);
  const SolveOptions options = open({.num_solutions = 20});
  const Result result = solver.solve(view(targets), options);
  expect_sound(solver.robot(), targets, options, result);
  std::set<std::int64_t> counts;
  std::int64_t odd = 0;
  for (const std::int64_t count : result.count) {
    counts.insert(count);
    odd += count % 2;
    EXPECT_LE(count, 8);
    EXPECT_GE(count, 1);
  }
  EXPECT_TRUE(counts.contains(8));
  // Solutions of such a wrist come in pairs; two of a pair merge only at singularities.
  EXPECT_LE(odd, few(500) / 50);
}

// Rows one turn apart are one, and the one nearest to mid-range is returned.
TEST(Solve, RowsATurnApartCountOnce) {
  const std::string wide = "<limit lower=\"-9\" upper=\"9\"/>";
  const Solver solver(load(Planar{.first = kZ + wide, .second = kZ + wide}.text()));
  const Pose target = solver.robot().forward_kinematics(std::vector<double>{2.0, 1.0});
  const Result result = solver.solve(target, open({.num_solutions = 10}));
  ASSERT_EQ(result.count[0], 1) << "position and orientation leave one elbow";
  EXPECT_NEAR(result.q[0], 2.0, 1e-6);
  EXPECT_NEAR(result.q[1], 1.0, 1e-6);
}

TEST(Solve, DistinctRadZeroKeepsNearRows) {
  const Solver solver(Robot::preset("panda"));
  const std::vector<Pose> targets = solver.sample_targets(few(30), 36);
  for (const double distinct : {0.0, 0.001, 0.05, 0.5, 2.0}) {
    const SolveOptions options = open({.num_solutions = 50, .distinct_rad = distinct});
    expect_sound(solver.robot(), targets, options, solver.solve(view(targets), options));
  }
  const Result fine = solver.solve(view(targets), open({.num_solutions = 300, .distinct_rad = 0}));
  const Result coarse = solver.solve(view(targets), open({.num_solutions = 300, .distinct_rad = 1.0}));
  for (std::size_t t = 0; t < targets.size(); t++) EXPECT_GT(fine.count[t], coarse.count[t]);
}

TEST(Solve, Fp32LeavesSmallErrors) {
  for (const std::string& name : preset_names()) {
    const Solver solver(Robot::preset(name));
    const std::vector<Pose> targets = solver.sample_targets(few(2000), 37);
    const SolveOptions options = open({.num_solutions = 2, .precision = Precision::fp32});
    const Result rough = solver.solve(view(targets), options);
    expect_sound(solver.robot(), targets, options, rough);
    double worst = 0;
    for (std::size_t t = 0; t < targets.size(); t++) {
      ASSERT_GE(rough.count[t], 1);
      // "Solved" means the same as ever, so that many rows are approximate only.
      EXPECT_EQ(rough.outcome[t] == Outcome::solved,
                rough.pos_err_m[2 * t] < 1e-6 && rough.ori_err_rad[2 * t] < 1e-6);
      worst = std::max({worst, rough.pos_err_m[2 * t], rough.ori_err_rad[2 * t]});
    }
    EXPECT_LT(worst, 1e-5);
    EXPECT_GT(worst, 1e-9) << "without a polish some error is left";
  }
}

TEST(Solve, PolishedRowsEndAtRounding) {
  for (const std::string& name : preset_names()) {
    const Solver solver(Robot::preset(name));
    const std::vector<Pose> targets = solver.sample_targets(few(2000), 38);
    for (const Precision precision : {Precision::automatic, Precision::fp64}) {
      const Result result = solver.solve(view(targets), open({.precision = precision}));
      std::vector<double> errors(result.pos_err_m.begin(), result.pos_err_m.end());
      std::sort(errors.begin(), errors.end());
      EXPECT_LT(errors[errors.size() / 2], 1e-12) << name;
    }
  }
}

TEST(Solve, CoarseSweepsOfBothOrders) {
  for (const std::string& name : preset_names()) {
    const Solver solver(Robot::preset(name));
    const std::vector<Pose> targets = solver.sample_targets(few(500), 39);
    const Result none = solver.solve(view(targets), open({.coarse_sweeps = 0}));
    for (const int sweeps : {1, 2}) {
      for (const CoarseOrder order : {CoarseOrder::sweep, CoarseOrder::greedy}) {
        const SolveOptions options = open({.coarse_sweeps = sweeps, .coarse_order = order});
        const Result result = solver.solve(view(targets), options);
        expect_sound(solver.robot(), targets, options, result);
        EXPECT_EQ(solved(result), std::int64_t(targets.size())) << name;
        EXPECT_FALSE(same_bits(result.q, none.q)) << "the sweeps were not run";
      }
    }
  }
}

TEST(Solve, SeedsChangeRowsButNotTheirValidity) {
  const Solver solver(Robot::preset("panda"));
  const std::vector<Pose> targets = solver.sample_targets(few(300), 40);
  std::vector<Result> results;
  for (const std::uint32_t seed : {0u, 1u, 1337u, 0xffffffffu}) {
    const SolveOptions options = open({.seed = seed});
    results.push_back(solver.solve(view(targets), options));
    expect_sound(solver.robot(), targets, options, results.back());
    EXPECT_EQ(solved(results.back()), std::int64_t(targets.size()));
    for (std::size_t k = 0; k + 1 < results.size(); k++) {
      std::size_t same = 0;
      for (std::size_t t = 0; t < targets.size(); t++) {
        same += largest_difference(solver.robot(), row(results[k], std::int64_t(t), 0).q,
                                   row(results.back(), std::int64_t(t), 0).q) < 1e-3;
      }
      EXPECT_LT(same, targets.size() / 10);
    }
  }
  EXPECT_TRUE(same_bits(results[2].q, solver.solve(view(targets), open()).q)) << "1337 is the default";
}

TEST(Solve, QuaternionsOfAnyNormAndSign) {
  const Solver solver(Robot::preset("iiwa14"));
  const std::vector<Pose> targets = solver.sample_targets(100, 41);
  const Result expected = solver.solve(view(targets), open({.num_solutions = 2}));
  const auto scaled = [&](double factor) {
    std::vector<Pose> result = targets;
    for (Pose& pose : result) {
      for (std::size_t k = 3; k < 7; k++) pose[k] *= factor;
    }
    return result;
  };
  // Powers of two scale exactly; so does the sign: the same bits.
  for (const double factor : {-1.0, 0x1p-900, 0x1p900, -0x1p10}) {
    const Result result = solver.solve(view(scaled(factor)), open({.num_solutions = 2}));
    EXPECT_TRUE(same_bits(result.q, expected.q)) << factor;
    EXPECT_TRUE(same_bits(result.ori_err_rad, expected.ori_err_rad)) << factor;
  }
  for (const double factor : {1e-300, 0.99996, 2.5, 1e300}) {
    const Result result = solver.solve(view(scaled(factor)), open({.num_solutions = 2}));
    ASSERT_EQ(result.count, expected.count) << factor;
    for (std::size_t k = 0; k < result.q.size(); k++) ASSERT_NEAR(result.q[k], expected.q[k], 1e-9) << factor;
  }
}

TEST(Solve, TargetsMayLieApart) {
  const Solver solver(Robot::preset("ur5e"));
  const std::vector<Pose> targets = solver.sample_targets(20, 42);
  std::vector<double> spread(20 * 11, std::nan(""));
  for (std::size_t t = 0; t < 20; t++)
    std::copy(targets[t].begin(), targets[t].end(), spread.begin() + std::ptrdiff_t(11 * t));
  EXPECT_TRUE(
      same_result(solver.solve({spread.data(), 20, 11}, open()), solver.solve(view(targets), open())));
}

TEST(Solve, NoTargets) {
  const Solver solver(Robot::preset("ur5e"));
  for (const bool stats : {false, true}) {
    const Result result = solver.solve({nullptr, 0}, open({.num_solutions = 3, .stats = stats}));
    EXPECT_EQ(result.targets, 0);
    EXPECT_EQ(result.capacity, 3);
    EXPECT_EQ(result.dof, 6);
    EXPECT_TRUE(result.q.empty() && result.pose.empty() && result.count.empty() && result.stats.empty());
  }
}

TEST(Solve, ProgressIsReportedOnTheCallersThread) {
  const Solver solver(Robot::preset("ur5e"), {.threads = 3});
  const std::vector<Pose> targets = solver.sample_targets(few(5000), 43);
  const SolveOptions options = open();
  Result result = solver.solve(view(targets), options);
  const Result expected = result;
  const ResultView out{result.q.data(),           result.pose.data(),  result.pos_err_m.data(),
                       result.ori_err_rad.data(), result.count.data(), result.outcome.data()};
  std::fill(result.q.begin(), result.q.end(), 0.0);
  std::vector<std::int64_t> reports;
  const auto caller = std::this_thread::get_id();
  solver.solve_into(view(targets), options, out, [&](std::int64_t done) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    reports.push_back(done);
  });
  ASSERT_FALSE(reports.empty());
  EXPECT_TRUE(std::is_sorted(reports.begin(), reports.end()));
  EXPECT_EQ(reports.back(), std::int64_t(targets.size()));
  EXPECT_TRUE(same_result(result, expected));
  // What it throws ends the solve and comes out.
  EXPECT_THROW(
      solver.solve_into(view(targets), options, out, [](std::int64_t) { throw std::runtime_error("stop"); }),
      std::runtime_error);
  EXPECT_TRUE(same_result(solver.solve(view(targets), options), expected));
}

// Arms that only turn, chains of one joint, of slides only, and long ones.
TEST(Solve, AnyChain) {
  Random random(44);
  for (int n = 1; n <= 32; n += n < 8 ? 1 : 6) {
    for (int k = 0; k < few(20); k++) {
      const Solver solver(load(random_chain(n, random.engine)));
      const std::vector<Pose> targets = solver.sample_targets(20, std::uint64_t(k));
      const SolveOptions options = open({.num_solutions = 2});
      const Result result = solver.solve(view(targets), options);
      expect_sound(solver.robot(), targets, options, result);
      if (testing::Test::HasFatalFailure()) return;
      EXPECT_EQ(solved(result), std::int64_t(targets.size())) << n << " joints, chain " << k;
    }
  }
}

TEST(Solve, WristWithoutLength) {
  std::string text = link("base") + link("l1") + link("l2") + link("tool");
  text += joint("j1", "revolute", "base", "l1", "<origin xyz=\"0.3 0 0.5\"/><axis xyz=\"0 0 1\"/>" + kLimit);
  text += joint("j2", "revolute", "l1", "l2", "<axis xyz=\"0 1 0\"/>" + kLimit);
  text += joint("j3", "revolute", "l2", "tool", "<axis xyz=\"1 0 0\"/>" + kLimit);
  const Solver solver(load(robot(text)));
  const std::vector<Pose> targets = solver.sample_targets(200);
  const Result result = solver.solve(view(targets), open());
  expect_sound(solver.robot(), targets, open(), result);
  EXPECT_EQ(solved(result), 200);
}

// Close to reach but not in it, for chains whose 6 x 6 matrix is singular everywhere.
TEST(Solve, RowsOfNearMissesAreFinite) {
  Random random(45);
  for (int n = 1; n <= 6; n++) {
    for (int k = 0; k < few(30); k++) {
      const Solver solver(load(random_chain(n, random.engine)));
      std::vector<Pose> targets = solver.sample_targets(30, std::uint64_t(k));
      for (Pose& target : targets) {
        const std::vector<double> direction = random.direction();
        const double far = random.magnitude(-7, -1);
        for (std::size_t i = 0; i < 3; i++) target[i] += far * direction[i];
      }
      const SolveOptions options = open({.num_solutions = 3, .batch_size = 50});
      expect_sound(solver.robot(), targets, options, solver.solve(view(targets), options));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Limits that leave nothing, a sliver, or less than a float's step.
TEST(Solve, NarrowLimits) {
  for (const double width : {0.0, 1e-9, 1e-7, 1e-4}) {
    const double lower = 0.7123456789;
    const std::string limit =
        "<limit lower=\"" + model::to_text(lower) + "\" upper=\"" + model::to_text(lower + width) + "\"/>";
    const Robot robot = load(Planar{.first = kZ + limit}.text());
    const Solver solver(robot);
    const std::vector<Pose> targets = solver.sample_targets(100, 46);
    const SolveOptions options = open();
    const Result result = solver.solve(view(targets), options);
    expect_sound(robot, targets, options, result);
    EXPECT_EQ(solved(result), 100) << width;
  }
}

// S in the thousands: all rows there are, and time that grows with S, not with its square.
TEST(Solve, ThousandsOfRows) {
  std::mt19937_64 random(47);
  const Robot robot = load(random_chain(20, random));
  const Solver solver(robot, {.threads = 1});
  const std::vector<Pose> targets = solver.sample_targets(1, 47);
  // Of this thread, whatever else the machine is busy with.
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
  };
  const auto seconds = [&](std::int64_t rows) {
    double best = 1e9;
    for (int repeat = 0; repeat < (kSanitized ? 1 : 3); repeat++) {
      const double begin = now();
      const SolveOptions options = open({.num_solutions = rows, .batch_size = 20'000});
      const Result result = solver.solve(view(targets), options);
      best = std::min(best, now() - begin);
      EXPECT_EQ(result.count[0], rows);
      if (repeat == 0) expect_sound(robot, targets, options, result);
    }
    return best;
  };
  const double few_rows = seconds(500), many_rows = seconds(8000);
  if (!kSanitized) {
    EXPECT_LT(many_rows, 100 * few_rows);  // the square would be 256
  }
}

TEST(Solve, MemoryStaysFlat) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep memory of their own";
  const Solver solver(Robot::preset("panda"), {.threads = 2});
  const std::vector<Pose> targets = solver.sample_targets(300, 50);
  const auto calls = [&](int count) {
    for (int k = 0; k < count; k++) {
      const std::int64_t t = 1 + k % 7;
      solver.solve({targets[std::size_t(k % 290)].data(), t},
                   open({.num_solutions = 1 + k % 5, .batch_size = 1 + k % 90}));
      if (k % 500 == 0) solver.solve(view(targets), open({.num_solutions = 3}));
    }
    return mallinfo2().uordblks;
  };
  const std::size_t before = calls(2000), after = calls(4000);
  EXPECT_LT(after, before + 64 * 1024);
}

TEST(Solve, MoreRowsThanCandidates) {
  const Solver solver(Robot::preset("panda"));
  const std::vector<Pose> targets = solver.sample_targets(20, 48);
  const SolveOptions options = open({.num_solutions = 500, .batch_size = 3, .stats = true});
  const Result result = solver.solve(view(targets), options);
  expect_sound(solver.robot(), targets, options, result);
  // Three candidates of 22 starts each.
  for (const std::int64_t count : result.count) EXPECT_LE(count, 66);
}

TEST(Statistics, CountCandidatesUpToTheLastRow) {
  const Solver solver(Robot::preset("panda"));
  const std::vector<Pose> targets = solver.sample_targets(few(300), 49);
  for (const std::int64_t candidates : {1, 8, 64, 500}) {
    for (const std::int64_t rows : {1, 3}) {
      const SolveOptions options = open({.num_solutions = rows, .batch_size = candidates, .stats = true});
      const Result result = solver.solve(view(targets), options);
      expect_sound(solver.robot(), targets, options, result);
      double refined = 0;
      for (std::size_t t = 0; t < targets.size(); t++) {
        const TargetStats& s = result.stats[t];
        if (result.count[t] < rows) {
          EXPECT_EQ(s.n_refined, candidates) << "rows are missing: all were tried";
        }
        // A candidate of one start gives a row at most.
        if (candidates >= 64) {
          EXPECT_GE(s.n_ik_accurate, result.count[t]);
        }
        refined += double(s.n_refined);
      }
      if (candidates == 500 && rows == 1) {
        EXPECT_LT(refined / double(targets.size()), 10) << "the search goes on after it has its row";
      }
    }
  }
}

TEST(Budget, SpreadsSixtyFourStarts) {
  for (const auto& [candidates, starts] :
       {std::pair{1, 64}, std::pair{10, 7}, std::pair{63, 2}, std::pair{64, 1}, std::pair{2000, 1}}) {
    const Budget b = budget(candidates);
    EXPECT_EQ(b.candidates, candidates);
    EXPECT_EQ(b.starts_per_candidate, starts);
    EXPECT_EQ(b.iterations_per_start, 20);
  }
}

TEST(SampleTargets, AreForwardKinematicsOfPointsInTheLimits) {
  for (const Robot& robot : sample_robots(8)) {
    const Solver solver(robot);
    const std::vector<double> q = solver.sample_configurations(50, 3);
    const std::vector<Pose> targets = solver.sample_targets(50, 3);
    ASSERT_EQ(q.size(), 50u * std::size_t(robot.dof()));
    ASSERT_EQ(targets.size(), 50u);
    for (std::size_t t = 0; t < 50; t++) {
      const std::span<const double> point =
          std::span(q).subspan(t * std::size_t(robot.dof()), std::size_t(robot.dof()));
      EXPECT_TRUE(inside_limits(robot, point));
      EXPECT_EQ(targets[t], robot.forward_kinematics(point));
    }
    EXPECT_NE(solver.sample_configurations(50, 4), q);
    const std::vector<double> fewer = solver.sample_configurations(10, 3);
    EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), q.begin())) << "points are numbered from the first";
  }
}

}  // namespace
}  // namespace hjcdik
