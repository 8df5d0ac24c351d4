// What a solve returns.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <hjcdik/robot.hpp>

namespace hjcdik {

// Owned memory of a fixed size. Not a std::vector, which would write every element twice: filling large
// results is a good part of a fast solve.
template <class T>
class Array {
 public:
  Array() = default;
  // Elements are uninitialised.
  explicit Array(std::size_t size) : data_(std::make_unique_for_overwrite<T[]>(size)), size_(size) {}
  Array(const Array& other) : Array(other.size_) { std::copy(other.begin(), other.end(), begin()); }
  Array& operator=(const Array& other) { return *this = Array(other); }
  Array(Array&& other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  Array& operator=(Array&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() noexcept { return data_.get(); }
  const T* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }
  friend bool operator==(const Array& a, const Array& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::unique_ptr<T[]> data_;
  std::size_t size_ = 0;
};

// Why a target has the rows it has. The collision outcomes come with collision-aware solves.
enum class Outcome : std::uint8_t {
  solved = 0,       // row 0 converged: < 1e-6 m and < 1e-6 rad in float64, inside the limits
  approximate = 1,  // rows, but none of them converged
  no_accurate = 2,  // no rows: nothing came inside 5 mm and 0.05 rad
  self_collision = 3,
  environment_collision = 4,
};

const char* to_string(Outcome outcome) noexcept;

// Diagnostics of one target. A figure that was not measured is -1.
struct TargetStats {
  std::int64_t batch_size = -1;
  std::int64_t n_refined = -1;      // candidates refined, up to the last returned row's
  std::int64_t n_ik_accurate = -1;  // of those: < 5 mm and < 0.001 rad
  std::int64_t n_coll_free_refined = -1;
  std::int64_t n_feasible = -1;
  std::int64_t n_ik_lost = -1;
  std::int64_t n_coll_in_refined = -1;
  std::int64_t n_coll_in_coarse = -1;
  double env_cost_min_mm = -1;
  double env_cost_max_mm = -1;
  double env_cost_mean_mm = -1;
  std::int64_t n_returned = -1;
  std::int64_t n_returned_ik_accurate = -1;
  std::int64_t n_returned_coll_free = -1;
  double pct_returned_coll_free = -1;
  std::int64_t n_returned_feasible = -1;
};

// T targets, S rows each, row-major; rows from count[t] on are NaN.
struct Result {
  std::int64_t targets = 0;   // T
  std::int64_t capacity = 0;  // S
  int dof = 0;
  Array<double> q;                 // T x S x dof, rad or m
  Array<double> pose;              // T x S x 7, reached pose, x y z qw qx qy qz
  Array<double> pos_err_m;         // T x S, distance to the target position
  Array<double> ori_err_rad;       // T x S, geodesic angle to the target orientation
  Array<std::int64_t> count;       // T, valid rows
  Array<Outcome> outcome;          // T
  std::vector<TargetStats> stats;  // T with SolveOptions::stats, else empty
  double elapsed_ms = 0;           // the whole call, observed on the host
};

enum class MemoryKind {
  host,
  device,  // of the GPU that the solver is bound to
};

// Where a solve writes: caller's memory with the shapes of Result. Optional parts may be null.
struct ResultView {
  double* q = nullptr;
  double* pose = nullptr;
  double* pos_err_m = nullptr;
  double* ori_err_rad = nullptr;
  std::int64_t* count = nullptr;
  Outcome* outcome = nullptr;
  TargetStats* stats = nullptr;          // needed with SolveOptions::stats, else ignored
  MemoryKind memory = MemoryKind::host;  // as the targets'; all of the above but stats, which is on the host
};

}  // namespace hjcdik
