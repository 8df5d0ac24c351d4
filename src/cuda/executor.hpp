// Solves validated problems on one GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cuda/device.hpp"
#include "solver/worker.hpp"

namespace hjcdik::cuda {

class Executor {
 public:
  // index: of the GPU, or -1 for the current one. threads: of the host, for large problems. Throws
  // DeviceError, or BuildError: where nothing may be built, for any program that solves take by default.
  Executor(const model::Chain& chain, int index, int threads, const StoreAccess& access = {});
  ~Executor();

  int device_index() const;
  const std::string& compiler() const;      // version of the NVRTC that made the program
  const std::string& program_path() const;  // in the store; empty where it is packaged or not stored

  // Any number of threads may call it at once, each with memory and a stream of its own. Throws SolveError.
  void solve(const Problem& problem, const ResultView& out,
             const std::function<void(std::int64_t)>& progress) const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace hjcdik::cuda
