// Chunks of targets, spread over threads.
#include "cpu/executor.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "cpu/threads.hpp"

namespace hjcdik::cpu {
namespace {

// Targets and rows worked on together by one thread: enough to keep the lanes full to the end, few
// enough to stay in the cache.
constexpr std::int64_t kChunkTargets = 1024;
constexpr std::int64_t kChunkRows = 16384;
// Below this many rows wanted, waking other threads costs more than it gains.
constexpr std::int64_t kParallelRows = 64;

class LanesEngine final : public Engine {
 public:
  explicit LanesEngine(const Lanes& lanes) : lanes_(lanes) {}
  void search(SearchTask& task) override { lanes_.search(task); }
  void polish(PolishTask& task) override { lanes_.polish(task); }
  void evaluate(EvaluateTask& task) override { lanes_.evaluate(task); }
  bool judge(JudgeTask& task) override {
    lanes_.judge(task);
    return true;
  }

 private:
  const Lanes& lanes_;
};

}  // namespace

void solve(const Lanes& lanes, int threads, const Problem& problem, const ResultView& out,
           const std::function<void(std::int64_t)>& progress) {
  const std::int64_t targets = problem.targets.rows;
  const std::int64_t per_target = hits_per_target(problem.options);
  const std::int64_t largest = std::clamp<std::int64_t>(kChunkRows / per_target, 1, kChunkTargets);
  const std::int64_t smallest = std::min(largest, std::max<std::int64_t>(1, kParallelRows / per_target));
  // Pieces shrink towards the end, where they even out targets of unequal cost and threads of unequal speed.
  const auto piece_at = [&](std::int64_t first) {
    return threads == 1 ? largest : std::clamp((targets - first) / (2 * threads), smallest, largest);
  };
  std::atomic<std::int64_t> next{0}, done{0};
  const auto caller = std::this_thread::get_id();
  const std::function<void()> work = [&] {
    thread_local Worker worker;
    for (;;) {
      std::int64_t first = next.load(std::memory_order_relaxed);
      while (first < targets &&
             !next.compare_exchange_weak(first, first + piece_at(first), std::memory_order_relaxed)) {
      }
      if (first >= targets) return;
      const std::int64_t count = std::min(piece_at(first), targets - first);
      try {
        LanesEngine engine(lanes);
        worker.solve(engine, problem, first, count, out);
        done.fetch_add(count, std::memory_order_relaxed);
        if (progress && std::this_thread::get_id() == caller) progress(done.load(std::memory_order_relaxed));
      } catch (...) {
        next.store(targets, std::memory_order_relaxed);  // the others need not go on
        throw;
      }
    }
  };
  const std::int64_t pieces = (targets + piece_at(0) - 1) / piece_at(0);
  run_parallel(int(std::min<std::int64_t>(threads, pieces)) - 1, work);
  if (progress) progress(done.load());
}

}  // namespace hjcdik::cpu
