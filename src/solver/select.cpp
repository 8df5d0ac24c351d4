#include "solver/select.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/target.h"

namespace hjcdik {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

// Difference of two angles, in [0, pi]. (std::remainder is an order of magnitude slower.)
double modulo_turn(double d) {
  d = std::abs(d);
  return d <= std::numbers::pi ? d : std::abs(d - kTurn * std::floor(d / kTurn + 0.5));
}

}  // namespace

bool nearest_equivalent(const model::Chain& chain, const double* reference, double* q) {
  bool changed = false;
  for (int i = 0; i < chain.constants.dof; i++) {
    const auto& joint = chain.joints[i].info;
    // A continuous joint's values all lie in [-pi, pi]: there is one.
    if (joint.type != JointType::revolute || joint.upper - joint.lower <= kTurn) continue;
    const double middle = reference != nullptr ? reference[i] : 0.5 * (joint.lower + joint.upper);
    const double value = core::nearest_turn(q[i], middle, joint.lower, joint.upper);
    changed = changed || value != q[i];
    q[i] = value;
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
    if ((chain.joints[i].info.type == JointType::prismatic ? std::abs(d) : modulo_turn(d)) >= threshold)
      return true;
  }
  return false;
}

void DistinctSet::reset(const model::Chain& chain, double threshold) {
  chain_ = &chain;
  threshold_ = threshold;
  cells_ = std::max<std::int64_t>(1, std::int64_t(kTurn / threshold));
  clear();
}

void DistinctSet::clear() {
  rows_.clear();
  next_.clear();
  std::fill(head_.begin(), head_.end(), -1);
}

DistinctSet::Cell DistinctSet::cell_of(const double* q) const {
  Cell cell{};
  for (int i = 0; i < std::min(2, chain_->constants.dof); i++) {
    if (chain_->joints[i].info.type == JointType::prismatic) {
      cell.index[i] = std::int64_t(std::floor(q[i] / threshold_));
    } else {
      const double turns = q[i] / kTurn;
      cell.index[i] = std::min(std::int64_t((turns - std::floor(turns)) * double(cells_)), cells_ - 1);
    }
  }
  return cell;
}

std::size_t DistinctSet::slot(const Cell& cell, int d0, int d1) const {
  const int d[2] = {d0, d1};
  std::uint64_t hash = 0;
  for (int i = 0; i < std::min(2, chain_->constants.dof); i++) {
    std::int64_t c = cell.index[i] + d[i];
    if (chain_->joints[i].info.type != JointType::prismatic)
      c = c < 0 ? c + cells_ : c >= cells_ ? c - cells_ : c;
    hash = (hash ^ std::uint64_t(c)) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 32;
  }
  return hash & (head_.size() - 1);
}

void DistinctSet::add_to_grid(std::int32_t index) {
  std::int32_t& head = head_[slot(cell_of(rows_[index]), 0, 0)];
  next_[index] = head;
  head = index;
}

bool DistinctSet::differs(const double* q, double threshold) const {
  if (rows_.size() <= kListOnly) {
    for (const double* other : rows_) {
      if (!differ(*chain_, q, other, threshold)) return false;
    }
    return true;
  }
  const Cell cell = cell_of(q);
  const int last = chain_->constants.dof > 1 ? 1 : 0;
  for (int d0 = -1; d0 <= 1; d0++) {
    for (int d1 = -last; d1 <= last; d1++) {
      for (std::int32_t r = head_[slot(cell, d0, d1)]; r >= 0; r = next_[r]) {
        if (!differ(*chain_, q, rows_[r], threshold)) return false;
      }
    }
  }
  return true;
}

bool DistinctSet::insert(const double* q) {
  if (!differs(q, threshold_)) return false;
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
