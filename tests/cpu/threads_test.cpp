// The pool of threads, the number of threads, and forks.
#include "cpu/threads.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "support.hpp"

namespace hjcdik {
namespace {

using namespace test;
using cpu::run_parallel;
using cpu::thread_count;

// Takes pieces from a counter until none is left: the shape of all work given to the pool.
struct Pieces {
  explicit Pieces(int count) : done(std::size_t(count)) {}
  void operator()() {
    calls++;
    for (int piece; (piece = next++) < int(done.size());) done[std::size_t(piece)]++;
  }
  bool each_once() const {
    return std::all_of(done.begin(), done.end(), [](const std::atomic<int>& n) { return n == 1; });
  }
  std::vector<std::atomic<int>> done;
  std::atomic<int> next{0}, calls{0};
};

TEST(RunParallel, DoesAllTheWork) {
  for (const int helpers : {-1, 0, 1, 3, 7}) {
    for (int repeat = 0; repeat < few(200); repeat++) {
      Pieces pieces(50);
      run_parallel(helpers, [&] { pieces(); });
      ASSERT_TRUE(pieces.each_once());
      ASSERT_GE(pieces.calls, 1);
      ASSERT_LE(pieces.calls, std::max(helpers, 0) + 1);
    }
  }
}

TEST(RunParallel, HelpersReallyRunBeside) {
  // Ends only when two threads are inside at once.
  std::atomic<int> inside{0};
  run_parallel(1, [&] {
    inside++;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (inside < 2 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  });
  EXPECT_EQ(inside, 2);
}

TEST(RunParallel, CallerTakesPart) {
  const auto caller = std::this_thread::get_id();
  for (int repeat = 0; repeat < 100; repeat++) {
    std::atomic<bool> took_part{false};
    run_parallel(2, [&] {
      if (std::this_thread::get_id() == caller) took_part = true;
    });
    ASSERT_TRUE(took_part);
  }
}

TEST(RunParallel, FirstExceptionComesBack) {
  const auto caller = std::this_thread::get_id();
  for (const int thrower : {0, 1, 2}) {  // the caller, a helper, all
    for (int repeat = 0; repeat < few(100); repeat++) {
      std::atomic<int> inside{0};
      const auto work = [&] {
        const bool is_caller = std::this_thread::get_id() == caller;
        inside++;
        // A helper is waited for where it is to throw.
        while (inside < 2) std::this_thread::yield();
        if (thrower == 2 || is_caller == (thrower == 0)) throw std::runtime_error("piece failed");
      };
      try {
        run_parallel(1, work);
        FAIL() << "no exception";
      } catch (const std::runtime_error& error) {
        ASSERT_STREQ(error.what(), "piece failed");
      }
      // The pool is as good as new.
      Pieces pieces(20);
      run_parallel(3, [&] { pieces(); });
      ASSERT_TRUE(pieces.each_once());
    }
  }
}

TEST(RunParallel, WorkMayStartWork) {
  for (int repeat = 0; repeat < few(50); repeat++) {
    Pieces outer(8);
    std::atomic<int> inner_done{0};
    run_parallel(3, [&] {
      outer.calls++;
      for (int piece; (piece = outer.next++) < 8;) {
        Pieces inner(10);
        run_parallel(3, [&] { inner(); });
        inner_done += inner.each_once();
        outer.done[std::size_t(piece)]++;
      }
    });
    ASSERT_TRUE(outer.each_once());
    ASSERT_EQ(inner_done, 8);
  }
}

TEST(RunParallel, ManyCallersAtOnce) {
  std::atomic<int> right{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 8; c++) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < few(100); repeat++) {
        Pieces pieces(20);
        run_parallel(3, [&] { pieces(); });
        right += pieces.each_once();
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(right, 8 * few(100));
}

TEST(RunParallel, WorkIsGoneWhenItReturns) {
  // A helper that came late must not run work whose caller has left: its memory is reused at once.
  for (int repeat = 0; repeat < few(2000); repeat++) {
    std::vector<int> memory(64, repeat);
    std::atomic<bool> wrong{false};
    run_parallel(4, [&] {
      for (const int v : memory) {
        if (v != repeat) wrong = true;
      }
    });
    ASSERT_FALSE(wrong);
    std::fill(memory.begin(), memory.end(), -1);
  }
}

// Sets an environment variable for as long as it lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Environment() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

TEST(ThreadCount, Environment) {
  for (const auto& [text, threads] : {std::pair{"1", 1}, std::pair{"3", 3}, std::pair{"128", 128}}) {
    const Environment set("HJCDIK_NUM_THREADS", text);
    EXPECT_EQ(thread_count(0), threads);
    EXPECT_EQ(thread_count(5), 5) << "what was asked for comes first";
    EXPECT_EQ(Solver(Robot::preset("ur5e")).threads(), threads);
  }
  for (const char* text : {"0", "-2", "four", "3x", " 3", "3 ", "2.5", "99999999999999999999", "0x4"}) {
    const Environment set("HJCDIK_NUM_THREADS", text);
    try {
      thread_count(0);
      ADD_FAILURE() << "'" << text << "' was taken";
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(std::string("HJCDIK_NUM_THREADS is '") + text + "'"),
                std::string::npos)
          << error.what();
    }
    EXPECT_EQ(thread_count(2), 2);
  }
}

TEST(ThreadCount, FollowsTheAffinityMask) {
  const Environment unset("HJCDIK_NUM_THREADS", nullptr);
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(thread_count(0), 1);
  EXPECT_LE(thread_count(0), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) first++;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(thread_count(0), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  // Empty: as if it were not set.
  const Environment empty("HJCDIK_NUM_THREADS", "");
  EXPECT_GE(thread_count(0), 1);
}

// Runs `body` in a forked child and tells whether it returned true within a minute.
bool holds_in_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#if defined(__SANITIZE_THREAD__)
#define SKIP_UNDER_TSAN() GTEST_SKIP() << "ThreadSanitizer starts no threads in a forked child"
#else
#define SKIP_UNDER_TSAN() static_cast<void>(0)
#endif

TEST(Fork, ChildSolvesWithThreads) {
  SKIP_UNDER_TSAN();
  const Solver solver(Robot::preset("ur5e"), {.threads = 4});
  const std::vector<Pose> targets = solver.sample_targets(500);
  const auto solve = [&] {
    return solver.solve(TargetView{targets[0].data(), std::int64_t(targets.size())});
  };
  const Result parent = solve();  // the parent's pool is there
  const auto child_agrees = [&] { return same_bits(solve().q, parent.q); };
  EXPECT_TRUE(holds_in_child(child_agrees));
  EXPECT_TRUE(holds_in_child([&] { return child_agrees() && holds_in_child(child_agrees); })) << "grandchild";
  EXPECT_TRUE(same_bits(solve().q, parent.q));
}

TEST(Fork, WhileOtherThreadsSolve) {
  SKIP_UNDER_TSAN();
  const Solver solver(Robot::preset("ur5e"), {.threads = 3});
  const std::vector<Pose> targets = solver.sample_targets(300);
  const auto solve = [&] {
    return solver.solve(TargetView{targets[0].data(), std::int64_t(targets.size())});
  };
  const Result parent = solve();
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int k = 0; k < 2; k++) {
    busy.emplace_back([&] {
      while (!stop) solve();
    });
  }
  for (int k = 0; k < few(30); k++)
    EXPECT_TRUE(holds_in_child([&] { return same_bits(solve().q, parent.q); }));
  stop = true;
  for (auto& thread : busy) thread.join();
}

}  // namespace
}  // namespace hjcdik
