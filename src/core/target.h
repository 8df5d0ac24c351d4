// Targets as users give them, x y z qw qx qy qz, and poses as they get them back.
//
// Host and device both compute these, and must agree to the last bit: which of them prepares a target may
// not change its answer. So no product is fused with a sum here.
#pragma once

#include "core/chain.h"
#include "core/frame.h"

namespace hjcdik::HJCDIK_CORE {

// A double whose operations are rounded one by one. (Host sources are compiled without contraction.)
struct Exact {
  double v;

  Exact() = default;
  HJCDIK_FN Exact(double x) : v(x) {}
  HJCDIK_FN Exact operator-() const { return -v; }
#if defined(__CUDA_ARCH__)
  friend HJCDIK_FN Exact operator+(Exact a, Exact b) { return __dadd_rn(a.v, b.v); }
  friend HJCDIK_FN Exact operator-(Exact a, Exact b) { return __dsub_rn(a.v, b.v); }
  friend HJCDIK_FN Exact operator*(Exact a, Exact b) { return __dmul_rn(a.v, b.v); }
  friend HJCDIK_FN Exact operator/(Exact a, Exact b) { return __ddiv_rn(a.v, b.v); }
#else
  friend HJCDIK_FN Exact operator+(Exact a, Exact b) { return a.v + b.v; }
  friend HJCDIK_FN Exact operator-(Exact a, Exact b) { return a.v - b.v; }
  friend HJCDIK_FN Exact operator*(Exact a, Exact b) { return a.v * b.v; }
  friend HJCDIK_FN Exact operator/(Exact a, Exact b) { return a.v / b.v; }
#endif
};

HJCDIK_FN Exact sqrt(Exact x) { return sqrt(x.v); }

struct Quaternion {
  Exact w;
  Vec3<Exact> v;
};

// Of any finite nonzero norm, however large or small. q: qw qx qy qz.
HJCDIK_FN Quaternion normalised(const double* q) {
  const double largest = max(max(abs(q[0]), abs(q[1])), max(abs(q[2]), abs(q[3])));
  // The reciprocal of a subnormal would overflow.
  const Exact up = largest < 1e-290 ? 1e300 : 1.0, factor = Exact(1.0) / (Exact(largest) * up);
  const Exact w = Exact(q[0]) * up * factor, x = Exact(q[1]) * up * factor, y = Exact(q[2]) * up * factor,
              z = Exact(q[3]) * up * factor;
  const Exact scale = Exact(1.0) / sqrt(w * w + x * x + y * y + z * z);
  return {w * scale, {x * scale, y * scale, z * scale}};
}

// Rotation matrix, row-major.
HJCDIK_FN void rotation_of(const Quaternion& q, double* r) {
  const Exact w = q.w, x = q.v.x, y = q.v.y, z = q.v.z, one = 1.0, two = 2.0;
  r[0] = (one - two * (y * y + z * z)).v;
  r[1] = (two * (x * y - w * z)).v;
  r[2] = (two * (x * z + w * y)).v;
  r[3] = (two * (x * y + w * z)).v;
  r[4] = (one - two * (x * x + z * z)).v;
  r[5] = (two * (y * z - w * x)).v;
  r[6] = (two * (x * z - w * y)).v;
  r[7] = (two * (y * z + w * x)).v;
  r[8] = (one - two * (x * x + y * y)).v;
}

// target^-1 . base: where the chain hangs as seen from the target (kinematics.h), as the 12 numbers of
// ChainConstants::start. r: the target's rotation.
HJCDIK_FN void target_start(const double* target, const double* r, const double* base, double* start) {
  const Exact p[3] = {Exact(base[9]) - target[0], Exact(base[10]) - target[1], Exact(base[11]) - target[2]};
  HJCDIK_UNROLL
  for (int i = 0; i < 3; i++) {
    HJCDIK_UNROLL
    for (int j = 0; j < 3; j++) {
      start[3 * i + j] =
          (Exact(r[i]) * base[j] + Exact(r[3 + i]) * base[3 + j] + Exact(r[6 + i]) * base[6 + j]).v;
    }
    start[9 + i] = (Exact(r[i]) * p[0] + Exact(r[3 + i]) * p[1] + Exact(r[6 + i]) * p[2]).v;
  }
}

// False only if a target is beyond `reach`, whose room is for rounding: here the last bit does not matter.
// r: the target's rotation; base: as for target_start.
HJCDIK_FN bool may_reach(const Reach& reach, const double* target, const double* r, const double* base) {
  double from_first = 0, from_anchor = 0;
  for (int i = 0; i < 3; i++) {
    const double a = target[i] - base[9 + i];
    from_first += a * a;
    const double b = target[i] + r[3 * i] * reach.wrist[0] + r[3 * i + 1] * reach.wrist[1] +
                     r[3 * i + 2] * reach.wrist[2] - reach.anchor[i];
    from_anchor += b * b;
  }
  return from_first <= reach.radius * reach.radius && from_anchor >= reach.span[0] * reach.span[0] &&
         from_anchor <= reach.span[1] * reach.span[1];
}

// Of a row-major rotation matrix, by its largest component (Shepperd, "Quaternion from rotation
// matrix", 1978).
HJCDIK_FN Quaternion quaternion_of(const double* m) {
  const Exact r[9] = {m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8]}, one = 1.0;
  const double trace = (r[0] + r[4] + r[8]).v;
  Exact w, x, y, z;
  if (trace >= m[0] && trace >= m[4] && trace >= m[8]) {
    w = one + trace, x = r[7] - r[5], y = r[2] - r[6], z = r[3] - r[1];
  } else if (m[0] >= m[4] && m[0] >= m[8]) {
    w = r[7] - r[5], x = one + r[0] - r[4] - r[8], y = r[1] + r[3], z = r[2] + r[6];
  } else if (m[4] >= m[8]) {
    w = r[2] - r[6], x = r[1] + r[3], y = one + r[4] - r[0] - r[8], z = r[5] + r[7];
  } else {
    w = r[3] - r[1], x = r[2] + r[6], y = r[5] + r[7], z = one + r[8] - r[0] - r[4];
  }
  const Exact scale = one / sqrt(w * w + x * x + y * y + z * z);
  return {w * scale, {x * scale, y * scale, z * scale}};
}

