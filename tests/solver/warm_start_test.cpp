// q_init: what is exact comes back, what is near comes first.
#include "rows.hpp"

namespace hjcdik {
namespace {

using namespace test;
constexpr double kTurn = 2 * std::numbers::pi;

// Nearness as documented: Euclidean, continuous joints modulo a turn.
double nearness(const Robot& robot, std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); i++) {
    double d = a[i] - b[i];
    if (robot.joints()[i].type == JointType::continuous) d = std::remainder(d, kTurn);
    sum += d * d;
  }
  return std::sqrt(sum);
}

class WarmPreset : public testing::TestWithParam<std::string> {
 protected:
  Solver solver_{Robot::preset(GetParam())};
  const Robot& robot() const { return solver_.robot(); }
  std::size_t dof() const { return std::size_t(robot().dof()); }
};
INSTANTIATE_TEST_SUITE_P(Presets, WarmPreset, testing::ValuesIn(preset_names()),
                         [](const auto& info) { return info.param; });

TEST_P(WarmPreset, ExactRowsComeBackBitForBit) {
  const std::vector<double> q = solver_.sample_configurations(100, 51);
  const std::vector<Pose> targets = solver_.sample_targets(100, 51);
  for (const Precision precision : {Precision::automatic, Precision::fp32}) {
    for (const std::int64_t rows : {1, 3}) {
      SolveOptions options =
          open({.num_solutions = rows, .precision = precision, .q_init = q.data(), .q_init_rows = 1});
      options.q_init_per_target = true;
      const Result result = solver_.solve(view(targets), options);
      expect_sound(robot(), targets, options, result);
      for (std::size_t t = 0; t < targets.size(); t++) {
        const std::vector<double> given(q.begin() + std::ptrdiff_t(t * dof()),
                                        q.begin() + std::ptrdiff_t((t + 1) * dof()));
        ASSERT_TRUE(same_bits(joints_of(row(result, std::int64_t(t), 0)), given)) << "target " << t;
      }
    }
  }
}

// The exact row among others, wherever it stands.
TEST_P(WarmPreset, ExactRowAmongOthers) {
  const std::vector<double> q = solver_.sample_configurations(5, 52);
  for (std::size_t k = 0; k < 5; k++) {
    const std::vector<double> exact(q.begin() + std::ptrdiff_t(k * dof()),
                                    q.begin() + std::ptrdiff_t((k + 1) * dof()));
    const Pose target = robot().forward_kinematics(exact);
    const Result result = solver_.solve(target, open({.q_init = q.data(), .q_init_rows = 5}));
    EXPECT_EQ(result.outcome[0], Outcome::solved);
    EXPECT_TRUE(same_bits(result.q, exact)) << "row " << k;
  }
}

TEST_P(WarmPreset, NearestFirst) {
  Random random(53);
  const std::vector<Pose> targets = solver_.sample_targets(few(100), 53);
  for (const std::int64_t k : {1, 4}) {
    const std::vector<double> q = solver_.sample_configurations(k, 54);
    const SolveOptions options = open({.num_solutions = 6, .q_init = q.data(), .q_init_rows = k});
    const Result result = solver_.solve(view(targets), options);
    expect_sound(robot(), targets, options, result);
    EXPECT_EQ(solved(result), std::int64_t(targets.size()));
    for (std::int64_t t = 0; t < result.targets; t++) {
      double last = 0;
      for (std::int64_t r = 0; r < result.count[std::size_t(t)]; r++) {
        double nearest = 1e9;
        for (std::size_t w = 0; w < std::size_t(k); w++) {
          nearest = std::min(nearest,
                             nearness(robot(), row(result, t, r).q, std::span(q).subspan(w * dof(), dof())));
        }
        ASSERT_GE(nearest, last - 1e-12) << "target " << t << " row " << r;
        last = nearest;
      }
    }
  }
}

// A target a small motion away is answered nearby, not by another branch.
TEST_P(WarmPreset, SmallMotionsStayNear) {
  Random random(55);
  const std::vector<double> q = solver_.sample_configurations(few(500), 55);
  int near = 0, all = 0;
  for (std::size_t first = 0; first < q.size(); first += dof()) {
    const std::vector<double> from(q.begin() + std::ptrdiff_t(first),
                                   q.begin() + std::ptrdiff_t(first + dof()));
    std::vector<double> to = from;
    for (std::size_t i = 0; i < dof(); i++) {
      to[i] = std::clamp(to[i] + random.uniform(-0.02, 0.02), robot().joints()[i].lower,
                         robot().joints()[i].upper);
    }
    const Result result =
        solver_.solve(robot().forward_kinematics(to), open({.q_init = from.data(), .q_init_rows = 1}));
    ASSERT_EQ(result.outcome[0], Outcome::solved);
    near += largest_difference(robot(), result.q, from) < 0.2;
    all++;
  }
  // All but those at a singularity.
  EXPECT_GT(near, all * 97 / 100);
}

