// Forward kinematics and the geometric Jacobian of a chain in the form of chain.h.
//
// `start` is the frame the chain hangs in. The solvers pass start = target^-1 . base: the tool pose
// then comes out in the frame of the target's tool, where "reached" is the identity, the residual
// needs no product with the target, and weights along tool axes are plain factors.
#pragma once

#include "core/chain.h"
#include "core/frame.h"
#include "core/trig.h"

namespace hjcdik::HJCDIK_CORE {

// Axis and origin of every joint at q.
template <class Real, int Capacity = kMaxDof>
struct JointAxes {
  Vec3<Real> axis[Capacity];
  Vec3<Real> origin[Capacity];
};

template <class Real>
HJCDIK_FN void turn_about_z(Frame<Real>& f, Real sine, Real cosine) {
  const Vec3<Real> x = f.x;
  f.x = cosine * x + sine * f.y;
  f.y = cosine * f.y - sine * x;
}

// The motion of one joint, and the fixed transform to the next.
template <class Real, class S>
HJCDIK_FN void move_joint(Frame<Real>& f, const JointConstants<S>& joint, Real q) {
  if (joint.prismatic) {
    if (joint.offset != S(0)) turn_about_z(f, Real(joint.sin_offset), Real(joint.cos_offset));
    f.p = f.p + q * f.z;
  } else {
    Real s, c;
    sincos(joint.offset != S(0) ? q + Real(joint.offset) : q, s, c);
    turn_about_z(f, s, c);
  }
}

template <class Real, class S>
HJCDIK_FN void move_link(Frame<Real>& f, const JointConstants<S>& joint) {
  // The tests are the same for all lanes, and most translations are zero.
  if (joint.translation[0] != S(0)) f.p = f.p + Real(joint.translation[0]) * f.x;
  if (joint.translation[1] != S(0)) f.p = f.p + Real(joint.translation[1]) * f.y;
  if (joint.translation[2] != S(0)) f.p = f.p + Real(joint.translation[2]) * f.z;
  // Right angles are the rule too.
  const Vec3<Real> y = f.y;
  const Real s = Real(joint.sin_alpha), c = Real(joint.cos_alpha);
  if (joint.cos_alpha == S(0)) {
    f.y = s * f.z;
    f.z = -s * y;
  } else {
    f.y = c * y + s * f.z;
    f.z = c * f.z - s * y;
  }
}

// Tool frame, and the joints' axes and origins on the way. N: the number of joints where it is known
// when compiling, else 0.
template <int N = 0, class Real, class Chain, int Capacity>
HJCDIK_FN Frame<Real> forward_kinematics(const Chain& chain, const Real* q, Frame<Real> f,
                                         JointAxes<Real, Capacity>& axes) {
  const int n = N > 0 ? N : chain.dof;
  HJCDIK_UNROLL
  for (int i = 0; i < n; i++) {
    const auto& joint = chain.joint[i];
    axes.axis[i] = f.z;
    axes.origin[i] = f.p;
    move_joint(f, joint, q[i]);
    move_link(f, joint);
  }
  turn_about_z(f, Real(chain.sin_end), Real(chain.cos_end));
  return f;
}

template <int N = 0, class Real, class Chain>
HJCDIK_FN Frame<Real> forward_kinematics(const Chain& chain, const Real* q, Frame<Real> f) {
  const int n = N > 0 ? N : chain.dof;
  HJCDIK_UNROLL
  for (int i = 0; i < n; i++) {
    move_joint(f, chain.joint[i], q[i]);
    move_link(f, chain.joint[i]);
  }
  turn_about_z(f, Real(chain.sin_end), Real(chain.cos_end));
  return f;
}

// How far the tool at a table entry is from the target that `start` (target^-1 . base) stands for: a squared
// length, comparable among entries of one target. pose: position and rotation (columns) of the tool as the
// chain alone gives it, without its start.
template <class Real, class S>
HJCDIK_FN Real seed_distance(const Vec3<S>& offset, const S* rotation, Real weight, const Real* pose) {
  const Real x = pose[0] + Real(offset.x), y = pose[1] + Real(offset.y), z = pose[2] + Real(offset.z);
  // The trace of start's rotation times the tool's.
  Real trace = pose[3] * Real(rotation[0]);
  HJCDIK_UNROLL
  for (int k = 1; k < 9; k++) trace = trace + pose[3 + k] * Real(rotation[k]);
  return x * x + y * y + z * z - weight * trace;
}

// The first argument of seed_distance: start's position in its own axes.
template <class S>
HJCDIK_FN Vec3<S> seed_offset(const S* start) {
  return {start[0] * start[9] + start[3] * start[10] + start[6] * start[11],
          start[1] * start[9] + start[4] * start[10] + start[7] * start[11],
          start[2] * start[9] + start[5] * start[10] + start[8] * start[11]};
}

// Column i of the geometric Jacobian at the tool: velocity of the tool's origin per unit of q_i, and
// its angular velocity.
template <class Real>
struct Twist {
  Vec3<Real> linear, angular;
};

template <class Real, int Capacity>
HJCDIK_FN Twist<Real> jacobian_column(const JointAxes<Real, Capacity>& axes, int i, bool prismatic,
                                      const Vec3<Real>& tool) {
  using S = ScalarOf<Real>;
  if (prismatic) return {axes.axis[i], {Real(S(0)), Real(S(0)), Real(S(0))}};
  return {cross(axes.axis[i], tool - axes.origin[i]), axes.axis[i]};
}

}  // namespace hjcdik::HJCDIK_CORE