// target . tool: the tool's pose in the base frame. t: the target's normalised quaternion; tool: 12 numbers,
// in the target's frame.
HJCDIK_FN void reached_pose(const double* target, const Quaternion& t, const double* tool, double* pose) {
  // v + 2 u x (u x v + w v): the rotation by a unit quaternion (w, u).
  const Vec3<Exact> p = {tool[9], tool[10], tool[11]};
  const Vec3<Exact> moved = p + Exact(2.0) * cross(t.v, cross(t.v, p) + t.w * p);
  pose[0] = (Exact(target[0]) + moved.x).v;
  pose[1] = (Exact(target[1]) + moved.y).v;
  pose[2] = (Exact(target[2]) + moved.z).v;
  const Quaternion q = quaternion_of(tool);
  const Vec3<Exact> v = t.w * q.v + (q.w * t.v + cross(t.v, q.v));
  const Exact w = t.w * q.w - dot(t.v, q.v);
  const Exact scale = Exact(1.0) / sqrt(w * w + dot(v, v));
  pose[3] = (w * scale).v;
  pose[4] = (v.x * scale).v;
  pose[5] = (v.y * scale).v;
  pose[6] = (v.z * scale).v;
}

// Turns q by as many whole turns as bring it nearest to `middle` inside the limits, which hold more than one
// turn. A value that rounding puts just outside a limit counts as the limit.
HJCDIK_FN double nearest_turn(double q, double middle, double lower, double upper) {
  const Exact turn = 6.28318530717958647693, slack = 1e-11;
  const double first = ceil(((Exact(lower) - q) / turn - slack).v),
               last = floor(((Exact(upper) - q) / turn + slack).v);
  const double wanted = round(((Exact(middle) - q) / turn).v);
  const double turns = min(max(wanted, first), max(first, last));
  const double value = (Exact(q) + Exact(turns) * turn).v;
  return turns != 0 ? clamp(value, lower, upper) : q;
}

}  // namespace hjcdik::HJCDIK_CORE