TEST_P(WarmPreset, PutIntoTheLimits) {
  const std::vector<Pose> targets = solver_.sample_targets(few(100), 56);
  for (const double far : {-50.0, 50.0}) {
    const std::vector<double> q(dof(), far);
    const SolveOptions options = open({.num_solutions = 2, .q_init = q.data(), .q_init_rows = 1});
    const Result result = solver_.solve(view(targets), options);
    expect_sound(robot(), targets, options, result);
    EXPECT_EQ(solved(result), std::int64_t(targets.size()));
  }
}

TEST_P(WarmPreset, TheGivenRowsAreNotChanged) {
  std::vector<double> q = solver_.sample_configurations(3, 57);
  q[0] += 100;
  const std::vector<double> before = q;
  solver_.solve(solver_.sample_targets(1, 57)[0], open({.q_init = q.data(), .q_init_rows = 3}));
  EXPECT_TRUE(same_bits(q, before));
}

// As many warm starts as candidates leave no random ones; S rows among them end the search.
TEST_P(WarmPreset, SearchStopsOnceThereAreEnough) {
  const std::vector<double> q = solver_.sample_configurations(40, 58);
  const std::vector<Pose> targets = solver_.sample_targets(40, 58);
  SolveOptions options = open({.batch_size = 200, .stats = true, .q_init = q.data(), .q_init_rows = 1});
  options.q_init_per_target = true;
  const Result one = solver_.solve(view(targets), options);
  for (std::size_t t = 0; t < targets.size(); t++) EXPECT_EQ(one.stats[t].n_refined, 1);
  SolveOptions full =
      open({.num_solutions = 4, .batch_size = 40, .stats = true, .q_init = q.data(), .q_init_rows = 40});
  const Result all = solver_.solve(view(targets), full);
  expect_sound(robot(), targets, full, all);
  for (const TargetStats& s : all.stats) EXPECT_LE(s.n_refined, 40);
}

// Out of reach the end of a warm start counts like any other end: random starts that come after it may
// only better the first row.
TEST_P(WarmPreset, ApproximateRowsIncludeTheWarmStart) {
  std::vector<Pose> targets = solver_.sample_targets(50, 59);
  for (Pose& target : targets) target[2] += 4;
  const std::vector<double> q = solver_.sample_configurations(50, 60);
  const auto score = [](const Result& result) { return result.pos_err_m[0] + 0.3 * result.ori_err_rad[0]; };
  int better = 0;
  for (std::size_t t = 0; t < targets.size(); t++) {
    std::vector<double> warm;
    for (int k = 0; k < 64; k++) {
      warm.insert(warm.end(), q.begin() + std::ptrdiff_t(t * dof()),
                  q.begin() + std::ptrdiff_t((t + 1) * dof()));
    }
    // 64 candidates, all warm: no random start.
    const double alone =
        score(solver_.solve(targets[t], open({.batch_size = 64, .q_init = warm.data(), .q_init_rows = 64})));
    const SolveOptions options = open({.batch_size = 64, .q_init = warm.data(), .q_init_rows = 1});
    const Result result = solver_.solve(targets[t], options);
    expect_sound(robot(), {targets[t]}, options, result);
    EXPECT_LE(score(result), alone + 1e-3) << "target " << t;
    better += score(result) < alone - 1e-3;
  }
  EXPECT_GT(better, 0);
}

