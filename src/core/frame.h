// Vectors and frames of any Real.
#pragma once

#include "core/scalar.h"

namespace hjcdik::HJCDIK_CORE {

template <class Real>
struct Vec3 {
  Real x, y, z;
};

template <class Real>
HJCDIK_FN Vec3<Real> operator+(const Vec3<Real>& a, const Vec3<Real>& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z};
}
template <class Real>
HJCDIK_FN Vec3<Real> operator-(const Vec3<Real>& a, const Vec3<Real>& b) {
  return {a.x - b.x, a.y - b.y, a.z - b.z};
}
template <class Real>
HJCDIK_FN Vec3<Real> operator-(const Vec3<Real>& a) {
  return {-a.x, -a.y, -a.z};
}
template <class Real>
HJCDIK_FN Vec3<Real> operator*(Real s, const Vec3<Real>& a) {
  return {s * a.x, s * a.y, s * a.z};
}
template <class Real>
HJCDIK_FN Real dot(const Vec3<Real>& a, const Vec3<Real>& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}
template <class Real>
HJCDIK_FN Vec3<Real> cross(const Vec3<Real>& a, const Vec3<Real>& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

// x, y, z: the columns of the rotation; p: the origin.
template <class Real>
struct Frame {
  Vec3<Real> x, y, z, p;
};

// From the 12 numbers of ChainConstants::start: rotation row-major, then position.
template <class Real, class S>
HJCDIK_FN Frame<Real> frame_of(const S* f) {
  return {{Real(f[0]), Real(f[3]), Real(f[6])},
          {Real(f[1]), Real(f[4]), Real(f[7])},
          {Real(f[2]), Real(f[5]), Real(f[8])},
          {Real(f[9]), Real(f[10]), Real(f[11])}};
}

// a.p + a's rotation times v.
template <class Real>
HJCDIK_FN Vec3<Real> transform(const Frame<Real>& a, const Vec3<Real>& v) {
  return a.p + (v.x * a.x + (v.y * a.y + v.z * a.z));
}

// Rodrigues' formula: v turned about the unit axis z by the angle with this sine and cosine.
template <class Real>
HJCDIK_FN Vec3<Real> rotate(const Vec3<Real>& v, const Vec3<Real>& z, Real sine, Real cosine) {
  const Real along = dot(z, v) * (Real(ScalarOf<Real>(1)) - cosine);
  return cosine * v + (sine * cross(z, v) + along * z);
}

}  // namespace hjcdik::HJCDIK_CORE
