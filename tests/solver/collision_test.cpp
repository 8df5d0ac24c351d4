// Collision-aware solves. What is free is decided by the plain loops of plain_world.hpp.
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <numeric>
#include <thread>

#include "plain_world.hpp"
#include "rows.hpp"

namespace hjcdik {
namespace {

using namespace test;

constexpr double kRounding = 1e-12;

std::vector<World> worlds_of(const std::vector<PlainWorld>& plain) {
  std::vector<World> worlds;
  for (const PlainWorld& w : plain) worlds.push_back(w.world());
  return worlds;
}

// Worlds around an arm in which many targets are hard or impossible, and the empty one.
std::vector<PlainWorld> cluttered(std::uint64_t seed = 90) {
  Random random(seed);
  std::vector<PlainWorld> plain;
  for (const int count : {3, 20, 80}) {
    PlainWorld& world = plain.emplace_back();
    world.exact_cylinders = count == 20;
    while (world.size() < std::size_t(count)) {
      // Not where the arm stands.
      const PlainWorld one = random_world(random, 1, 0.9, -1.5, -0.5);
      if (std::min({one.distance({0, 0, 0}), one.distance({0, 0, 0.2}), one.distance({0, 0, 0.4})}) > 0.25)
        world.add(one);
    }
  }
  plain.push_back({.boxes = {{0, 0, -0.3, 1, 0, 0, 0, 4, 4, 0.4}, {0.6, 0, 0.1, 1, 0, 0, 0, 0.4, 1, 0.05}}});
  plain.push_back({});
  return plain;
}

// By how much a configuration is free: less than 0 where it collides.
double room(const Robot& robot, const PlainWorld& world, std::span<const double> q,
            const SolveOptions& o = {}) {
  const PlainVerdict v = judge(robot, world, q);
  return std::min(o.self_collision ? v.self : kNoObstacle, v.world - o.collision_margin_m);
}

// One slide along x from -2 to 2 m that carries one sphere: every target has one solution.
Robot slide(double radius, const Point& at) {
  const std::string limit = "<axis xyz=\"1 0 0\"/><limit lower=\"-2\" upper=\"2\"/>";
  RobotOptions options;
  options.ee_link = "tool";
  options.spheres = "{\"spheres\": {\"tool\": [[" + model::to_text(at.x) + ", " + model::to_text(at.y) +
                    ", " + model::to_text(at.z) + ", " + model::to_text(radius) + "]]}}";
  return Robot::from_urdf_text(
      robot(link("base") + link("tool") + joint("j", "prismatic", "base", "tool", limit)), options);
}
Pose slid_to(double x) { return {x, 0, 0, 1, 0, 0, 0}; }

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

class Arm : public testing::TestWithParam<std::string> {
 protected:
  Arm() {
    solver_.set_worlds(worlds_of(plain_));
    take(few(150));
  }
  // Target t is the same whatever their number.
  void take(std::int64_t targets) {
    targets_ = solver_.sample_targets(targets, 91);
    index_.clear();
    for (std::size_t t = 0; t < targets_.size(); t++) index_.push_back(std::int32_t(t % 6) - 1);
  }
  const Robot& robot() const { return solver_.robot(); }
  std::size_t dof() const { return std::size_t(robot().dof()); }
  const PlainWorld& world(std::size_t t) const {
    static const PlainWorld empty;
    return index_[t] < 0 ? empty : plain_[std::size_t(index_[t])];
  }
  SolveOptions in_worlds(SolveOptions options) const {
    options.world_index = index_.data();
    return options;
  }
  Result solve(const SolveOptions& options) const {
    const Result result = solver_.solve(view(targets_), options);
    expect_sound(robot(), targets_, options, result);
    return result;
  }
  void expect_free(const SolveOptions& options, const Result& result) const {
    for (std::size_t t = 0; t < targets_.size(); t++) {
      for (std::int64_t r = 0; r < result.count[t]; r++) {
        ASSERT_GE(room(robot(), world(t), row(result, std::int64_t(t), r).q, options), -kRounding)
            << "target " << t << " row " << r;
      }
    }
  }

