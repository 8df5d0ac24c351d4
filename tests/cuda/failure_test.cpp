// A GPU that fails in the middle of a solve: the error says so, nothing leaks, and the next solve is right.
#include <map>
#include <optional>

#include "scenario.hpp"

namespace hjcdik::test {
namespace {

enum Memory { kHost, kDevice };

struct Case {
  const char* name;
  std::int64_t targets, num_solutions;
  Memory memory;
  bool stats = false;
};

const Case kCases[] = {
    {"one target", 1, 1, kHost},
    {"seven targets", 7, 1, kHost},
    {"thousand targets", 1000, 1, kHost},
    {"four rows", 5, 4, kHost},
    {"four rows in pieces", 600, 4, kHost},
    {"stats", 2, 1, kHost, true},
    {"device memory", 1000, 1, kDevice},
    {"device memory, one target", 1, 1, kDevice},
    {"device memory, four rows in pieces", 600, 4, kDevice},
};

std::unique_ptr<Work> make(const Case& c) {
  std::unique_ptr<Work> work;
  if (c.memory == kDevice) {
    work = std::make_unique<DeviceWork>(c.targets, c.num_solutions);
  } else {
    work = std::make_unique<Work>(c.targets, c.num_solutions);
  }
  work->options.stats = c.stats;
  return work;
}

// Their failures are not heeded: the solve is complete by then.
bool is_harmless(const std::string& function) {
  return function == "cuCtxPopCurrent" || function == "cuMemFree" || function == "cuMemFreeHost";
}

// Fails the n-th call of `function` ("" for any) in a solve, for n = 1, 2, ... until the solve makes fewer
// calls. `again`: with a solver that has solved before. Returns what failed how often.
std::map<std::string, int> fail_every_call(const Case& c, const std::string& function, int code, bool again) {
  std::map<std::string, int> failures;
  FakeDriver& fake = fake_driver();
  const std::unique_ptr<Work> work = make(c);
  std::optional<Solver> solver;
  for (int n = 1;; n++) {
    SCOPED_TRACE(std::string(c.name) + ", call " + std::to_string(n) + (again ? ", again" : ""));
    if (n > 1000) {
      ADD_FAILURE() << "no end";
      break;
    }
    if (!solver || !again) {
      solver.reset();
      solver.emplace(gpu_solver());
      if (again) work->run_and_check(*solver);
    }
    work->prepare();
    fake.fail(function, n, code);
    try {
      work->run(*solver);
      fake.fail_at = 0;
      if (fake.failed.empty()) break;
      EXPECT_TRUE(is_harmless(fake.failed)) << fake.failed << " failed unheard";
      work->fetch();
      work->check();
    } catch (const SolveError& error) {
      fake.fail_at = 0;
      EXPECT_CONTAINS(error.what(), std::to_string(code));
      EXPECT_CONTAINS(error.what(), "Fake GPU");
      EXPECT_TRUE(contains(error.what(), fake.failed) || contains(error.what(), "solving")) << error.what();
      // One thread works through the pieces in order.
      EXPECT_EQ(error.completed(), error.target_index());
      EXPECT_LT(error.completed(), c.targets);
      EXPECT_EQ(error.completed() % 256, 0);
    }
    failures[fake.failed]++;
    fake.work_again();
    work->run_and_check(*solver);
    if (testing::Test::HasFailure()) break;
  }
  fake.work_again();
  return failures;
}

TEST(Failure, every_call_of_a_solve) {
  for (const Case& c : kCases) {
    with_fakes([&] {
      fake_driver().retry_every = 5;
      fake_driver().pause_every = 3;
      const auto failures = fail_every_call(c, "", 999, false);
      for (const char* function :
           {"cuMemAlloc", "cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuMemcpyHtoDAsync",
            "cuStreamCreate", "cuCtxPushCurrent", "cuLaunchKernelEx", "cuStreamSynchronize"}) {
        EXPECT_GT(failures.count(function), 0u) << function << " was not reached by " << c.name;
      }
      fail_every_call(c, "", 999, true);
    });
  }
}

// Pieces that fail late name their first target.
TEST(Failure, names_the_piece) {
  with_fakes([] {
    const Solver solver = gpu_solver();
    for (const Case& c : {Case{"", 140000, 1, kHost}, {"", 600, 4, kHost}, {"", 600, 4, kDevice}}) {
      const std::unique_ptr<Work> work = make(c);
      work->run_and_check(solver);
      const std::int64_t piece = c.num_solutions == 1 ? 65536 : 256;
      fake_driver().launches = 0;
      work->prepare();
      work->run(solver);
      const long launches = fake_driver().launches;
      fake_driver().fail("cuLaunchKernelEx", launches);  // the last one
      try {
        work->run(solver);
        ADD_FAILURE() << "no error";
      } catch (const SolveError& error) {
        EXPECT_EQ(error.target_index(), 2 * piece);
        EXPECT_EQ(error.completed(), 2 * piece);
      }
      work->run_and_check(solver);
    }
  });
}

TEST(Failure, with_several_threads) {
  with_fakes([] {
    const Solver solver = gpu_solver(4);
    Work work(400000);
    work.run_and_check(solver);
    for (int n = 1; n < 40; n += 3) {
      fake_driver().fail("", n);
      try {
        work.run(solver);
        EXPECT_TRUE(is_harmless(fake_driver().failed)) << fake_driver().failed;
      } catch (const SolveError& error) {
        EXPECT_EQ(error.target_index() % 65536, 0);
        EXPECT_LT(error.completed(), work.count());
      }
      fake_driver().work_again();
    }
    work.run_and_check(solver);
  });
}

TEST(Failure, out_of_memory) {
  for (const char* function : {"cuMemAlloc", "cuMemHostAlloc"}) {
    with_fakes([&] {
      for (const Case& c : kCases) {
        const Solver solver = gpu_solver();
        const std::unique_ptr<Work> work = make(c);
        work->prepare();
        fake_driver().fail(function, 1, cuda::kErrorOutOfMemory);
        const std::string message = message_of<SolveError>([&] { work->run(solver); });
        EXPECT_CONTAINS(message, std::string(function) + " failed: out of memory");
        EXPECT_CONTAINS(message, "solve fewer targets or candidates at once");
        work->run_and_check(solver);
      }
    });
  }
}

// Nothing works on a lost device, and every solve says so.
TEST(Failure, lost_device) {
  for (const char* function : {"cuStreamSynchronize", "cuLaunchKernelEx", "cuStreamQuery"}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(std::string(c.name) + ", " + function);
      with_fakes([&] {
        const Solver solver = gpu_solver();
        const std::unique_ptr<Work> work = make(c);
        work->run_and_check(solver);
        work->prepare();
        fake_driver().fail(function, 1, kLost);
        try {
          work->run(solver);
          EXPECT_FALSE(fake_driver().failed == function) << "no error";
          return;  // a solve without such a call
        } catch (const SolveError& error) {
          EXPECT_CONTAINS(error.what(), "restart the process");
        }
        for (int k = 0; k < 3; k++) {
          EXPECT_CONTAINS(message_of<SolveError>([&] { work->run(solver); }), "restart the process");
        }
        EXPECT_EQ(solver.device(), "cuda:0");
        EXPECT_CONTAINS(message_of<DeviceError>([] { Solver(Robot::preset("ur5e"), {.device = "cuda:0"}); }),
                        "restart the process");
        const Solver cpu(Robot::preset("panda"), {.device = "cpu"});
        EXPECT_EQ(cpu.solve(cpu.sample_targets(1)[0], open()).outcome[0], Outcome::solved);
      });
    }
  }
}

// A kernel that ends without its result must not be waited for.
TEST(Failure, no_result_comes) {
  for (const Memory memory : {kHost, kDevice}) {
    with_fakes([memory] {
      const Solver solver = gpu_solver();
      const std::unique_ptr<Work> work = make({"", 1, 1, memory});
      work->run_and_check(solver);
      fake_driver().drop_results = true;
      EXPECT_CONTAINS(message_of<SolveError>([&] { work->run(solver); }), "without a result");
      fake_driver().drop_results = false;
      work->run_and_check(solver);
    });
  }
}

// What was enqueued before a failure must not disturb the next solve, on whichever stream it waits.
TEST(Failure, leftovers_in_the_callers_stream) {
  with_fakes([] {
    fake_driver().retry_every = 5;
    fake_driver().pause_every = 3;
    const Solver solver = gpu_solver();
    DeviceWork first(3000), second(777);
    Work host(3000);
    first.run_and_check(solver);
    for (int launch = 1; launch <= 3; launch++) {
      first.prepare();
      fake_driver().fail("cuLaunchKernelEx", launch);
      message_of<SolveError>([&] { first.run(solver); });
      if (launch == 1) host.run_and_check(solver);
      if (launch == 2) second.run_and_check(solver);
      first.run_and_check(solver);
    }
  });
}

// A failed build in a solve, for the first one with the coarse search.
TEST(Failure, coarse_search_cannot_be_compiled) {
  with_fakes([] {
    const Solver solver = gpu_solver();
    Work work(7);
    work.options.coarse_sweeps = 1;
    fake_nvrtc().fail_function = "nvrtcCompileProgram";
    EXPECT_CONTAINS(message_of<BuildError>([&] { work.run(solver); }), fake_nvrtc().log);
    fake_nvrtc().fail_function.clear();
    work.run_and_check(solver);
    Work(7).run_and_check(solver);
  });
}

}  // namespace
}  // namespace hjcdik::test