// Joints of more than a turn: the equivalent next to q_init, not the one next to mid-range.
TEST(WarmStart, NearestEquivalentOfWideJoints) {
  const Solver solver(Robot::preset("ur5e"));
  const std::vector<double> q_init = {5.5, -1, 1, -1, -1, 0.2};
  std::vector<double> goal = q_init;
  for (double& v : goal) v += 0.05;
  const Pose target = solver.robot().forward_kinematics(goal);
  for (const std::int64_t rows : {1, 8}) {
    const Result result =
        solver.solve(target, open({.num_solutions = rows, .q_init = q_init.data(), .q_init_rows = 1}));
    for (std::size_t i = 0; i < 6; i++) EXPECT_NEAR(result.q[i], q_init[i], 0.1);
  }
  const Result without = solver.solve(target, open({.num_solutions = 8}));
  for (std::int64_t r = 0; r < without.count[0]; r++) {
    // Joints of four pi: no row is farther than half a turn from mid-range.
    for (const std::size_t i : {std::size_t(0), std::size_t(1), std::size_t(5)}) {
      EXPECT_LE(std::abs(row(without, 0, r).q[i]), std::numbers::pi + 1e-9);
    }
  }
}

TEST(WarmStart, ContinuousJointsAreWrapped) {
  const Robot robot = load(Planar{.first_type = "continuous", .first = kZ}.text());
  const Solver solver(robot);
  const std::vector<double> goal = {3.0, 0.5};
  const Pose target = robot.forward_kinematics(goal);
  for (const double turns : {-3.0, -1.0, 1.0, 2.0}) {
    const std::vector<double> q_init = {3.0 + turns * kTurn, 0.5};
    const Result result =
        solver.solve(target, open({.num_solutions = 2, .q_init = q_init.data(), .q_init_rows = 1}));
    EXPECT_NEAR(result.q[0], 3.0, 1e-12);
    EXPECT_NEAR(result.q[1], 0.5, 1e-12);
  }
  // Across the seam: a tenth of a radian, not a turn less.
  const Pose beyond = robot.forward_kinematics(std::vector<double>{-3.1, 0.5});
  const std::vector<double> before_seam = {3.1, 0.5};
  const Result result =
      solver.solve(beyond, open({.num_solutions = 2, .q_init = before_seam.data(), .q_init_rows = 1}));
  EXPECT_NEAR(result.q[0], -3.1, 1e-6);
  // An exact configuration stays exact with turns added: nothing is searched.
  const Solver fetch(Robot::preset("fetch"));
  const std::vector<double> q = fetch.sample_configurations(20, 62);
  std::vector<double> turned = q;
  for (std::size_t k = 0; k < q.size(); k++) {
    if (fetch.robot().joints()[k % 7].type == JointType::continuous) turned[k] += k % 2 ? kTurn : -2 * kTurn;
  }
  SolveOptions options = open({.q_init = turned.data(), .q_init_rows = 1});
  options.q_init_per_target = true;
  const Result exact = fetch.solve(view(fetch.sample_targets(20, 62)), options);
  EXPECT_FALSE(same_bits(turned, q)) << "no continuous joint was turned";
  for (std::size_t k = 0; k < q.size(); k++) EXPECT_NEAR(exact.q[k], q[k], 1e-12);
}

TEST(WarmStart, SlidesAreClampedNotWrapped) {
  const Robot robot =
      load(Planar{.first_type = "prismatic", .first = kZ + "<limit lower=\"0\" upper=\"10\"/>"}.text());
  const Solver solver(robot);
  const std::vector<double> q_init = {12, 0.5};
  const Result result = solver.solve(robot.forward_kinematics(std::vector<double>{10, 0.5}),
                                     open({.q_init = q_init.data(), .q_init_rows = 1}));
  EXPECT_EQ(result.q[0], 10.0);
  const Result five = solver.solve(robot.forward_kinematics(std::vector<double>{5, 0.5}), open());
  EXPECT_NEAR(five.q[0], 5.0, 1e-9);
}

// Few candidates: warm starts take the first places, all others still run.
TEST(WarmStart, FewCandidates) {
  const Solver solver(Robot::preset("panda"));
  const std::vector<Pose> targets = solver.sample_targets(few(300), 60);
  for (const std::int64_t candidates : {1, 2, 10}) {
    for (std::int64_t k = 1; k <= candidates; k += 4) {
      const std::vector<double> q = solver.sample_configurations(k, 61);
      const SolveOptions options = open({.num_solutions = 2,
                                         .batch_size = candidates,
                                         .stats = true,
                                         .q_init = q.data(),
                                         .q_init_rows = k});
      const Result result = solver.solve(view(targets), options);
      expect_sound(solver.robot(), targets, options, result);
      EXPECT_GE(double(solved(result)), 0.98 * double(targets.size())) << candidates << " candidates";
    }
  }
}

}  // namespace
}  // namespace hjcdik