  const std::vector<PlainWorld> plain_ = cluttered();
  Solver solver_{Robot::preset(GetParam())};
  std::vector<Pose> targets_;
  std::vector<std::int32_t> index_;
};
INSTANTIATE_TEST_SUITE_P(Presets, Arm, testing::Values("panda", "iiwa14", "ur5e"),
                         [](const auto& info) { return info.param; });

TEST_P(Arm, RowsAreFree) {
  std::map<Outcome, int> outcomes;
  for (int k = 0; k < 8; k++) {
    const SolveOptions options = in_worlds({.num_solutions = k % 2 ? 4 : 1,
                                            .batch_size = 100,
                                            .collision = k < 4 ? Collision::automatic : Collision::both,
                                            .collision_margin_m = k / 2 % 2 ? 0.02 : 0,
                                            .self_collision = k % 3 != 1});
    const Result result = solve(options);
    expect_free(options, result);
    if (HasFatalFailure()) return;
    for (const Outcome outcome : result.outcome) {
      outcomes[outcome]++;
      ASSERT_TRUE(options.self_collision || outcome != Outcome::self_collision);
    }
  }
  for (const Outcome outcome : {Outcome::solved, Outcome::environment_collision})
    if (!kSanitized) {  // else too few to tell
      EXPECT_GT(outcomes[outcome], 80) << to_string(outcome);
    }
}

TEST_P(Arm, RowsAreFreeWithoutThePolish) {
  const SolveOptions options = in_worlds({.num_solutions = 2, .precision = Precision::fp32});
  const Result result = solve(options);
  expect_free(options, result);
  for (std::size_t t = 0; t < targets_.size(); t++) {
    if (result.count[t] == 0) continue;
    EXPECT_LT(result.pos_err_m[2 * t], result.outcome[t] == Outcome::solved ? 1e-6 : 5e-3);
  }
}

// An open-world solve lists solutions; whatever of them is free, a hard solve finds at least as many.
TEST_P(Arm, FindsWhatIsThere) {
  const std::int64_t rows = 12;
  const Result all = solver_.solve(view(targets_), open({.num_solutions = rows}));
  const Result hard = solve(in_worlds({.num_solutions = rows}));
  int free = 0, lost = 0, collide = 0;
  for (std::size_t t = 0; t < targets_.size(); t++) {
    std::vector<std::vector<double>> expected;
    for (std::int64_t r = 0; r < all.count[t]; r++) {
      const Row found = row(all, std::int64_t(t), r);
      if (room(robot(), world(t), found.q) > 1e-9) expected.push_back(joints_of(found));
    }
    collide += expected.size() < std::size_t(all.count[t]);
    free += !expected.empty();
    lost += !expected.empty() && hard.outcome[t] != Outcome::solved;
    if (robot().dof() > 6) continue;
    // Six joints: the same rows in the same order, at most eight.
    ASSERT_EQ(hard.outcome[t] == Outcome::solved, !expected.empty()) << "target " << t;
    if (expected.empty()) continue;
    ASSERT_EQ(hard.count[t], std::int64_t(expected.size())) << "target " << t;
    for (std::size_t r = 0; r < expected.size(); r++) {
      ASSERT_LT(largest_difference(robot(), expected[r], row(hard, std::int64_t(t), std::int64_t(r)).q), 1e-5)
          << "target " << t << " row " << r;
    }
  }
  EXPECT_EQ(lost, 0) << "of " << free;
  EXPECT_GT(collide, int(targets_.size()) / 4);
}

// Walks along the self-motion find rows that no start ends in.
TEST_P(Arm, SelfMotionHelps) {
  std::int64_t rows[2];
  for (const bool walks : {false, true}) {
    SolveOptions options = in_worlds({.num_solutions = 60, .batch_size = 64});
    options.self_motion = walks;
    const Result result = solve(options);
    expect_free(options, result);
    rows[walks] = std::accumulate(result.count.begin(), result.count.end(), std::int64_t{0});
  }
  if (robot().dof() == 6) {
    EXPECT_EQ(rows[1], rows[0]) << "no such motion";
  } else {
    EXPECT_GT(rows[1], rows[0]);
  }
}

TEST_P(Arm, SoftRowsComeByPenetration) {
  take(few(40));
  const Result all = solver_.solve(view(targets_), open({.num_solutions = 4}));
  std::vector<std::int32_t> index = index_;
  for (std::int32_t& w : index) w = std::max(w, 0) % 4;  // none of the empty ones
  SolveOptions options{.num_solutions = 4, .stats = true, .collision = Collision::soft};
  options.world_index = index.data();
  const Result soft = solver_.solve(view(targets_), options);
  expect_sound(robot(), targets_, options, soft);
  int better = 0, touching = 0;
  for (std::size_t t = 0; t < targets_.size(); t++) {
    const PlainWorld& w = plain_[std::size_t(index[t])];
    const auto depth = [&](const Result& result, std::int64_t r) {
      return judge(robot(), w, row(result, std::int64_t(t), r).q).penetration;
    };
    ASSERT_EQ(soft.outcome[t], Outcome::solved);
    ASSERT_EQ(soft.count[t], all.count[t]) << "a ranking drops nothing";
    double last = 0;
    for (std::int64_t r = 0; r < soft.count[t]; r++) {
      ASSERT_GE(depth(soft, r), last - kRounding) << "target " << t << " row " << r;
      last = depth(soft, r);
    }
    touching += last > 0;
    double least = kNoObstacle;
    for (std::int64_t r = 0; r < all.count[t]; r++) least = std::min(least, depth(all, r));
    ASSERT_LE(depth(soft, 0), least + 1e-6) << "target " << t;
    better += depth(soft, 0) < least - 1e-6;
    // Of the rows, by the world alone.
    std::int64_t clear = 0;
    for (std::int64_t r = 0; r < soft.count[t]; r++) clear += depth(soft, r) == 0;
    ASSERT_EQ(soft.stats[t].n_returned_coll_free, clear);
  }
  if (!kSanitized) {
    EXPECT_GT(touching, 0);
  }
  if (robot().dof() > 6 && !kSanitized) {
    EXPECT_GT(better, 0);
  }
}

TEST_P(Arm, StatisticsAddUpAndChangeNoRow) {
  take(few(40));
  for (const Collision mode : {Collision::hard, Collision::both}) {
    for (const std::int64_t rows : {1, 3}) {
      for (const std::int64_t candidates : {1, 10, 100}) {
        SolveOptions options =
            in_worlds({.num_solutions = rows, .batch_size = candidates, .collision = mode});
        const Result without = solve(options);
        options.stats = true;
        const Result with = solve(options);
        if (HasFatalFailure()) return;
        EXPECT_TRUE(same_bits(with.q, without.q));
        EXPECT_EQ(with.count, without.count);
        EXPECT_EQ(with.outcome, without.outcome);
        for (std::size_t t = 0; t < targets_.size(); t++) {
          const TargetStats& s = with.stats[t];
          EXPECT_EQ(s.n_returned_coll_free, with.count[t]) << "rows are free";
          if (with.count[t] < rows && with.outcome[t] != Outcome::no_accurate) {
            EXPECT_EQ(s.n_refined, candidates) << "rows are missing: all were tried";
          }
          if (with.outcome[t] != Outcome::solved && with.outcome[t] != Outcome::approximate) {
            EXPECT_EQ(s.n_feasible, 0);
            EXPECT_EQ(s.pct_returned_coll_free, 0);
          }
        }
      }
    }
  }
}

TEST_P(Arm, ExactWarmStartsThatAreFreeComeBackBitForBit) {
  const std::vector<double> q = solver_.sample_configurations(std::int64_t(targets_.size()), 91);
  int free = 0;
  for (const Precision precision : {Precision::automatic, Precision::fp32}) {
    SolveOptions options = in_worlds({.precision = precision, .q_init = q.data(), .q_init_rows = 1});
    options.q_init_per_target = true;
    const Result result = solve(options);
    expect_free(options, result);
    for (std::size_t t = 0; t < targets_.size(); t++) {
      const std::vector<double> given(q.begin() + std::ptrdiff_t(t * dof()),
                                      q.begin() + std::ptrdiff_t((t + 1) * dof()));
      const double clearance = room(robot(), world(t), given);
      if (std::abs(clearance) < 1e-9) continue;
      free += clearance > 0;
      if (clearance > 0) {
        ASSERT_TRUE(same_bits(joints_of(row(result, std::int64_t(t), 0)), given)) << "target " << t;
      } else if (result.count[t] > 0) {
        ASSERT_GT(largest_difference(robot(), row(result, std::int64_t(t), 0).q, given), 1e-6)
            << "target " << t;
      }
    }
  }
  if (!kSanitized) {
    EXPECT_GT(free, int(targets_.size()) / 2);
  }
  EXPECT_LT(free, 2 * int(targets_.size()));
}

// A Solver's own check agrees with the plain loops on whatever is asked.
TEST_P(Arm, CheckAgrees) {
  Random random(92);
  for (int k = 0; k < few(300); k++) {
    const std::vector<double> q = random_configuration(robot(), random.engine);
    const std::int32_t w = std::int32_t(random.below(6)) - 1;
    SolveOptions o;
    o.collision_margin_m = random.below(2) ? 0.03 : 0;
    o.self_collision = random.below(2);
    const PlainVerdict plain = judge(robot(), w < 0 ? PlainWorld{} : plain_[std::size_t(w)], q);
    const Check check = solver_.check(q, w, o.collision_margin_m, o.self_collision)[0];
    if (std::isfinite(plain.world)) {
      ASSERT_NEAR(check.world_clearance_m, plain.world, kRounding);
    } else {
      ASSERT_EQ(check.world_clearance_m, kNoObstacle);
    }
    if (o.self_collision) {
      ASSERT_NEAR(check.self_clearance_m, plain.self, kRounding);
    } else {
      ASSERT_EQ(check.self_clearance_m, kNoObstacle);
    }
    const double clear =
        std::min(o.self_collision ? plain.self : kNoObstacle, plain.world - o.collision_margin_m);
    ASSERT_TRUE(check.free == (clear > 0) || std::abs(clear) < kRounding);
  }
}

// --- The same bits however the targets come ---

class CollisionDeterminism : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Isas, CollisionDeterminism, testing::ValuesIn(available_isas()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(CollisionDeterminism, SameBitsHoweverTheTargetsAreCut) {
  for (const char* name : {"panda", "ur5e"}) {
    std::vector<PlainWorld> plain = cluttered(93);
    // So wide that float32 can hardly tell where it is.
    plain.push_back({.boxes = {{0, 0, -2000.2, 1, 0, 0, 0, 4000, 4000, 4000}}});
    Solver one(Robot::preset(name), {.threads = 1, .isa = GetParam()});
    Solver four(Robot::preset(name), {.threads = 4, .isa = GetParam()});
    one.set_worlds(worlds_of(plain));
    four.set_worlds(worlds_of(plain));
    const std::int64_t count = few(100);
    std::vector<Pose> targets = one.sample_targets(count, 94);
    for (std::size_t t = 0; t < targets.size(); t += 9) targets[t][t % 3] += t % 2 ? 0.4 : 5;
    std::vector<std::int32_t> index;
    for (std::size_t t = 0; t < targets.size(); t++) index.push_back(std::int32_t(t % 7) - 1);
    const std::size_t dof = std::size_t(one.robot().dof());
    const std::vector<double> warm = one.sample_configurations(2 * count, 95);
    for (const bool with_warm : {false, true}) {
      for (const std::int64_t rows : {1, 3}) {
        SolveOptions options{.num_solutions = rows, .batch_size = 64, .stats = rows == 3};
        options.world_index = index.data();
        options.collision_margin_m = rows == 3 ? 0.01 : 0;
        if (with_warm) {
          options.q_init = warm.data();
          options.q_init_rows = 2;
          options.q_init_per_target = true;
        }
        const Result all = one.solve(view(targets), options);
        ASSERT_TRUE(same_result(four.solve(view(targets), options), all)) << name;
        for (const std::int64_t piece : {1, 7, 50}) {
          for (std::int64_t first = 0; first < count; first += piece) {
            const std::int64_t n = std::min(piece, count - first);
            SolveOptions some = options;
            some.world_index += first;
            if (with_warm) some.q_init += std::size_t(2 * first) * dof;
            const Result part = one.solve({targets[std::size_t(first)].data(), n}, some);
            ASSERT_TRUE(same_result(part, part_of(all, first, n)))
                << name << " " << n << " from " << first << ", " << rows << " rows";
          }
        }
      }
    }
  }
}

// --- One sphere on a slide: clearances by hand ---

TEST(Margin, ABoxBesideARoundThing) {
  Solver solver(slide(0.04, {0.40, 0, 0.25}));
  solver.set_world(PlainWorld{.boxes = {{0.6, 0, 0.25, 1, 0, 0, 0, 0.3, 0.3, 0.5}}}.world());
  const auto outcome = [&](double x, double margin) {
    const Result result = solver.solve(slid_to(x), {.collision_margin_m = margin});
    if (result.count[0] > 0) {
      EXPECT_GE(0.01 - result.q[0], margin - kRounding);
      EXPECT_EQ(std::abs(result.q[0] - x) < 1e-9, result.outcome[0] == Outcome::solved);
    }
    return result.outcome[0];
  };
  EXPECT_EQ(outcome(0, 0), Outcome::solved);
  EXPECT_EQ(outcome(0, 0.01), Outcome::solved) << "at the margin itself";
  EXPECT_NE(outcome(0, 0.011), Outcome::solved);
  EXPECT_EQ(outcome(0.0099, 0), Outcome::solved);
  EXPECT_EQ(outcome(-0.5, 0.5), Outcome::solved);
  EXPECT_EQ(outcome(-0.5, 0.52), Outcome::environment_collision);
  EXPECT_EQ(solver.check(std::vector<double>{0.0}, 0, 0.0099)[0].free, true);
  EXPECT_EQ(solver.check(std::vector<double>{0.0}, 0, 0.011)[0].free, false);
}

// What is free within 5 mm of a target that is not.
TEST(Fallback, TheNearestThatIsFree) {
  Solver solver(slide(0.04, {0.40, 0, 0.25}));
  solver.set_world(PlainWorld{.boxes = {{0.6, 0, 0.25, 1, 0, 0, 0, 0.3, 0.3, 0.5}}}.world());
  for (const double deep : {0.0012, 0.002, 0.004, 0.0049}) {
    const Pose target = slid_to(0.01 + deep);
    const SolveOptions options{.num_solutions = 2, .batch_size = 64, .stats = true};
    const Result result = solver.solve(target, options);
    expect_sound(solver.robot(), {target}, options, result);
    EXPECT_EQ(result.outcome[0], Outcome::approximate) << deep;
    EXPECT_LE(result.q[0], 0.01);
    EXPECT_LT(result.pos_err_m[0], deep + 5e-5) << "no farther off than it must be";
    EXPECT_EQ(result.stats[0].n_ik_lost, 64);
    EXPECT_EQ(result.stats[0].n_feasible, 0);
  }
  for (const double deep : {0.0051, 0.02, 0.2}) {
    const Result result = solver.solve(slid_to(0.01 + deep), {.batch_size = 64});
    EXPECT_EQ(result.count[0], 0);
    EXPECT_EQ(result.outcome[0], Outcome::environment_collision) << deep;
  }
}

// So shallow that the search leaves the verdict to the polished row.
TEST(Fallback, FromShallowCollisions) {
  Solver solver(slide(0.04, {0.40, 0, 0.25}));
  solver.set_world(PlainWorld{.boxes = {{0.6, 0, 0.25, 1, 0, 0, 0, 0.3, 0.3, 0.5}}}.world());
  for (const double deep : {1e-7, 1e-5, 1e-4, 0.0005, 0.0009}) {
    const Result result = solver.solve(slid_to(0.01 + deep), {.batch_size = 64});
    EXPECT_EQ(result.outcome[0], Outcome::approximate) << deep;
    EXPECT_LT(result.pos_err_m[0], deep + 5e-5) << deep;
  }
}

TEST(Outcomes, SayWhatStoodInTheWay) {
  Solver solver(slide(0.04, {0.40, 0, 0.25}));
  EXPECT_EQ(solver.solve(slid_to(0.5)).outcome[0], Outcome::solved);
  EXPECT_EQ(solver.solve(slid_to(9)).outcome[0], Outcome::no_accurate) << "out of reach, and nothing near";
  EXPECT_EQ(solver.solve(slid_to(2.004)).outcome[0], Outcome::approximate) << "free, and near enough";
  EXPECT_EQ(solver.solve(slid_to(2.006)).outcome[0], Outcome::no_accurate);
  solver.set_world(PlainWorld{.spheres = {{0.9, 0, 0.25, 0.1}}}.world());
  EXPECT_EQ(solver.solve(slid_to(0.5)).outcome[0], Outcome::environment_collision);

  // Folded onto itself in every solution: the plain loops say of which targets that is so.
  const Solver arm(Robot::preset("ur5e"));
  const std::vector<Pose> targets = arm.sample_targets(few(200), 96);
  const Result all = arm.solve(view(targets), open({.num_solutions = 8}));
  const Result hard = arm.solve(view(targets));
  int folded = 0;
  for (std::size_t t = 0; t < targets.size(); t++) {
    double best = -1;
    for (std::int64_t r = 0; r < all.count[t]; r++)
      best = std::max(best, room(arm.robot(), {}, row(all, std::int64_t(t), r).q));
    if (best > -0.02) continue;  // shallow ones may end nearby
    folded++;
    EXPECT_EQ(hard.outcome[t], Outcome::self_collision) << "target " << t;
    EXPECT_EQ(arm.solve(targets[t], {.self_collision = false}).outcome[0], Outcome::solved);
  }
  EXPECT_GT(folded, 0);
}

// B49: the capsule that stands for a cylinder reaches its radius beyond the flat face.
TEST(Cylinders, ExactOrAsCapsules) {
  Solver solver(slide(0.01, {0, 0, 0.14}));
  PlainWorld world{.cylinders = {{0, 0, 0, 1, 0, 0, 0, 0.05, 0.2}}};
  for (const bool exact : {false, true}) {
    world.exact_cylinders = exact;
    solver.set_world(world.world());
    EXPECT_NEAR(solver.check(std::vector<double>{0.0})[0].world_clearance_m, exact ? 0.03 : -0.02, kRounding);
    EXPECT_EQ(solver.check(std::vector<double>{0.0})[0].other, ObstacleKind::cylinder);
    EXPECT_EQ(solver.solve(slid_to(0)).outcome[0], exact ? Outcome::solved : Outcome::environment_collision);
    // Beside it they are the same.
    EXPECT_EQ(solver.solve(slid_to(0.07)).outcome[0], Outcome::solved);
  }
}

// --- Worlds ---

TEST(Worlds, EveryKindCountsAndEveryChange) {
  Solver solver(slide(0.1, {0, 0, 0}));
  const std::vector<PlainWorld> kinds = {{.boxes = {{0, 0, 0.2, 3, 0, 0, 1, 0.3, 0.3, 0.3}}},
                                         {.capsules = {{0, -1, 0.1, 0, 1, 0.1, 0.05}}},
                                         {.cylinders = {{0, 0, 0.1, 1, 0, 0, 0, 0.1, 0.1}}},
                                         {.spheres = {{0, 0.1, 0, 0.1}}}};
  for (const PlainWorld& kind : kinds) {
    solver.set_world(kind.world());
    EXPECT_EQ(solver.solve(slid_to(0)).outcome[0], Outcome::environment_collision);
    EXPECT_EQ(solver.solve(slid_to(1)).outcome[0], Outcome::solved);
    solver.clear_world();
    EXPECT_EQ(solver.solve(slid_to(0)).outcome[0], Outcome::solved);
  }
  solver.set_worlds(worlds_of(kinds));
  EXPECT_EQ(solver.worlds().size(), kinds.size());
  const std::vector<std::int32_t> index = {0, 1, 2, 3, -1};
  const std::vector<Pose> targets(5, slid_to(0));
  SolveOptions options;
  options.world_index = index.data();
  const Result result = solver.solve(view(targets), options);
  for (std::size_t t = 0; t < 5; t++)
    EXPECT_EQ(result.outcome[t], t < 4 ? Outcome::environment_collision : Outcome::solved) << t;
}

TEST(Worlds, IndicesAreChecked) {
  Solver solver(Robot::preset("ur5e"));
  const std::vector<Pose> targets = solver.sample_targets(3);
  const auto with_index = [&](std::vector<std::int32_t> index, Collision mode = Collision::automatic) {
    SolveOptions options{.collision = mode};
    options.world_index = index.data();
    return refusal([&] { solver.solve(view(targets), options); });
  };
  // Nothing but -1 without worlds.
  EXPECT_EQ(with_index({-1, 0, -1}), "world_index[1] is 0, but there are 0 worlds (-1: the empty one)");
  solver.set_world(PlainWorld{.spheres = {{2, 0, 0, 0.1}}}.world());
  EXPECT_EQ(with_index({0, 0, 1}), "world_index[2] is 1, but there is 1 world (-1: the empty one)");
  EXPECT_EQ(with_index({-2, 0, 0}), "world_index[0] is -2, but there is 1 world (-1: the empty one)");
  EXPECT_NE(with_index({0, -1, 0}, Collision::soft).find("target 1 is empty"), std::string::npos);
  solver.set_worlds({PlainWorld{.spheres = {{2, 0, 0, 0.1}}}.world(), World()});
  EXPECT_NE(with_index({0, 0, 1}, Collision::soft).find("target 2 is empty"), std::string::npos);
  EXPECT_NE(refusal([&] { solver.solve(view(targets)); }).find("there are 2 worlds: world_index"),
            std::string::npos);
  EXPECT_NO_THROW(solver.solve(view(targets), open())) << "nobody asks which";
  solver.clear_world();
  for (const std::vector<World>& empty : {std::vector<World>{}, std::vector<World>{World()}}) {
    solver.set_worlds(empty);
    EXPECT_NE(refusal([&] { solver.solve(view(targets), {.collision = Collision::soft}); }).find("is empty"),
              std::string::npos);
  }
  EXPECT_NO_THROW(solver.solve(view(targets), {.collision = Collision::both})) << "as hard";
}

TEST(Worlds, OptionsAreChecked) {
  Solver solver(Robot::preset("ur5e"));
  solver.set_world(PlainWorld{.spheres = {{2, 0, 0, 0.1}}}.world());
  const Pose target = solver.sample_targets(1)[0];
  const auto message = [&](const SolveOptions& options) {
    return refusal([&] { solver.solve(target, options); });
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  for (const double margin : {-1e-9, std::nan(""), HUGE_VAL})
    has(message({.collision_margin_m = margin}), "collision_margin_m must be finite and not negative");
  for (const Collision mode : {Collision::none, Collision::soft}) {
    has(message({.collision = mode, .collision_margin_m = 0.01}), "collision_margin_m needs");
    has(message({.collision = mode, .self_collision = false}), "needs collision 'hard' or 'both'");
  }
  has(message({.collision = Collision(7)}), "collision is none of");
  has(refusal([&] { solver.check(std::vector<double>(6), 1); }), "world is 1");
  has(refusal([&] { solver.check(std::vector<double>(7)); }), "no multiple");
  has(refusal([&] { solver.check(std::vector<double>(6, std::nan(""))); }), "'shoulder_pan_joint' is nan");
  has(refusal([&] { solver.check(std::vector<double>(6), 0, -1); }), "not negative");
}

TEST(Worlds, RobotsWithoutSpheres) {
  Solver solver(Robot::preset("fetch"));
  ASSERT_TRUE(solver.robot().collision_links().empty());
  const std::vector<Pose> targets = solver.sample_targets(20);
  EXPECT_TRUE(same_result(solver.solve(view(targets)), solver.solve(view(targets), open())));
  for (const Collision mode : {Collision::hard, Collision::soft, Collision::both}) {
    EXPECT_NE(refusal([&] { solver.solve(view(targets), {.collision = mode}); }).find("no collision spheres"),
              std::string::npos);
  }
  EXPECT_NE(
      refusal([&] { solver.solve(view(targets), {.collision_margin_m = 0.1}); }).find("needs collision"),
      std::string::npos);
  EXPECT_NE(refusal([&] {
              solver.set_world(PlainWorld{.spheres = {{2, 0, 0, 0.1}}}.world());
            }).find("no collision"),
            std::string::npos);
  EXPECT_NO_THROW(solver.set_world(World()));
  EXPECT_NO_THROW(solver.clear_world());
  EXPECT_NE(refusal([&] { solver.check(std::vector<double>(7)); }).find("no collision spheres"),
            std::string::npos);
}

TEST(Worlds, ACopyHasItsOwn) {
  Solver solver(slide(0.1, {0, 0, 0}));
  const World blocked = PlainWorld{.spheres = {{0, 0.1, 0, 0.1}}}.world();
  const auto is_free = [](const Solver& s) { return s.solve(slid_to(0)).outcome[0] == Outcome::solved; };
  solver.set_world(blocked);
  Solver copy = solver;
  EXPECT_FALSE(is_free(copy)) << "it begins with the same";
  copy.clear_world();
  EXPECT_TRUE(is_free(copy));
  EXPECT_FALSE(is_free(solver));
  solver = copy;
  EXPECT_TRUE(is_free(solver));
  solver.set_world(blocked);
  EXPECT_TRUE(is_free(copy));
  const Solver moved = std::move(solver);
  EXPECT_FALSE(is_free(moved));
}

// Spheres of the base meet links, not obstacles, and what they touch is told.
TEST(Worlds, TheBaseStands) {
  const PlainWorld floor{.boxes = {{0, 0, -0.24, 1, 0, 0, 0, 2, 2, 0.5}}};
  Solver plain(Robot::preset("panda")), with_base(Robot::preset("panda", {.check_base = true}));
  plain.set_world(floor.world());
  with_base.set_world(floor.world());
  EXPECT_TRUE(plain.base_contacts().empty());
  const std::vector<std::string> contacts = with_base.base_contacts();
  ASSERT_EQ(contacts.size(), 1u);
  EXPECT_NE(contacts[0].find("base link 'panda_link0' touches boxes[0]"), std::string::npos) << contacts[0];
  const std::vector<Pose> targets = plain.sample_targets(few(200), 97);
  for (const std::int64_t rows : {1, 2}) {
    const SolveOptions options{.num_solutions = rows};
    const Result result = with_base.solve(view(targets), options);
    expect_sound(with_base.robot(), targets, options, result);
    EXPECT_NEAR(double(solved(result)), double(solved(plain.solve(view(targets), options))),
                0.05 * double(targets.size()));
    for (std::int64_t t = 0; t < result.targets; t++) {
      for (std::int64_t r = 0; r < result.count[std::size_t(t)]; r++) {
        const PlainVerdict v = judge(with_base.robot(), floor, row(result, t, r).q, {"panda_link0"});
        ASSERT_GE(std::min(v.self, v.world), -kRounding);
      }
    }
  }
}

// Worlds change while others solve: each solve sees one of them, from its first target to its last.
TEST(Worlds, ChangeAtomically) {
  Solver solver(Robot::preset("panda"), {.threads = 2});
  std::vector<PlainWorld> plain = {{.boxes = {{0.5, 0.35, 0.4, 1, 0, 0, 0, 0.5, 0.3, 1}}},
                                   {.boxes = {{0.5, -0.35, 0.4, 1, 0, 0, 0, 0.5, 0.3, 1}}}};
  std::vector<World> worlds = worlds_of(plain);
  Random random(98);
  std::vector<Pose> targets;
  for (int t = 0; t < 80; t++) {
    targets.push_back(
        {random.uniform(0.3, 0.6), random.uniform(-0.15, 0.15), random.uniform(0.3, 0.6), 0, 1, 0, 0});
  }
  std::vector<Result> expected;
  for (const World& world : worlds) {
    solver.set_world(world);
    expected.push_back(solver.solve(view(targets)));
    EXPECT_GT(solved(expected.back()), 60);
  }
  ASSERT_FALSE(same_result(expected[0], expected[1]));
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0}, of_world[2] = {0, 0};
  std::vector<std::thread> solvers;
  for (int k = 0; k < 2; k++) {
    solvers.emplace_back([&] {
      for (int repeat = 0; repeat < few(40); repeat++) {
        const Result result = solver.solve(view(targets));
        if (same_result(result, expected[0])) {
          of_world[0]++;
        } else if (same_result(result, expected[1])) {
          of_world[1]++;
        } else {
          wrong++;
        }
      }
    });
  }
  std::thread changer([&] {
    for (int k = 0; !done; k++) {
      solver.set_world(worlds[std::size_t(k % 2)]);
      EXPECT_EQ(solver.worlds().size(), 1u);
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  for (auto& thread : solvers) thread.join();
  done = true;
  changer.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(of_world[0] + of_world[1], 0);
}

}  // namespace
}  // namespace hjcdik
