#include "solver/world_set.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/target.h"

namespace hjcdik {
namespace {

constexpr std::size_t kLeaf = 4;

// A bounding sphere, and which obstacle of its kind it is about.
struct Bound {
  double center[3], radius;
  std::size_t index;
};

double norm(const double* v) { return std::hypot(v[0], v[1], v[2]); }

template <class T, class S>
void round_to(const T (&from)[3], S (&to)[3]) {
  for (int k = 0; k < 3; k++) to[k] = S(from[k]);
}

core::Box<float> rounded(const core::Box<double>& b) {
  core::Box<float> f{};
  round_to(b.center, f.center);
  round_to(b.half, f.half);
  for (int k = 0; k < 9; k++) f.axis[k] = float(b.axis[k]);
  return f;
}
core::Capsule<float> rounded(const core::Capsule<double>& c) {
  core::Capsule<float> f{};
  round_to(c.end, f.end);
  round_to(c.axis, f.axis);
  f.inverse = float(c.inverse);
  f.radius = float(c.radius);
  return f;
}
core::Cylinder<float> rounded(const core::Cylinder<double>& c) {
  core::Cylinder<float> f{};
  round_to(c.center, f.center);
  round_to(c.axis, f.axis);
  f.half = float(c.half);
  f.radius = float(c.radius);
  return f;
}

Bound bound_of(const core::Box<double>& b, std::size_t i) {
  return {{b.center[0], b.center[1], b.center[2]}, norm(b.half), i};
}
Bound bound_of(const core::Capsule<double>& c, std::size_t i) {
  return {{c.end[0] + 0.5 * c.axis[0], c.end[1] + 0.5 * c.axis[1], c.end[2] + 0.5 * c.axis[2]},
          0.5 * norm(c.axis) + c.radius,
          i};
}
Bound bound_of(const core::Cylinder<double>& c, std::size_t i) {
  return {{c.center[0], c.center[1], c.center[2]}, std::hypot(c.half, c.radius), i};
}

// The tree over one kind of obstacle, whose leaves hold runs of `bounds` as it is ordered here.
class Tree {
 public:
  Tree(std::vector<Bound>& bounds, std::vector<core::BoundingNode>& nodes, core::ObstacleShape shape,
       std::size_t first)
      : bounds_(bounds), nodes_(nodes), shape_(shape), first_(first) {
    if (!bounds.empty()) build(0, bounds.size());
  }

 private:
  void build(std::size_t begin, std::size_t end) {
    const std::size_t node = nodes_.size();
    nodes_.push_back(around(begin, end));
    if (end - begin <= kLeaf) {
      nodes_[node].shape = shape_;
      nodes_[node].begin = int(first_ + begin);
      nodes_[node].end = int(first_ + end);
    } else {
      const std::size_t middle = begin + (end - begin) / 2;
      const int k = longest_axis(begin, end);
      // Ties are settled by the index, so that equal worlds give equal trees.
      std::nth_element(&bounds_[begin], &bounds_[middle], bounds_.data() + end,
                       [k](const Bound& a, const Bound& b) {
                         return a.center[k] != b.center[k] ? a.center[k] < b.center[k] : a.index < b.index;
                       });
      build(begin, middle);
      build(middle, end);
    }
    nodes_[node].skip = int(nodes_.size());
  }

  core::BoundingNode around(std::size_t begin, std::size_t end) const {
    core::BoundingNode node{{}, 0, 0, core::kInner, 0, 0};
    for (int k = 0; k < 3; k++) {
      double lower = HUGE_VAL, upper = -HUGE_VAL;
      for (std::size_t i = begin; i < end; i++) {
        lower = std::min(lower, bounds_[i].center[k] - bounds_[i].radius);
        upper = std::max(upper, bounds_[i].center[k] + bounds_[i].radius);
      }
      node.center[k] = float(0.5 * (lower + upper));
    }
    double radius = 0, size = 0;
    for (std::size_t i = begin; i < end; i++) {
      const double d[3] = {bounds_[i].center[0] - double(node.center[0]),
                           bounds_[i].center[1] - double(node.center[1]),
                           bounds_[i].center[2] - double(node.center[2])};
      radius = std::max(radius, norm(d) + bounds_[i].radius);
      size = std::max(size, norm(bounds_[i].center));
    }
    // Float32 tests of it must not miss what it holds.
    node.radius = float(radius + 1e-6 * (radius + size));
    return node;
  }

