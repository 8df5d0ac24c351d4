// The coarse search (PO-CCD): one joint at a time goes to its best place for position and orientation
// together, in closed form, in the target's frame.
//
// Turning joint i by t, the misfit |p|² + wo (3 - trace R) is const - 2 (A cos t + B sin t) with
//   A = u.v - (z.u)(z.v) + wo (trace R - zᵀ R z),   B = z.(u x v) + wo z.s,
// u the tool and v the target seen from the joint, z its axis, s = (R23 - R32, R31 - R13, R12 - R21)
// (the orientation part of A and B has a factor 1/2 less, so wo below is that of 2 wo in the misfit).
// The best turn is atan2(B, A). A prismatic joint's best travel is z.(v - u).
#pragma once

#include "core/kinematics.h"
#include "core/levenberg_marquardt.h"

namespace hjcdik::HJCDIK_CORE {

// The best move of joint i inside its limits, and what it gains.
template <class Real>
struct JointMove {
  Real q, change, gain;
  Real sine, cosine;  // of change, revolute
};

template <class Real, class S>
HJCDIK_FN JointMove<Real> best_move(const JointConstants<S>& joint, const Vec3<Real>& z,
                                    const Vec3<Real>& origin, const Frame<Real>& tool, Real q,
                                    Real orientation_weight) {
  const Real lower = Real(joint.lower), upper = Real(joint.upper);
  if (joint.prismatic) {
    const Real best = -dot(z, tool.p);
    const Real next = clamp(q + best, lower, upper);
    const Real change = next - q;
    return {next, change, change * (best + best - change) * Real(S(0.5)), Real(S(0)), Real(S(1))};
  }
  const Vec3<Real> u = tool.p - origin, v = -origin;
  const Vec3<Real> rz = z.x * tool.x + (z.y * tool.y + z.z * tool.z);
  const Vec3<Real> s = {tool.z.y - tool.y.z, tool.x.z - tool.z.x, tool.y.x - tool.x.y};
  const Real trace = tool.x.x + tool.y.y + tool.z.z;
  const Real a = dot(u, v) - dot(z, u) * dot(z, v) + orientation_weight * (trace - dot(z, rz));
  const Real b = dot(z, cross(u, v)) + orientation_weight * dot(z, s);
  const Real best = atan2(b, a);
  Real next = q + best;
  if (joint.wraps) {
    next = into_limits(joint, next);
  } else {
    // The same turn may be inside the limits the other way round; else the better limit.
    const Real turn = Real(Constants<S>::two_pi);
    next = select((next > upper) & (next - turn >= lower), next - turn, next);
    next = select((next < lower) & (next + turn <= upper), next + turn, next);
    Real sl, cl, su, cu;
    sincos(lower - q, sl, cl);
    sincos(upper - q, su, cu);
    const Real limit = select(a * cl + b * sl > a * cu + b * su, lower, upper);
    next = select((next < lower) | (next > upper), limit, next);
  }
  const Real change = next - q;
  Real sine, cosine;
  sincos(change, sine, cosine);
  return {next, change, a * (cosine - Real(S(1))) + b * sine, sine, cosine};
}

// One sweep from tool to base. Moving a joint leaves the axes before it in place, so a sweep costs
// one forward kinematics and O(n).
template <int N = 0, class Real, class Chain, int Capacity>
HJCDIK_FN void descent_sweep(const Chain& chain, const Frame<Real>& start, Real orientation_weight, Real* q,
                             JointAxes<Real, Capacity>& axes) {
  const int n = N > 0 ? N : chain.dof;
  Frame<Real> tool = forward_kinematics<N>(chain, q, start, axes);
  HJCDIK_UNROLL
  for (int i = n - 1; i >= 0; i--) {
    const auto& joint = chain.joint[i];
    const Vec3<Real> z = axes.axis[i], origin = axes.origin[i];
    const JointMove<Real> m = best_move(joint, z, origin, tool, q[i], orientation_weight);
    q[i] = m.q;
    if (joint.prismatic) {
      tool.p = tool.p + m.change * z;
    } else {
      tool.x = rotate(tool.x, z, m.sine, m.cosine);
      tool.y = rotate(tool.y, z, m.sine, m.cosine);
      tool.z = rotate(tool.z, z, m.sine, m.cosine);
      tool.p = origin + rotate(tool.p - origin, z, m.sine, m.cosine);
    }
  }
}

// One greedy step: the joint with the largest gain moves, the first of equals.
template <int N = 0, class Real, class Chain, int Capacity>
HJCDIK_FN void descent_greedy_step(const Chain& chain, const Frame<Real>& start, Real orientation_weight,
                                   Real* q, JointAxes<Real, Capacity>& axes) {
  using S = ScalarOf<Real>;
  const int n = N > 0 ? N : chain.dof;
  const Frame<Real> tool = forward_kinematics<N>(chain, q, start, axes);
  Real best_gain = Real(S(0)), best_q = q[0], best_joint = Real(S(0));
  HJCDIK_UNROLL
  for (int i = 0; i < n; i++) {
    const JointMove<Real> m =
        best_move(chain.joint[i], axes.axis[i], axes.origin[i], tool, q[i], orientation_weight);
    const auto better = m.gain > best_gain;
    best_gain = select(better, m.gain, best_gain);
    best_q = select(better, m.q, best_q);
    best_joint = select(better, Real(S(i)), best_joint);
  }
  HJCDIK_UNROLL
  for (int i = 0; i < n; i++) {
    const auto chosen = (best_joint == Real(S(i))) & (best_gain > Real(S(0)));
    q[i] = select(chosen, best_q, q[i]);
  }
}

}  // namespace hjcdik::HJCDIK_CORE
