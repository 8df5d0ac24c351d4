// Which configurations count as the same, and which of several equivalents is returned.
#pragma once

#include <cstdint>
#include <vector>

#include "model/chain.hpp"

namespace hjcdik {

// Puts every joint of q that may be a turn away at the equivalent inside the limits nearest to
// `reference` (null: to mid-range). True if q changed.
bool nearest_equivalent(const model::Chain& chain, const double* reference, double* q);

// Euclidean joint-space distance (rad and m alike), continuous joints modulo a turn.
double joint_distance(const model::Chain& chain, const double* a, const double* b);

// Whether some joint differs by at least `threshold`, revolute ones modulo a turn.
bool differ(const model::Chain& chain, const double* a, const double* b, double threshold);

// Configurations of one target that differ pairwise. Time and memory linear in their number.
class DistinctSet {
 public:
  void reset(const model::Chain& chain, double threshold);
  void clear();
  // Whether q differs by at least `threshold`, at most that of the set, from all that are there.
  bool differs(const double* q, double threshold) const;
  // False if q does not differ from one that is there. Otherwise keeps the pointer.
  bool insert(const double* q);
  std::int64_t size() const { return std::int64_t(rows_.size()); }

 private:
  // A cell of the grid over the first two joints, cells at least `threshold` wide, so that rows that
  // do not differ lie in neighbouring cells.
  struct Cell {
    std::int64_t index[2];
  };
  Cell cell_of(const double* q) const;
  // Where in head_ the rows of the cell `d0`, `d1` away start.
  std::size_t slot(const Cell& cell, int d0, int d1) const;
  void add_to_grid(std::int32_t index);

  static constexpr int kListOnly = 64;  // rows up to which a plain scan is faster

  const model::Chain* chain_ = nullptr;
  double threshold_ = 0;
  std::int64_t cells_ = 0;  // in a turn
  std::vector<const double*> rows_;
  std::vector<std::int32_t> head_, next_;  // hash table of cells, chained
};

}  // namespace hjcdik
