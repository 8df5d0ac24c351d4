// How far a frame is from the identity: the residual of inverse kinematics in the target's frame.
#pragma once

#include "core/frame.h"
#include "core/trig.h"

namespace hjcdik::HJCDIK_CORE {

// rotation: the rotation vector that takes the frame to the identity; angle: its length, in [0, pi],
// the geodesic distance. Both are exact to rounding on the whole range.
template <class Real>
struct PoseError {
  Vec3<Real> translation, rotation;
  Real distance, angle;
};

template <class Real>
HJCDIK_FN PoseError<Real> pose_error(const Frame<Real>& f) {
  using S = ScalarOf<Real>;
  const Real one = Real(S(1));
  // w = 2 sin(angle) axis, of the inverse rotation; twice the cosine is trace - 1.
  const Vec3<Real> w = {f.z.y - f.y.z, f.x.z - f.z.x, f.y.x - f.x.y};
  const Real two_sin = sqrt(dot(w, w));
  const Real two_cos = f.x.x + f.y.y + f.z.z - one;
  const Real angle = atan2(two_sin, two_cos);
  const auto small = two_sin < Real(S(1e-12));
  const Real factor = select(small, Real(S(0.5)), angle / max(two_sin, Real(Constants<S>::tiny)));
  Vec3<Real> rotation = factor * w;

  // Near pi w vanishes; there the axis is the largest column of the symmetric part.
  const auto near_pi = (two_sin < Real(S(0.02))) & (two_cos < Real(S(0)));
  if (any(near_pi)) {
    const Real c = Real(S(0.5)) * two_cos;
    const Real xx = f.x.x - c, yy = f.y.y - c, zz = f.z.z - c;
    const Real xy = Real(S(0.5)) * (f.x.y + f.y.x), xz = Real(S(0.5)) * (f.x.z + f.z.x),
               yz = Real(S(0.5)) * (f.y.z + f.z.y);
    const auto x_first = (xx >= yy) & (xx >= zz);
    const auto y_first = yy >= zz;
    Vec3<Real> a = {select(x_first, xx, select(y_first, xy, xz)),
                    select(x_first, xy, select(y_first, yy, yz)),
                    select(x_first, xz, select(y_first, yz, zz))};
    const Real scale = angle / max(sqrt(dot(a, a)), Real(Constants<S>::tiny));
    const Real sign = select(dot(a, w) < Real(S(0)), -scale, scale);
    a = sign * a;
    rotation.x = select(near_pi, a.x, rotation.x);
    rotation.y = select(near_pi, a.y, rotation.y);
    rotation.z = select(near_pi, a.z, rotation.z);
  }
  return {-f.p, rotation, sqrt(dot(f.p, f.p)), angle};
}

}  // namespace hjcdik::HJCDIK_CORE
