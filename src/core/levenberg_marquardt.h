// The Levenberg-Marquardt step of the refinement (PJ-IK), in the target's frame.
//
// With the weighted residual r and the weighted 6 x n Jacobian C of the joints that are free to move,
//   dq = Cᵀ (C Cᵀ + lambda I)^-1 r,
// which equals the n x n normal equations by the push-through identity but costs a 6 x 6 Cholesky
// whatever the number of joints. The damping follows the error, lambda = kDamping |r|² (Sugihara,
// "Solvability-unconcerned inverse kinematics by the Levenberg-Marquardt method", IEEE T-RO 2011).
// A joint at a limit that the gradient pushes outwards is not free in that step.
#pragma once

#include "core/kinematics.h"
#include "core/linalg.h"
#include "core/pose_error.h"

namespace hjcdik::HJCDIK_CORE {

constexpr double kDamping = 0.1;
constexpr double kMaxStep = 1.0;  // rad or m

// Factors of the residual along and about the tool axes: 1 for the position, a length (m/rad) that
// makes rotations comparable for the orientation. damping_floor in units of the residual squared.
template <class S>
struct Weights {
  S factor[6];
  S damping_floor;
};

// Puts a joint value into its range: a turn back where the joint wraps, else clamped.
template <class Real, class S>
HJCDIK_FN Real into_limits(const JointConstants<S>& joint, Real q) {
  const Real lower = Real(joint.lower), upper = Real(joint.upper);
  if (joint.wraps) {
    const Real turn = Real(Constants<ScalarOf<Real>>::two_pi);
    q = select(q > upper, q - turn, q);
    q = select(q < lower, q + turn, q);
  }
  return clamp(q, lower, upper);
}

// Weighted error of the pose before the step, for the caller's decisions.
template <class Real>
struct StepReport {
  Real distance, angle;  // m, rad
  Real error;            // |r|²
};

// q_next = q + dq, put into the limits; q itself is not changed.
//
// along, unless null: a motion g of the joints whose part in the null space of C is made on top,
//   dq = g + Cᵀ (C Cᵀ + lambda I)^-1 (r - C g),
// for the lanes where it is not zero. moved: dq before the limits.
template <int N = 0, class Real, class Chain, class S, int Capacity>
HJCDIK_FN StepReport<Real> levenberg_marquardt_step(const Chain& chain, const Frame<Real>& start,
                                                    const Weights<S>& weights, const Real* q, Real* q_next,
                                                    JointAxes<Real, Capacity>& axes,
                                                    const Real* along = nullptr, Real* moved = nullptr) {
  const int n = N > 0 ? N : chain.dof;
  const Frame<Real> tool = forward_kinematics<N>(chain, q, start, axes);
  const PoseError<Real> e = pose_error(tool);
  const Real w[6] = {Real(weights.factor[0]), Real(weights.factor[1]), Real(weights.factor[2]),
                     Real(weights.factor[3]), Real(weights.factor[4]), Real(weights.factor[5])};
  Real r[6] = {w[0] * e.translation.x, w[1] * e.translation.y, w[2] * e.translation.z,
               w[3] * e.rotation.x,    w[4] * e.rotation.y,    w[5] * e.rotation.z};
  const Real error = dot<6>(r, r);

  const Real zero = Real(S(0));
  Real a[21];
  HJCDIK_UNROLL
  for (int k = 0; k < 21; k++) a[k] = zero;
  HJCDIK_UNROLL
  for (int i = 0; i < n; i++) {
    const auto& joint = chain.joint[i];
    const Twist<Real> t = jacobian_column(axes, i, joint.prismatic, tool.p);
    Real column[6] = {w[0] * t.linear.x,  w[1] * t.linear.y,  w[2] * t.linear.z,
                      w[3] * t.angular.x, w[4] * t.angular.y, w[5] * t.angular.z};
    if (!joint.wraps) {
      const Real gradient = dot<6>(column, r);
      const auto held = ((q[i] <= Real(joint.lower)) & (gradient < zero)) |
                        ((q[i] >= Real(joint.upper)) & (gradient > zero));
      HJCDIK_UNROLL
      for (int k = 0; k < 6; k++) column[k] = select(held, zero, column[k]);
    }
    rank_one_update<6>(a, column, column);
    // The weighted column takes the place of axis and origin, which are not needed again.
    axes.axis[i] = {column[0], column[1], column[2]};
    axes.origin[i] = {column[3], column[4], column[5]};
  }
  // Chains of few joints leave singular directions. The damping there stays above the rounding of the
  // matrix, or the factorisation would divide noise by noise.
  Real trace = zero;
  HJCDIK_UNROLL
  for (int k = 0; k < 6; k++) trace = trace + a[packed_index(k, k)];
  const Real lambda =
      Real(S(kDamping)) * error + Real(weights.damping_floor) + Real(Constants<S>::noise) * trace;
  HJCDIK_UNROLL
  for (int k = 0; k < 6; k++) a[packed_index(k, k)] = a[packed_index(k, k)] + lambda;
  if (along != nullptr) {
    HJCDIK_UNROLL
    for (int i = 0; i < n; i++) {
      const Vec3<Real>&l = axes.axis[i], &u = axes.origin[i];
      const Real column[6] = {l.x, l.y, l.z, u.x, u.y, u.z};
      HJCDIK_UNROLL
      for (int k = 0; k < 6; k++) r[k] = r[k] - column[k] * along[i];
    }
  }
  cholesky_factor<6>(a, Real(weights.damping_floor));
  cholesky_solve<6>(a, r);
  HJCDIK_UNROLL
  for (int i = 0; i < n; i++) {
    const Vec3<Real>&l = axes.axis[i], &u = axes.origin[i];
    Real step = l.x * r[0] + l.y * r[1] + l.z * r[2] + (u.x * r[3] + u.y * r[4] + u.z * r[5]);
    const auto& joint = chain.joint[i];
    const S longest = joint.prismatic ? max(S(kMaxStep), S(0.25) * (joint.upper - joint.lower)) : S(kMaxStep);
    if (along != nullptr) step = step + along[i];
    step = clamp(step, Real(-longest), Real(longest));
    if (moved != nullptr) moved[i] = step;
    q_next[i] = into_limits(joint, q[i] + step);
  }
  return {e.distance, e.angle, error};
}

}  // namespace hjcdik::HJCDIK_CORE
