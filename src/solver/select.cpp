#include "solver/select.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hjcdik {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

// Difference of two angles, in [0, pi].
double modulo_turn(double d) { return std::abs(std::remainder(d, kTurn)); }

}  // namespace

bool nearest_equivalent(const model::Chain& chain, const double* reference, double* q) {
  bool changed = false;
  for (int i = 0; i < chain.constants.dof; i++) {
    const auto& joint = chain.joints[i].info;
    // A continuous joint's values all lie in [-pi, pi]: there is one.
    if (joint.type != JointType::revolute || joint.upper - joint.lower < kTurn) continue;
    const double middle = reference != nullptr ? reference[i] : 0.5 * (joint.lower + joint.upper);
    const double first = std::ceil((joint.lower - q[i]) / kTurn), last = std::floor((joint.upper - q[i]) / kTurn);
    const double turns = std::clamp(std::round((middle - q[i]) / kTurn), first, std::max(first, last));
    const double value = q[i] + turns * kTurn;
    if (turns == 0 || value < joint.lower || value > joint.upper) continue;
    q[i] = value;
    changed = true;
  }
  return changed;
}

double joint_distance(const model::Chain& chain, const double* a, const double* b) {
  double sum = 0;
  for (int i = 0; i < chain.constants.dof; i++) {
    double d = a[i] - b[i];
    if (chain.joints[i].info.type == JointType::continuous) d = modulo_turn(d);
    sum += d * d;
  }
  return std::sqrt(sum);
}

bool differ(const model::Chain& chain, const double* a, const double* b, double threshold) {
  for (int i = 0; i < chain.constants.dof; i++) {
    const double d = a[i] - b[i];
    if ((chain.joints[i].info.type == JointType::prismatic ? std::abs(d) : modulo_turn(d)) >= threshold) return true;
  }
  return false;
}

void DistinctSet::reset(const model::Chain& chain, double threshold) {
  chain_ = &chain;
  threshold_ = threshold;
  grid_joints_ = std::min(kGridJoints, chain.constants.dof);
  clear();
}

void DistinctSet::clear() {
  rows_.clear();
  next_.clear();
  std::fill(head_.begin(), head_.end(), -1);
}

// Cells are at least `threshold` wide, so rows that do not differ lie in neighbouring cells.
std::uint64_t DistinctSet::cell(const double* q, const int* offset) const {
  std::uint64_t hash = 0;
  for (int i = 0; i < grid_joints_; i++) {
    std::int64_t c;
    if (chain_->joints[i].info.type == JointType::prismatic) {
      c = std::int64_t(std::floor(q[i] / threshold_)) + offset[i];
    } else {
      const std::int64_t cells = std::max<std::int64_t>(1, std::int64_t(kTurn / threshold_));
      const double turn = q[i] / kTurn - std::floor(q[i] / kTurn);
      c = (std::min(std::int64_t(turn * double(cells)), cells - 1) + offset[i] + cells) % cells;
    }
    hash = (hash ^ std::uint64_t(c)) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return hash;
}

void DistinctSet::add_to_grid(std::int32_t index) {
  const int none[kGridJoints] = {0, 0, 0};
  std::int32_t& head = head_[cell(rows_[index], none) & (head_.size() - 1)];
  next_[index] = head;
  head = index;
}

bool DistinctSet::insert(const double* q) {
  if (rows_.size() <= kListOnly) {
    for (const double* other : rows_) {
      if (!differ(*chain_, q, other, threshold_)) return false;
    }
  } else {
    for (int n = 0, end = grid_joints_ == 3 ? 27 : grid_joints_ == 2 ? 9 : 3; n < end; n++) {
      const int offset[kGridJoints] = {n % 3 - 1, n / 3 % 3 - 1, n / 9 - 1};
      for (std::int32_t r = head_[cell(q, offset) & (head_.size() - 1)]; r >= 0; r = next_[r]) {
        if (!differ(*chain_, q, rows_[r], threshold_)) return false;
      }
    }
  }
  rows_.push_back(q);
  next_.push_back(-1);
  if (rows_.size() > kListOnly) {
    if (2 * rows_.size() > head_.size()) {
      head_.assign(std::max<std::size_t>(1024, 4 * head_.size()), -1);
      for (std::size_t r = 0; r < rows_.size(); r++) add_to_grid(std::int32_t(r));
    } else if (rows_.size() == kListOnly + 1) {
      for (std::size_t r = 0; r < rows_.size(); r++) add_to_grid(std::int32_t(r));
    } else {
      add_to_grid(std::int32_t(rows_.size() - 1));
    }
  }
  return true;
}

}  // namespace hjcdik
