// What is refused, in which words, and that nothing has changed then.
#include <limits>

#include "rows.hpp"

namespace hjcdik {
namespace {

using namespace test;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInfinity = std::numeric_limits<double>::infinity();

class Validation : public testing::Test {
 protected:
  // Solves into memory full of a pattern: the message must hold every part, the memory the pattern.
  void expect_refused(const std::vector<Pose>& targets, const SolveOptions& options,
                      const std::vector<std::string>& parts) {
    const std::size_t rows =
        targets.size() * std::size_t(std::clamp<std::int64_t>(options.num_solutions, 1, 4));
    std::vector<double> q(rows * 7, 42), pose(rows * 7, 42), distance(rows, 42), angle(rows, 42);
    std::vector<std::int64_t> count(targets.size(), 42);
    std::vector<Outcome> outcome(targets.size(), Outcome::environment_collision);
    std::vector<TargetStats> stats(targets.size());
    const ResultView out{q.data(),     pose.data(),    distance.data(), angle.data(),
                         count.data(), outcome.data(), stats.data()};
    const auto expect_message = [&](const auto& call) {
      try {
        call();
        ADD_FAILURE() << "accepted: " << parts[0];
      } catch (const InvalidArgument& error) {
        for (const std::string& part : parts) {
          EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
              << part << " not in: " << error.what();
        }
      }
    };
    bool reported = false;
    expect_message(
        [&] { solver_.solve_into(view(targets), options, out, [&](std::int64_t) { reported = true; }); });
    expect_message([&] { solver_.solve(view(targets), options); });
    EXPECT_FALSE(reported);
    for (const auto* memory : {&q, &pose, &distance, &angle}) {
      EXPECT_TRUE(std::all_of(memory->begin(), memory->end(), [](double v) { return v == 42; }));
    }
    EXPECT_TRUE(std::all_of(count.begin(), count.end(), [](std::int64_t v) { return v == 42; }));
    EXPECT_TRUE(std::all_of(outcome.begin(), outcome.end(),
                            [](Outcome v) { return v == Outcome::environment_collision; }));
    EXPECT_TRUE(
        std::all_of(stats.begin(), stats.end(), [](const TargetStats& s) { return s.batch_size == -1; }));
  }

