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

 private:
  const Lanes& lanes_;
};

}  // namespace

void solve(const Lanes& lanes, int threads, const Problem& problem, const ResultView& out,
           const std::function<void(std::int64_t)>& progress) {
  const std::int64_t targets = problem.targets.rows;
  const std::int64_t per_target = hits_per_target(problem.options);
  std::int64_t chunk = std::clamp<std::int64_t>(kChunkRows / per_target, 1, kChunkTargets);
  if (threads > 1) {
    // Sixteen pieces a thread even out targets of unequal cost and threads of unequal speed.
    chunk = std::min(chunk, std::max<std::int64_t>((targets + 16 * threads - 1) / (16 * threads),
                                                   std::max<std::int64_t>(1, kParallelRows / per_target)));
  }
  std::atomic<std::int64_t> next{0}, done{0};
  const auto caller = std::this_thread::get_id();
  const std::function<void()> work = [&] {
    thread_local Worker worker;
    for (;;) {
      const std::int64_t first = next.fetch_add(chunk, std::memory_order_relaxed);
      if (first >= targets) return;
      const std::int64_t count = std::min(chunk, targets - first);
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
  const std::int64_t pieces = (targets + chunk - 1) / chunk;
  run_parallel(int(std::min<std::int64_t>(threads, pieces)) - 1, work);
  if (progress) progress(done.load());
}

}  // namespace hjcdik::cpu
