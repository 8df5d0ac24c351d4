#include "cpu/threads.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <hjcdik/error.hpp>

#include "model/read_file.hpp"

namespace hjcdik::cpu {
namespace {

// One call of run_parallel.
struct Batch {
  const std::function<void()>* work;
  int running = 0;  // on helpers
  std::exception_ptr error = nullptr;
};

class Pool {
 public:
  void run(int helpers, const std::function<void()>& work) {
    Batch batch{.work = &work};
    {
      std::lock_guard lock(mutex_);
      while (int(threads_.size()) < helpers) threads_.emplace_back([this] { loop(); });
      for (int i = 0; i < helpers; i++) queue_.push_back(&batch);
    }
    for (int i = 0; i < helpers; i++) wake_.notify_one();
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    std::unique_lock lock(mutex_);
    std::erase(queue_, &batch);
    idle_.wait(lock, [&] { return batch.running == 0; });
    lock.unlock();
    if (!error) error = batch.error;
    if (error) std::rethrow_exception(error);
  }

  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      Batch& batch = *queue_.front();
      queue_.pop_front();
      batch.running++;
      lock.unlock();
      std::exception_ptr error;
      try {
        (*batch.work)();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error && !batch.error) batch.error = error;
      if (--batch.running == 0) idle_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<Batch*> queue_;
  std::vector<std::thread> threads_;
  bool stop_ = false;
};

// A forked child has none of the parent's threads and cannot join them: it starts with a new pool and
// leaves the old one be.
std::atomic<Pool*> pool{nullptr};
std::mutex pool_mutex;

Pool& the_pool() {
  if (Pool* p = pool.load(std::memory_order_acquire)) return *p;
  std::lock_guard lock(pool_mutex);
  if (Pool* p = pool.load(std::memory_order_acquire)) return *p;
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork([] { pool_mutex.lock(); }, [] { pool_mutex.unlock(); },
                   [] {
                     pool.store(nullptr, std::memory_order_release);
                     pool_mutex.unlock();
                   });
  });
  // Never destroyed: threads must not be joined while the process's statics go away.
  Pool* p = new Pool;
  pool.store(p, std::memory_order_release);
  return *p;
}

// The numbers of a small file, as far as there are any.
std::vector<double> numbers_of(const char* path) {
  const std::string text = read_file(path, 4096).value_or("");
  std::vector<double> numbers;
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    double number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc()) break;
    numbers.push_back(number);
    at = rest;
    while (at < end && (*at == ' ' || *at == '\n')) at++;
  }
  return numbers;
}

// The cgroup's CPU quota in whole cores, at least 1; 0 where there is none.
int cgroup_quota() {
  // Version 2: "quota period", or "max period".
  std::vector<double> cpu = numbers_of("/sys/fs/cgroup/cpu.max");
  if (cpu.size() != 2) {
    cpu = numbers_of("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    for (const double period : numbers_of("/sys/fs/cgroup/cpu/cpu.cfs_period_us")) cpu.push_back(period);
  }
  if (cpu.size() != 2 || cpu[0] <= 0 || cpu[1] <= 0) return 0;
  return std::max(1, int(std::ceil(cpu[0] / cpu[1])));
}

}  // namespace

int thread_count(int requested) {
  if (requested > 0) return requested;
  if (const char* env = std::getenv("HJCDIK_NUM_THREADS"); env != nullptr && *env != '\0') {
    int n = 0;
    const char* last = env + std::strlen(env);
    const auto [end, error] = std::from_chars(env, last, n);
    if (error != std::errc() || end != last || n < 1) {
      throw InvalidArgument(std::string("HJCDIK_NUM_THREADS is '") + env + "', expected a positive integer");
    }
    return n;
  }
  cpu_set_t set;
  int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                       : int(std::thread::hardware_concurrency());
  if (const int quota = cgroup_quota(); quota > 0) n = std::min(n, quota);
  return std::max(n, 1);
}

void run_parallel(int helpers, const std::function<void()>& work) {
  if (helpers <= 0) return work();
  the_pool().run(helpers, work);
}

}  // namespace hjcdik::cpu
