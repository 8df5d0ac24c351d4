// Memory that is kept from solve to solve, many threads, forked children.
#include <thread>

#include "scenario.hpp"

namespace hjcdik::test {
namespace {

TEST(Session, rows_come_to_their_targets) {
  for (const int every : {0, 1, 2, 7}) {
    with_fakes([every] {
      fake_driver().retry_every = every;
      fake_driver().pause_every = every == 7 ? 3 : every;
      const Solver solver = gpu_solver();
      for (const std::int64_t targets : {1, 2, 7, 31, 32, 33, 127, 128, 129, 1000, 5000, 65536, 65537}) {
        SCOPED_TRACE(std::to_string(targets) + " targets");
        Work(targets).run_and_check(solver);
        DeviceWork(targets).run_and_check(solver);
      }
      for (const std::int64_t rows : {2, 4, 30}) {
        Work(70, rows).run_and_check(solver);
        DeviceWork(70, rows).run_and_check(solver);
      }
      const Solver parallel = gpu_solver(4);
      Work(300000).run_and_check(parallel);
    });
  }
}

// On a GPU that cannot start a kernel early.
TEST(Session, older_gpu) {
  with_fakes([] {
    fake_driver().major = 8;
    fake_driver().minor = 6;
    const Solver solver = gpu_solver();
    for (const std::int64_t targets : {1, 7, 1000}) {
      Work(targets).run_and_check(solver);
      DeviceWork(targets).run_and_check(solver);
    }
  });
}

TEST(Session, memory_is_flat) {
  with_fakes([] {
    const Solver solver = gpu_solver();
    FakeDriver& fake = fake_driver();
    fake.retry_every = 50;
    Work one(1), seven(7), thousand(1000), rows(5, 4);
    DeviceWork device(100);
    const auto all = [&] {
      for (Work* work : {&one, &seven, &thousand, &rows, static_cast<Work*>(&device)})
        work->run_and_check(solver);
    };
    all();
    const long allocations = fake.allocations, alive = fake.alive();
    for (int k = 0; k < few(200); k++) all();
    EXPECT_EQ(fake.allocations, allocations);
    EXPECT_EQ(fake.alive(), alive);
    EXPECT_EQ(fake.streams, 2);  // the session's and the test's own
  });
}

// What a solve costs beside its kernels: nothing for one target, two copies and a wait for some.
TEST(Session, calls_of_a_solve) {
  with_fakes([] {
    const Solver solver = gpu_solver();
    FakeDriver& fake = fake_driver();
    const auto calls = [&](Work& work) {
      work.run_and_check(solver);
      work.prepare();
      fake.calls_of.clear();
      work.run(solver);
      auto counted = fake.calls_of;
      counted.erase("cuStreamQuery");
      return counted;
    };
    using Calls = std::map<std::string, long>;
    Work one(1), some(100);
    DeviceWork device(100);
    const Calls kernels{{"cuCtxPushCurrent", 1}, {"cuLaunchKernelEx", 2}, {"cuCtxPopCurrent", 1}};
    EXPECT_EQ(calls(one), kernels);
    EXPECT_EQ(calls(device)["cuMemcpyHtoDAsync"], 0);
    const Calls counted = calls(some);
    EXPECT_LE(counted.at("cuMemcpyHtoDAsync"), 1);
    EXPECT_LE(counted.at("cuMemcpyDtoHAsync"), 1);
    EXPECT_LE(counted.at("cuStreamSynchronize"), 1);
  });
}

TEST(Session, eight_threads_on_one_solver_and_on_two) {
  with_fakes([] {
    FakeDriver& fake = fake_driver();
    fake.retry_every = 9;
    fake.pause_every = 4;
    const Solver one = gpu_solver(2), other = gpu_solver(2);
    for (const bool both : {false, true}) {
      std::vector<std::thread> threads;
      for (int k = 0; k < 8; k++) {
        threads.emplace_back([&, k] {
          const Solver& solver = both && k % 2 ? other : one;
          Work single(1), some(5 + k), many(300 + 100 * k), rows(3, 4);
          DeviceWork device(50 + k);
          for (int round = 0; round < few(30); round++) {
            for (Work* work : {&single, &some, &many, &rows, static_cast<Work*>(&device)})
              work->run_and_check(solver);
          }
        });
      }
      for (auto& thread : threads) thread.join();
      EXPECT_LE(fake.streams, 16 + 8 * both);
    }
  });
}

TEST(Session, forked_child) {
  with_fakes([] {
    Solver solver = gpu_solver();
    Work work(7);
    work.run_and_check(solver);
    in_child([&] {
      FakeDriver& fake = fake_driver();
      const long calls = fake.calls;
      EXPECT_CONTAINS(message_of<DeviceError>([&] { work.run(solver); }), "spawn");
      EXPECT_CONTAINS(message_of<DeviceError>([] { gpu_solver(); }), "spawn");
      EXPECT_CONTAINS(gpu_problem(), "spawn");
      const Solver cpu(Robot::preset("panda"));
      EXPECT_EQ(cpu.device(), "cpu");
      EXPECT_CONTAINS(cpu.gpu_refusal(), "spawn");
      EXPECT_EQ(cpu.solve(cpu.sample_targets(1)[0], open()).outcome[0], Outcome::solved);
      { const Solver gone = std::move(solver); }
      EXPECT_EQ(fake.calls, calls) << "the child touched the parent's GPU";
    });
    work.run_and_check(solver);
  });
}

// A parent that only looked whether there is a GPU, as a library may do at its import.
TEST(Session, forked_child_of_a_parent_that_asked) {
  with_fakes([] {
    EXPECT_EQ(gpu_problem(), "");
    in_child([] {
      EXPECT_CONTAINS(message_of<DeviceError>([] { gpu_solver(); }), "forked");
      EXPECT_EQ(Solver(Robot::preset("panda")).device(), "cpu");
    });
    Work(7).run_and_check(gpu_solver());
  });
}

TEST(Session, progress_counts_targets) {
  with_fakes([] {
    const Solver solver = gpu_solver(2);
    const std::int64_t n = 200000;
    std::vector<Pose> targets(std::size_t(n), Pose{0.5, 0, 0.25, 1, 0, 0, 0});
    Result result = solver.solve(TargetView{targets[0].data(), n}, open());
    std::vector<std::int64_t> seen;
    solver.solve_into({targets[0].data(), n}, open(),
                      {result.q.data(), result.pose.data(), result.pos_err_m.data(),
                       result.ori_err_rad.data(), result.count.data(), result.outcome.data()},
                      [&](std::int64_t done) { seen.push_back(done); });
    ASSERT_FALSE(seen.empty());
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    EXPECT_EQ(seen.back(), n);
  });
}

}  // namespace
}  // namespace hjcdik::test
