// What tests see of the fake CUDA driver and the fake NVRTC: how to make them fail, and what they counted.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace hjcdik::test {

constexpr int kLost = 700;  // CUDA_ERROR_ILLEGAL_ADDRESS: nothing works in the context from then on

struct FakeDriver {
  // What it pretends to be; set before the library loads it.
  int version = 13000, devices = 1, major = 9, minor = 0;
  std::string lacks;  // a function that it does not have

  // The call number fail_at (1 is the next) of fail_function ("" for any) returns fail_code.
  long fail_at = 0;
  std::string fail_function;
  int fail_code = 999;
  std::string failed;  // the function that did

  bool drop_results = false;  // kernels do nothing
  // Every so many targets: the polish does not confirm the first hits, the search pauses at the
  // target. 0: none.
  int retry_every = 0, pause_every = 0;

  // What is alive.
  long contexts = 0, modules = 0, streams = 0, device_buffers = 0, pinned_buffers = 0;
  // What happened so far.
  std::map<std::string, long> calls_of;
  long calls = 0, allocations = 0, launches = 0, context_resets = 0;
  // What a program must not do: calls without a context, addresses outside of a buffer and the like.
  std::vector<std::string> misuse;

  long alive() const { return contexts + modules + streams + device_buffers + pinned_buffers; }
  void fail(const std::string& function, long at = 1, int code = 999) {
    fail_function = function;
    fail_at = at;
    fail_code = code;
    failed.clear();
  }
  void work_again() { fail("", 0); }
};

struct FakeNvrtc {
  int major = 13, minor = 0;
  std::vector<int> architectures = {75, 80, 86, 89, 90, 100, 120};
  std::string fail_function;  // always fails
  std::string log = "robot.h(7): error: a fault made by the test";

  long compiled = 0, programs = 0;   // so far; alive
  std::vector<std::string> options;  // of the last compilation
};

}  // namespace hjcdik::test
