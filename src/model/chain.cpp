// Rigid transforms, and the chain's constants in the form of core/chain.h.
#include "model/chain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "model/reach.hpp"

namespace hjcdik::model {

namespace {

// Turned about z, moved, turned about x, turned about z: M = Rz(first) T(translation) Rx(alpha) Rz(last).
struct EulerZxz {
  double first, translation[3], cos_alpha, sin_alpha, last;
};

EulerZxz decompose(const Transform& m) {
  const double(&r)[9] = m.rotation;
  EulerZxz euler{};
  // The third column is (sin(first) sin(alpha), -cos(first) sin(alpha), cos(alpha)). Of the two
  // solutions the one with the smaller `first` is taken, so that joints in line keep their zero.
  // Parallel axes leave `first` free: below rounding noise it is 0. Nothing else is made a nice value.
  const double sign = r[5] > 0 ? -1 : 1;
  const bool parallel = std::hypot(r[2], r[5]) <= 4 * std::numeric_limits<double>::epsilon();
  euler.first = parallel ? 0 : std::atan2(sign * r[2], -sign * r[5]);
  const double c = std::cos(euler.first), s = std::sin(euler.first);
  // With Rz(first) taken away the first row is (cos(last), -sin(last), 0) at any alpha: `last` makes
  // up for whatever `first` got wrong where alpha is small.
  euler.last = std::atan2(-(c * r[1] + s * r[4]), c * r[0] + s * r[3]);
  const double sine = -(c * r[5] - s * r[2]);
  const double norm = std::hypot(sine, r[8]);
  euler.sin_alpha = sine / norm;
  euler.cos_alpha = r[8] / norm;
  euler.translation[0] = c * m.position[0] + s * m.position[1];
  euler.translation[1] = c * m.position[1] - s * m.position[0];
  euler.translation[2] = m.position[2];
  return euler;
}

// A rotation that takes z to the unit vector `axis`; exact for axes along x, y or z.
Transform z_to(const double axis[3]) {
  // The lower half space goes by a half turn about x first, since the formula fails at -z.
  const bool flip = axis[2] < 0;
  const double x = axis[0], y = flip ? -axis[1] : axis[1], z = std::abs(axis[2]);
  const double k = 1 / (1 + z);
  const double turn[9] = {1 - k * x * x, -k * x * y, x, -k * x * y, 1 - k * y * y, y, -x, -y, z};
  Transform result;
  for (int i = 0; i < 9; ++i) result.rotation[i] = flip && i >= 3 ? -turn[i] : turn[i];
  return result;
}

double within_half_turn(double angle) {
  return std::abs(angle) <= std::numbers::pi ? angle : std::remainder(angle, 2 * std::numbers::pi);
}

bool holds_a_turn(const JointInfo& info) {
  if (info.type == JointType::continuous) return true;
  // Where a range is just one turn its ends are far apart for the arm, if not for the tool: a step beyond
  // one limit must not come back at the other.
  return info.type == JointType::revolute && info.upper - info.lower > 2 * std::numbers::pi + 1e-3;
}

void set_constants(Chain& chain) {
  const std::size_t n = chain.joints.size();
  core::ChainConstants<double> out{};
  out.dof = static_cast<int>(n);

  Transform frame = z_to(chain.joints[0].axis);  // joint i's frame turned so that its axis is z
  const Transform start = chain.joints[0].origin * frame;
  std::copy_n(start.rotation, 9, out.start);
  std::copy_n(start.position, 3, out.start + 9);

  double from_previous = 0;
  chain.to_constants.clear();
  for (std::size_t i = 0; i < n; ++i) {
    const JointInfo& info = chain.joints[i].info;
    const Transform to_turned = inverse(frame);
    Transform to_next = to_turned;
    if (i + 1 < n) {
      frame = z_to(chain.joints[i + 1].axis);
      to_next = to_next * chain.joints[i + 1].origin * frame;
    } else {
      to_next = to_next * chain.tool;
    }
    const EulerZxz euler = decompose(to_next);
    // After its motion the frame has turned by `first` as well, which is part of the offset.
    const double z[] = {0, 0, 1};
    chain.to_constants.push_back(rotation_about(z, -euler.first) * to_turned);

    core::JointConstants<double>& joint = out.joint[i];
    joint.cos_alpha = euler.cos_alpha;
    joint.sin_alpha = euler.sin_alpha;
    std::copy_n(euler.translation, 3, joint.translation);
    joint.offset = within_half_turn(from_previous + euler.first);
    joint.cos_offset = std::cos(joint.offset);
    joint.sin_offset = std::sin(joint.offset);
    joint.lower = info.lower;
    joint.upper = info.upper;
    joint.prismatic = info.type == JointType::prismatic;
    joint.wraps = holds_a_turn(info);
    from_previous = euler.last;
  }
  out.cos_end = std::cos(from_previous);
  out.sin_end = std::sin(from_previous);
  chain.constants = out;
}

// The floats inside [lower, upper]; where there is none, the nearest one for both.
void round_inwards(double lower, double upper, float& lower_f32, float& upper_f32) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  lower_f32 = static_cast<float>(lower);
  upper_f32 = static_cast<float>(upper);
  if (static_cast<double>(lower_f32) < lower) lower_f32 = std::nextafterf(lower_f32, kInfinity);
  if (static_cast<double>(upper_f32) > upper) upper_f32 = std::nextafterf(upper_f32, -kInfinity);
  if (lower_f32 > upper_f32) lower_f32 = upper_f32 = static_cast<float>(lower + (upper - lower) / 2);
}

void set_constants_f32(Chain& chain) {
  const core::ChainConstants<double>& from = chain.constants;
  core::ChainConstants<float> out{};
  // Below the rounding of 1, so that right angles written as 1.5708 are right angles to the search.
  const auto round = [](double x) { return std::abs(x) < 1e-8 ? 0.0f : static_cast<float>(x); };
  out.dof = from.dof;
  std::transform(std::begin(from.start), std::end(from.start), out.start, round);
  for (int i = 0; i < from.dof; ++i) {
    const core::JointConstants<double>& f64 = from.joint[i];
    core::JointConstants<float>& f32 = out.joint[i];
    f32.cos_alpha = round(f64.cos_alpha);
    f32.sin_alpha = round(f64.sin_alpha);
    std::transform(std::begin(f64.translation), std::end(f64.translation), f32.translation, round);
    f32.offset = round(f64.offset);
    f32.cos_offset = round(f64.cos_offset);
    f32.sin_offset = round(f64.sin_offset);
    round_inwards(f64.lower, f64.upper, f32.lower, f32.upper);
    f32.prismatic = f64.prismatic;
    f32.wraps = f64.wraps;
  }
  out.cos_end = round(from.cos_end);
  out.sin_end = round(from.sin_end);
  chain.constants_f32 = out;
}

}  // namespace

