// Pairs of links whose spheres overlap wherever the robot stands: a fault of the sphere model, as a rule.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/halton.h"
#include "model/names.hpp"
#include "model/spheres.hpp"

namespace hjcdik::model {

namespace {

constexpr int kSamples = 1000;
constexpr int kFreeEnough = 51;  // free samples of a pair that overlaps in less than 95 %
constexpr std::size_t kMostWarnings = 8;

using Sphere = std::array<double, 4>;

// Touching is free.
bool overlap(const Sphere& a, const Sphere& b) {
  const double x = a[0] - b[0], y = a[1] - b[1], z = a[2] - b[2], r = a[3] + b[3];
  return x * x + y * y + z * z < r * r;
}

// One around all, not the smallest.
Sphere bound(const std::vector<Sphere>& spheres) {
  Sphere all = {0, 0, 0, 0};
  for (const Sphere& s : spheres) {
    for (std::size_t k = 0; k < 3; ++k) all[k] += s[k] / static_cast<double>(spheres.size());
  }
  for (const Sphere& s : spheres) {
    all[3] = std::max(all[3], std::hypot(s[0] - all[0], s[1] - all[1], s[2] - all[2]) + s[3]);
  }
  all[3] *= 1 + 1e-9;  // rounding must not make it miss
  return all;
}

class Sampler {
 public:
  explicit Sampler(const Chain& chain)
      : chain_(chain), frames_(chain.joints.size() + 1), placed_(chain.spheres.links.size()) {
    for (const SphereLink& link : chain.spheres.links) bounds_.push_back(bound(link.spheres));
  }

  void stand_at(const std::vector<double>& q) {
    for (std::size_t i = 0; i < q.size(); ++i) {
      frames_[i + 1] = frames_[i] * chain_.joints[i].origin * motion(chain_.joints[i], q[i]);
    }
    for (std::vector<Sphere>& spheres : placed_) spheres.clear();
  }

  bool overlap(const std::array<int, 2>& pair) {
    const auto [a, b] = pair;
    if (!model::overlap(frame(a) * bounds_[a], frame(b) * bounds_[b])) return false;
    for (const Sphere& one : placed(a)) {
      for (const Sphere& other : placed(b)) {
        if (model::overlap(one, other)) return true;
      }
    }
    return false;
  }

 private:
  const Transform& frame(int link) const { return frames_[chain_.spheres.links[link].joint + 1]; }

  const std::vector<Sphere>& placed(int link) {
    std::vector<Sphere>& spheres = placed_[link];
    if (spheres.empty()) {
      for (const Sphere& s : chain_.spheres.links[link].spheres) spheres.push_back(frame(link) * s);
    }
    return spheres;
  }

  const Chain& chain_;
  std::vector<Transform> frames_;  // the base's, then the joints'
  std::vector<Sphere> bounds_;
  std::vector<std::vector<Sphere>> placed_;  // empty: not yet needed at this q
};

std::vector<double> mid_range(const Chain& chain) {
  std::vector<double> q;
  for (const Joint& joint : chain.joints) {
    q.push_back(joint.info.lower + (joint.info.upper - joint.info.lower) / 2);
  }
  return q;
}

std::vector<double> sample(const Chain& chain, int index) {
  std::vector<double> q;
  for (const Joint& joint : chain.joints) {
    core::JointConstants<double> limits{};
    limits.lower = joint.info.lower;
    limits.upper = joint.info.upper;
    q.push_back(core::halton_value(limits, static_cast<core::u64>(index), 0, static_cast<int>(q.size())));
  }
  return q;
}

}  // namespace

void warn_of_overlaps(Chain& chain) {
  const std::vector<std::array<int, 2>>& pairs = chain.spheres.pairs;
  Sampler sampler(chain);
  std::vector<std::string> found(pairs.size());

  sampler.stand_at(mid_range(chain));
  std::vector<std::size_t> open;  // what may still overlap nearly always; few do for long
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (sampler.overlap(pairs[i])) {
      found[i] = "with all joints at mid-range";
    } else {
      open.push_back(i);
    }
  }
  std::vector<int> free(pairs.size(), 0);
  for (int n = 1; n <= kSamples && !open.empty(); ++n) {
    sampler.stand_at(sample(chain, n));
    std::erase_if(open,
                  [&](std::size_t i) { return !sampler.overlap(pairs[i]) && ++free[i] == kFreeEnough; });
  }
  for (const std::size_t i : open) {
    found[i] =
        "in " + std::to_string(kSamples - free[i]) + " of " + std::to_string(kSamples) + " configurations";
  }

  std::size_t count = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (found[i].empty() || ++count > kMostWarnings) continue;
    const auto [a, b] = pairs[i];
    chain.warnings.push_back(
        chain.spheres.source + ": the spheres of links " + in_quotes(chain.spheres.link_names[a]) + " and " +
        in_quotes(chain.spheres.link_names[b]) + " overlap " + found[i] +
        "; if they cannot collide, exclude the pair by self_collision_ignore_pairs of the JSON file or by " +
        "disable_collisions of an SRDF");
  }
  if (count > kMostWarnings) {
    chain.warnings.push_back(chain.spheres.source + ": and " + std::to_string(count - kMostWarnings) +
                             " more pairs of links overlap so");
  }
}

}  // namespace hjcdik::model