  int longest_axis(std::size_t begin, std::size_t end) const {
    int longest = 0;
    double length = -1;
    for (int k = 0; k < 3; k++) {
      const auto [low, high] =
          std::minmax_element(&bounds_[begin], bounds_.data() + end,
                              [k](const Bound& a, const Bound& b) { return a.center[k] < b.center[k]; });
      if (high->center[k] - low->center[k] > length) {
        length = high->center[k] - low->center[k];
        longest = k;
      }
    }
    return longest;
  }

  std::vector<Bound>& bounds_;
  std::vector<core::BoundingNode>& nodes_;
  core::ObstacleShape shape_;
  std::size_t first_;
};

std::vector<core::Box<double>> boxes_of(const World& world) {
  std::vector<core::Box<double>> boxes(world.boxes().size() / 10);
  for (std::size_t i = 0; i < boxes.size(); i++) {
    const double* row = &world.boxes()[10 * i];
    double r[9];
    core::rotation_of(core::normalised(row + 3), r);
    for (int k = 0; k < 3; k++) {
      boxes[i].center[k] = row[k];
      boxes[i].half[k] = 0.5 * row[7 + k];
      for (int c = 0; c < 3; c++) boxes[i].axis[3 * k + c] = r[3 * c + k];
    }
  }
  return boxes;
}

// Spheres come behind the capsules.
std::vector<core::Capsule<double>> capsules_of(const World& world) {
  const std::size_t n = world.capsules().size() / 7;
  std::vector<core::Capsule<double>> capsules(n + world.spheres().size() / 4);
  for (std::size_t i = 0; i < capsules.size(); i++) {
    core::Capsule<double>& c = capsules[i];
    const double* row = i < n ? &world.capsules()[7 * i] : &world.spheres()[4 * (i - n)];
    double square = 0;
    for (int k = 0; k < 3; k++) {
      c.end[k] = row[k];
      c.axis[k] = i < n ? row[3 + k] - row[k] : 0;
      square += c.axis[k] * c.axis[k];
    }
    // An axis too short for float32 is a sphere's.
    c.inverse = square > 1e-24 ? 1 / square : 0;
    c.radius = i < n ? row[6] : row[3];
  }
  return capsules;
}

std::vector<core::Cylinder<double>> cylinders_of(const World& world) {
  std::vector<core::Cylinder<double>> cylinders(world.cylinders().size() / 9);
  for (std::size_t i = 0; i < cylinders.size(); i++) {
    const double* row = &world.cylinders()[9 * i];
    double r[9];
    core::rotation_of(core::normalised(row + 3), r);
    for (int k = 0; k < 3; k++) {
      cylinders[i].center[k] = row[k];
      cylinders[i].axis[k] = r[3 * k + 2];
    }
    cylinders[i].radius = row[7];
    cylinders[i].half = 0.5 * row[8];
  }
  return cylinders;
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

WorldSet::WorldSet(const model::Chain& chain, std::vector<World> given)
    : worlds(std::move(given)), id(next_id()) {
  // How far from the base's origin the robot can be, and how far off float32 places it there.
  const double reach = chain.length + chain.sphere_tables.lever + norm(chain.constants.start + 9);
  const auto add = [&](const auto& obstacles, auto& wide, auto& narrow, std::vector<std::int32_t>& rows,
                       core::ObstacleShape shape, double& size) {
    std::vector<Bound> bounds;
    bounds.reserve(obstacles.size());
    for (std::size_t i = 0; i < obstacles.size(); i++) {
      bounds.push_back(bound_of(obstacles[i], i));
      const double away = norm(bounds.back().center), radius = bounds.back().radius;
      if (away - radius < reach + 1) size = std::max(size, away + radius);
    }
    const Tree tree(bounds, nodes, shape, wide.size());
    for (const Bound& bound : bounds) {
      wide.push_back(obstacles[bound.index]);
      narrow.push_back(rounded(wide.back()));
      rows.push_back(std::int32_t(bound.index));
    }
  };
  const auto sizes = [&] {
    return Extent{std::int32_t(f64.boxes.size()), std::int32_t(f64.capsules.size()),
                  std::int32_t(f64.cylinders.size())};
  };
  for (const World& world : worlds) {
    const int begin = int(nodes.size());
    double size = 0;
    begins.push_back(sizes());
    add(boxes_of(world), f64.boxes, f32.boxes, box_rows, core::kBoxes, size);
    add(capsules_of(world), f64.capsules, f32.capsules, capsule_rows, core::kCapsules, size);
    add(cylinders_of(world), f64.cylinders, f32.cylinders, cylinder_rows, core::kCylinders, size);
    ranges.push_back({begin, int(nodes.size()), float(1e-6 * reach + 1e-6 * size)});
  }
  begins.push_back(sizes());
  ranges.push_back({0, 0, float(1e-6 * reach)});
}

}  // namespace hjcdik