  const Solver solver_{Robot::preset("panda"), {.threads = 2}};
  const std::vector<Pose> targets_ = solver_.sample_targets(5);
};

TEST_F(Validation, EveryFieldOfAPose) {
  const char* fields[7] = {"x", "y", "z", "qw", "qx", "qy", "qz"};
  for (std::size_t t : {std::size_t(0), std::size_t(4)}) {
    for (std::size_t k = 0; k < 7; k++) {
      for (const auto& [value, text] :
           {std::pair{kNan, "nan"}, std::pair{kInfinity, "inf"}, std::pair{-kInfinity, "-inf"}}) {
        std::vector<Pose> targets = targets_;
        targets[t][k] = value;
        expect_refused(
            targets, {},
            {"poses[" + std::to_string(t) + "]", std::string(fields[k]) + " is " + text, "finite"});
      }
    }
  }
}

TEST_F(Validation, ZeroQuaternionAndFarTargets) {
  std::vector<Pose> targets = targets_;
  targets[3][3] = targets[3][4] = targets[3][5] = targets[3][6] = 0;
  expect_refused(targets, {}, {"poses[3]", "quaternion", "zero"});
  targets = targets_;
  targets[2][3] = targets[2][4] = targets[2][5] = 0;
  targets[2][6] = -0.0;
  expect_refused(targets, {}, {"poses[2]", "quaternion"});
  targets = targets_;
  targets[1][1] = -2e9;
  expect_refused(targets, {}, {"poses[1]", "y is", "1e9"});
  targets[1][1] = 1e300;
  expect_refused(targets, {}, {"poses[1]", "y is"});
  // The first fault is named.
  targets = targets_;
  targets[2][5] = kNan;
  targets[4][0] = kNan;
  expect_refused(targets, {}, {"poses[2]", "qy"});
}

TEST_F(Validation, Options) {
  expect_refused(targets_, {.num_solutions = 0}, {"num_solutions", "positive"});
  expect_refused(targets_, {.num_solutions = -1}, {"num_solutions", "positive"});
  expect_refused(targets_, {.batch_size = 0}, {"batch_size", "positive"});
  expect_refused(targets_, {.batch_size = -5}, {"batch_size", "positive"});
  expect_refused(
      targets_, {.batch_size = Solver::max_batch_size() + 1},
      {"batch_size", std::to_string(Solver::max_batch_size() + 1), std::to_string(Solver::max_batch_size())});
  expect_refused(targets_, {.batch_size = std::numeric_limits<std::int64_t>::max()}, {"batch_size"});
  for (const double v : {-0.1, kNan, kInfinity})
    expect_refused(targets_, {.distinct_rad = v}, {"distinct_rad"});
  expect_refused(targets_, {.coarse_sweeps = -2}, {"coarse_sweeps"});
}

TEST_F(Validation, WarmStarts) {
  std::vector<double> q = solver_.sample_configurations(10);
  expect_refused(targets_, {.q_init = q.data(), .q_init_rows = 0}, {"q_init_rows", "positive"});
  expect_refused(targets_, {.batch_size = 3, .q_init = q.data(), .q_init_rows = 4},
                 {"4 rows", "batch_size (3"});
  q[7 * 2 + 3] = kNan;
  expect_refused(targets_, {.q_init = q.data(), .q_init_rows = 3}, {"q_init[2]", "'panda_joint4'", "nan"});
  SolveOptions per_target{.q_init = q.data(), .q_init_rows = 2};
  per_target.q_init_per_target = true;
  expect_refused(targets_, per_target, {"q_init[1, 0]", "'panda_joint4'", "nan"});
  q[7 * 2 + 3] = 0;
  q[7 * 9 + 6] = -kInfinity;
  expect_refused(targets_, per_target, {"q_init[4, 1]", "'panda_joint7'", "-inf"});
}

TEST_F(Validation, Views) {
  EXPECT_THROW(solver_.solve({nullptr, 3}), InvalidArgument);
  EXPECT_THROW(solver_.solve({targets_[0].data(), -1}), InvalidArgument);
  EXPECT_THROW(solver_.solve({targets_[0].data(), 2, 6}), InvalidArgument);
  // Missing memory is found before any work.
  std::vector<double> q(7, 42), pose(7, 42), distance(1, 42), angle(1, 42);
  std::int64_t count = 42;
  Outcome outcome = Outcome::solved;
  const ResultView whole{q.data(), pose.data(), distance.data(), angle.data(), &count, &outcome};
  const TargetView one{targets_[0].data(), 1};
  for (int missing = 0; missing < 6; missing++) {
    ResultView out = whole;
    if (missing == 0) out.q = nullptr;
    if (missing == 1) out.pose = nullptr;
    if (missing == 2) out.pos_err_m = nullptr;
    if (missing == 3) out.ori_err_rad = nullptr;
    if (missing == 4) out.count = nullptr;
    if (missing == 5) out.outcome = nullptr;
    EXPECT_THROW(solver_.solve_into(one, {}, out), InvalidArgument);
  }
  EXPECT_THROW(solver_.solve_into(one, {.stats = true}, whole), InvalidArgument);
  EXPECT_EQ(q[0], 42);
  EXPECT_EQ(count, 42);
  EXPECT_NO_THROW(solver_.solve_into(one, {}, whole));
  EXPECT_EQ(count, 1);
}

TEST_F(Validation, Samples) {
  EXPECT_THROW(solver_.sample_targets(0), InvalidArgument);
  EXPECT_THROW(solver_.sample_configurations(-1), InvalidArgument);
}

TEST_F(Validation, SolverOptions) {
  const Robot robot = Robot::preset("ur5e");
  EXPECT_EQ(Solver(robot, {.device = "cpu", .threads = 3}).device(), "cpu");
  EXPECT_EQ(Solver(robot, {.device = "cpu", .threads = 3}).threads(), 3);
  EXPECT_THROW(Solver(robot, {.device = "gpu"}), InvalidArgument);
  EXPECT_THROW(Solver(robot, {.device = "CPU"}), InvalidArgument);
  EXPECT_THROW(Solver(robot, {.threads = -1}), InvalidArgument);
  EXPECT_THROW(Solver(robot, {.isa = "neon512"}), InvalidArgument);
}

// A refused call leaves the solver as it was.
TEST_F(Validation, SolverWorksAfterwards) {
  const Result before = solver_.solve(view(targets_));
  std::vector<Pose> bad = targets_;
  bad[1][0] = kNan;
  EXPECT_THROW(solver_.solve(view(bad)), InvalidArgument);
  EXPECT_TRUE(same_result(solver_.solve(view(targets_)), before));
}

}  // namespace
}  // namespace hjcdik
