// One pool of threads for all solvers of a process.
#pragma once

#include <functional>

namespace hjcdik::cpu {

// Threads a solver may use: `requested` if positive, else HJCDIK_NUM_THREADS, else what the affinity
// mask and the cgroup's quota allow. Throws InvalidArgument for a HJCDIK_NUM_THREADS that is no number.
int thread_count(int requested);

// Runs `work` on the calling thread and on up to helpers threads of the pool at once, and returns when
// all of these have returned. `work` must be written so that any one of them can do everything:
// helpers that are busy elsewhere are not waited for. The first exception is rethrown. In a forked
// child the pool is made anew.
void run_parallel(int helpers, const std::function<void()>& work);

}  // namespace hjcdik::cpu
