// The same bits at every T, chunking and number of threads, on every instruction set.
#include <atomic>
#include <thread>

#include "rows.hpp"

namespace hjcdik {
namespace {

using namespace test;

// Targets within reach, out of reach, and between.
std::vector<Pose> mixed_targets(const Solver& solver, int count) {
  std::vector<Pose> targets = solver.sample_targets(count, 21);
  for (std::size_t t = 0; t < targets.size(); t += 5) targets[t][t % 3] += t % 2 ? 0.4 : 5;
  return targets;
}

class DeterminismOf : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Isas, DeterminismOf, testing::ValuesIn(available_isas()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(DeterminismOf, SameBitsHoweverTheTargetsAreCut) {
  for (const char* name : {"panda", "ur5e", "fetch"}) {
    for (const std::int64_t rows : {1, 3, 17}) {
      const Solver one(Robot::preset(name), {.threads = 1, .isa = GetParam()});
      const std::vector<Pose> targets = mixed_targets(one, rows == 1 ? few(1000) : few(200));
      const std::int64_t count = std::int64_t(targets.size());
      SolveOptions options = open({.num_solutions = rows, .batch_size = 100, .stats = rows != 17});
      const Result all = one.solve(view(targets), options);
      for (const int threads : {2, 4, 7}) {
        const Solver many(Robot::preset(name), {.threads = threads, .isa = GetParam()});
        ASSERT_TRUE(same_result(many.solve(view(targets), options), all)) << name << " threads " << threads;
      }
      for (const std::int64_t piece : {std::int64_t(7), std::int64_t(64), count}) {
        for (std::int64_t first = 0; first < count; first += piece) {
          const std::int64_t n = std::min(piece, count - first);
          const Result part = one.solve({targets[std::size_t(first)].data(), n}, options);
          ASSERT_TRUE(same_result(part, part_of(all, first, n))) << name << " from " << first;
        }
      }
      for (std::int64_t t = 0; t < std::min<std::int64_t>(count, 100); t++) {
        const Result single = one.solve(targets[std::size_t(t)], options);
        ASSERT_TRUE(same_result(single, part_of(all, t, 1))) << name << " target " << t << " rows " << rows;
      }
    }
  }
}

TEST_P(DeterminismOf, SameBitsWithWarmStarts) {
  for (const char* name : {"ur5e", "fetch"}) {
    const Solver one(Robot::preset(name), {.threads = 1, .isa = GetParam()});
    const Solver four(Robot::preset(name), {.threads = 4, .isa = GetParam()});
    const std::vector<Pose> targets = mixed_targets(one, few(300));
    const std::size_t dof = std::size_t(one.robot().dof());
    constexpr std::int64_t k = 3;
    const std::vector<double> q_init = one.sample_configurations(std::int64_t(targets.size()) * k, 22);
    for (const std::int64_t rows : {1, 5}) {
      SolveOptions options =
          open({.num_solutions = rows, .batch_size = 50, .q_init = q_init.data(), .q_init_rows = k});
      options.q_init_per_target = true;
      const Result all = one.solve(view(targets), options);
      ASSERT_TRUE(same_result(four.solve(view(targets), options), all));
      for (std::size_t t = 0; t < targets.size(); t++) {
        SolveOptions single = options;
        single.q_init = q_init.data() + t * std::size_t(k) * dof;
        const Result expected = part_of(all, std::int64_t(t), 1);
        ASSERT_TRUE(same_result(one.solve(targets[t], single), expected)) << name << " target " << t;
        single.q_init_per_target = false;
        ASSERT_TRUE(same_result(one.solve(targets[t], single), expected)) << name << " target " << t;
      }
    }
  }
}

TEST_P(DeterminismOf, SameBitsWithSweepsAndWithoutPolish) {
  const Solver one(Robot::preset("panda"), {.threads = 1, .isa = GetParam()});
  const Solver four(Robot::preset("panda"), {.threads = 4, .isa = GetParam()});
  const std::vector<Pose> targets = mixed_targets(one, few(200));
  for (const CoarseOrder order : {CoarseOrder::sweep, CoarseOrder::greedy}) {
    for (const Precision precision : {Precision::automatic, Precision::fp32}) {
      const SolveOptions options = open({.num_solutions = 2,
                                         .batch_size = 20,
                                         .precision = precision,
                                         .coarse_sweeps = 1,
                                         .coarse_order = order});
      const Result all = one.solve(view(targets), options);
      ASSERT_TRUE(same_result(four.solve(view(targets), options), all));
      for (std::size_t t = 0; t < targets.size(); t += 7) {
        ASSERT_TRUE(same_result(one.solve(targets[t], options), part_of(all, std::int64_t(t), 1)))
            << "target " << t;
      }
    }
  }
}

// S rows are the first S of more rows: asking for more changes none of them.
TEST(Determinism, FewerRowsAreAPrefix) {
  for (const std::string& name : preset_names()) {
    const Solver solver(Robot::preset(name), {.threads = 1});
    const std::vector<Pose> targets = solver.sample_targets(few(200), 23);
    const Result most = solver.solve(view(targets), open({.num_solutions = 17}));
    for (const std::int64_t rows : {1, 3}) {
      const Result fewer = solver.solve(view(targets), open({.num_solutions = rows}));
      for (std::int64_t t = 0; t < fewer.targets; t++) {
        ASSERT_EQ(fewer.count[std::size_t(t)], std::min(rows, most.count[std::size_t(t)]));
        for (std::int64_t r = 0; r < fewer.count[std::size_t(t)]; r++) {
          ASSERT_TRUE(same_bits(joints_of(row(fewer, t, r)), joints_of(row(most, t, r))))
              << name << " target " << t << " row " << r << " of " << rows;
        }
      }
    }
  }
}

TEST(Determinism, StatisticsChangeNoRow) {
  const Solver solver(Robot::preset("panda"), {.threads = 2});
  const std::vector<Pose> targets = mixed_targets(solver, few(300));
  for (const std::int64_t rows : {1, 4}) {
    const Result with =
        solver.solve(view(targets), open({.num_solutions = rows, .batch_size = 64, .stats = true}));
    const Result without = solver.solve(view(targets), open({.num_solutions = rows, .batch_size = 64}));
    EXPECT_TRUE(same_bits(with.q, without.q));
    EXPECT_EQ(with.count, without.count);
  }
}

// Any number of threads on one solver and on two, each with options of its own.
TEST(Determinism, CallersDoNotDisturbEachOther) {
  const Solver shared(Robot::preset("panda"), {.threads = 3});
  const Solver other(Robot::preset("ur5e"), {.threads = 2});
  const std::vector<Pose> panda = mixed_targets(shared, 120), ur5e = mixed_targets(other, 120);
  const auto options = [](int k) {
    return open({.num_solutions = 1 + k % 3, .batch_size = 40 + k, .seed = std::uint32_t(k)});
  };
  std::vector<Result> serial;
  for (int k = 0; k < 8; k++) {
    const bool on_shared = k % 2 == 0;
    serial.push_back((on_shared ? shared : other).solve(view(on_shared ? panda : ur5e), options(k)));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int k = 0; k < 8; k++) {
    callers.emplace_back([&, k] {
      const bool on_shared = k % 2 == 0;
      for (int repeat = 0; repeat < few(30); repeat++) {
        const Result result = (on_shared ? shared : other).solve(view(on_shared ? panda : ur5e), options(k));
        wrong += !same_result(result, serial[std::size_t(k)]);
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Determinism, AfterOtherWork) {
  const Solver solver(Robot::preset("ur5e"), {.threads = 1}), other(Robot::preset("panda"), {.threads = 1});
  const std::vector<Pose> targets = mixed_targets(solver, 50);
  const Result before = solver.solve(view(targets), open({.num_solutions = 4}));
  other.solve(view(mixed_targets(other, 70)), open({.num_solutions = 30, .stats = true}));
  solver.solve(view(targets), open({.num_solutions = 2, .batch_size = 1, .precision = Precision::fp32}));
  EXPECT_TRUE(same_result(solver.solve(view(targets), open({.num_solutions = 4})), before));
}

}  // namespace
}  // namespace hjcdik