Transform operator*(const Transform& a, const Transform& b) {
  Transform product;
  for (std::size_t i = 0; i < 3; ++i) {
    const double* row = a.rotation + 3 * i;
    for (std::size_t j = 0; j < 3; ++j) {
      product.rotation[3 * i + j] =
          row[0] * b.rotation[j] + row[1] * b.rotation[3 + j] + row[2] * b.rotation[6 + j];
    }
    product.position[i] =
        a.position[i] + row[0] * b.position[0] + row[1] * b.position[1] + row[2] * b.position[2];
  }
  return product;
}

Transform inverse(const Transform& transform) {
  Transform result;
  for (int i = 0; i < 3; ++i) {
    result.position[i] = 0;
    for (int j = 0; j < 3; ++j) {
      result.rotation[3 * i + j] = transform.rotation[3 * j + i];
      result.position[i] -= transform.rotation[3 * j + i] * transform.position[j];
    }
  }
  return result;
}

// Rodrigues' formula.
Transform rotation_about(const double axis[3], double angle) {
  const double c = std::cos(angle), s = std::sin(angle);
  // 1 - cos without the cancellation at small angles.
  const double half = std::sin(angle / 2), v = 2 * half * half;
  const double x = axis[0], y = axis[1], z = axis[2];
  Transform result;
  const double rotation[9] = {c + v * x * x,     v * x * y - s * z, v * x * z + s * y,  //
                              v * x * y + s * z, c + v * y * y,     v * y * z - s * x,  //
                              v * x * z - s * y, v * y * z + s * x, c + v * z * z};
  std::copy_n(rotation, 9, result.rotation);
  return result;
}

Transform translation_along(const double axis[3], double distance) {
  Transform result;
  for (int i = 0; i < 3; ++i) result.position[i] = distance * axis[i];
  return result;
}

std::array<double, 4> operator*(const Transform& transform, const std::array<double, 4>& sphere) {
  std::array<double, 4> moved = sphere;
  for (std::size_t i = 0; i < 3; ++i) {
    const double* row = transform.rotation + 3 * i;
    moved[i] = transform.position[i] + row[0] * sphere[0] + row[1] * sphere[1] + row[2] * sphere[2];
  }
  return moved;
}

Transform motion(const Joint& joint, double q) {
  return joint.info.type == JointType::prismatic ? translation_along(joint.axis, q)
                                                 : rotation_about(joint.axis, q);
}

namespace {

void set_derived(Chain& chain) {
  set_constants_f32(chain);
  set_reach(chain);
  chain.sphere_tables = make_sphere_tables(chain);
  chain.header_text = chain_text(chain);
}

}  // namespace

void finish(Chain& chain) {
  set_constants(chain);
  set_derived(chain);
}

// The formula at the head of core/chain.h, with joint frames where the constants have theirs.
void finish_from_constants(Chain& chain) {
  const double x[] = {1, 0, 0}, z[] = {0, 0, 1};
  core::ChainConstants<double>& constants = chain.constants;
  chain.joints.clear();
  chain.to_constants.assign(chain.joint_infos.size(), Transform{});
  std::copy_n(constants.start, 9, chain.tool.rotation);
  std::copy_n(constants.start + 9, 3, chain.tool.position);
  for (std::size_t i = 0; i < chain.joint_infos.size(); ++i) {
    const JointInfo& info = chain.joint_infos[i];
    core::JointConstants<double>& joint = constants.joint[i];
    joint.prismatic = info.type == JointType::prismatic;
    joint.wraps = holds_a_turn(info);
    // chain.tool is so far the frame that the joint hangs in.
    chain.joints.push_back({info, chain.tool * rotation_about(z, joint.offset), {0, 0, 1}});
    Transform link = rotation_about(x, std::atan2(joint.sin_alpha, joint.cos_alpha));
    std::copy_n(joint.translation, 3, link.position);
    chain.tool = link;
  }
  chain.tool = chain.tool * rotation_about(z, std::atan2(constants.sin_end, constants.cos_end));
  set_derived(chain);
}

}  // namespace hjcdik::model
