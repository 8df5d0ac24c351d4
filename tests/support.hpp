// What several test programs share: counts that shrink under sanitizers, random numbers that are the
// same with every standard library, and a chain in plain matrices as the oracle for core/.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hjcdik/hjcdik.hpp>

#include "core/frame.h"
#include "model/chain.hpp"
#include "model/urdf_builder.hpp"

namespace hjcdik::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Instrumented code is ten times slower.
constexpr int few(int count) { return kSanitized ? (count + 9) / 10 : count; }

// std's distributions differ between libraries.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine(seed) {}
  double uniform(double low = 0, double high = 1) {
    return low + (high - low) * double(engine() >> 11) * 0x1p-53;
  }
  int below(int n) { return int(engine() % std::uint64_t(n)); }
  // 10^low to 10^high.
  double magnitude(double low, double high) { return std::pow(10.0, uniform(low, high)); }
  std::vector<double> direction() {
    for (;;) {
      const double x = uniform(-1, 1), y = uniform(-1, 1), z = uniform(-1, 1);
      const double norm = std::sqrt(x * x + y * y + z * z);
      if (norm > 0.1 && norm <= 1) return {x / norm, y / norm, z / norm};
    }
  }

  std::mt19937_64 engine;
};

// Of two arrays of any kind.
template <class A, class B>
bool same_bits(const A& a, const B& b) {
  static_assert(sizeof(*a.data()) == sizeof(*b.data()));
  return a.size() == b.size() &&
         (a.size() == 0 || std::memcmp(a.data(), b.data(), a.size() * sizeof(*a.data())) == 0);
}

// Options of a solve in open space, where every preset has its solutions.
inline SolveOptions open(SolveOptions options = {}) {
  options.collision = Collision::none;
  return options;
}

inline std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const PresetInfo& preset : presets()) names.push_back(preset.name);
  return names;
}

// The presets, and chains with prismatic, continuous and crooked joints.
inline std::vector<Robot> sample_robots(int random_chains = 12, std::uint64_t seed = 7) {
  std::vector<Robot> robots;
  for (const std::string& name : preset_names()) robots.push_back(Robot::preset(name));
  std::mt19937_64 random(seed);
  for (int k = 0; k < random_chains; k++) robots.push_back(load(random_chain(1 + k * 31 / 11 % 32, random)));
  return robots;
}

// A chain at q by the URDF's own joints: all frames in the frame `start` hangs in, std::sin and
// std::cos only.
struct PlainChain {
  std::vector<model::Transform> joint;  // before the joint's own motion
  std::vector<std::vector<double>> axis;
  model::Transform tool;

  // `base`: where the base link is.
  PlainChain(const Robot& robot, const std::vector<double>& q, const model::Transform& base = {}) {
    const model::Chain& chain = robot.chain();
    model::Transform pose = base;
    for (std::size_t i = 0; i < q.size(); i++) {
      const model::Joint& j = chain.joints[i];
      pose = pose * j.origin;
      joint.push_back(pose);
      const double* r = pose.rotation;
      axis.push_back({r[0] * j.axis[0] + r[1] * j.axis[1] + r[2] * j.axis[2],
                      r[3] * j.axis[0] + r[4] * j.axis[1] + r[5] * j.axis[2],
                      r[6] * j.axis[0] + r[7] * j.axis[1] + r[8] * j.axis[2]});
      const bool slides = j.info.type == JointType::prismatic;
      pose = pose * (slides ? model::translation_along(j.axis, q[i]) : model::rotation_about(j.axis, q[i]));
    }
    tool = pose * chain.tool;
  }
};

template <class Real>
core::Frame<Real> to_frame(const model::Transform& t) {
  const double* r = t.rotation;
  const double* p = t.position;
  return {{Real(r[0]), Real(r[3]), Real(r[6])},
          {Real(r[1]), Real(r[4]), Real(r[7])},
          {Real(r[2]), Real(r[5]), Real(r[8])},
          {Real(p[0]), Real(p[1]), Real(p[2])}};
}

inline model::Transform random_transform(Random& random, double size = 1) {
  const std::vector<double> axis = random.direction();
  model::Transform t = model::rotation_about(axis.data(), random.uniform(-3.1, 3.1));
  for (double& p : t.position) p = random.uniform(-size, size);
  return t;
}

// base . start: what the numerics take as the chain's start when the base link is at `base`.
template <class Real>
core::Frame<Real> start_frame(const Robot& robot, const model::Transform& base) {
  model::Transform start;
  std::copy_n(robot.chain().constants.start, 9, start.rotation);
  std::copy_n(robot.chain().constants.start + 9, 3, start.position);
  return to_frame<Real>(base * start);
}

}  // namespace hjcdik::test
