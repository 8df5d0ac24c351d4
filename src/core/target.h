// Targets as users give them, x y z qw qx qy qz, and poses as they get them back.
#pragma once

#include "core/frame.h"

namespace hjcdik::HJCDIK_CORE {

struct Quaternion {
  double w;
  Vec3<double> v;
};

// Of any finite nonzero norm, however large or small. q: qw qx qy qz.
HJCDIK_FN Quaternion normalised(const double* q) {
  const double largest = max(max(abs(q[0]), abs(q[1])), max(abs(q[2]), abs(q[3])));
  // The reciprocal of a subnormal would overflow.
  const double up = largest < 1e-290 ? 1e300 : 1.0, factor = 1 / (largest * up);
  const double w = q[0] * up * factor, x = q[1] * up * factor, y = q[2] * up * factor, z = q[3] * up * factor;
  const double scale = 1 / sqrt(w * w + x * x + y * y + z * z);
  return {w * scale, {x * scale, y * scale, z * scale}};
}

// Rotation matrix, row-major.
HJCDIK_FN void rotation_of(const Quaternion& q, double* r) {
  const double w = q.w, x = q.v.x, y = q.v.y, z = q.v.z;
  r[0] = 1 - 2 * (y * y + z * z);
  r[1] = 2 * (x * y - w * z);
  r[2] = 2 * (x * z + w * y);
  r[3] = 2 * (x * y + w * z);
  r[4] = 1 - 2 * (x * x + z * z);
  r[5] = 2 * (y * z - w * x);
  r[6] = 2 * (x * z - w * y);
  r[7] = 2 * (y * z + w * x);
  r[8] = 1 - 2 * (x * x + y * y);
}

// target^-1 . base: where the chain hangs as seen from the target (kinematics.h), as the 12 numbers of
// ChainConstants::start. r: the target's rotation.
HJCDIK_FN void target_start(const double* target, const double* r, const double* base, double* start) {
  const double p[3] = {base[9] - target[0], base[10] - target[1], base[11] - target[2]};
  HJCDIK_UNROLL
  for (int i = 0; i < 3; i++) {
    HJCDIK_UNROLL
    for (int j = 0; j < 3; j++) {
      start[3 * i + j] = r[i] * base[j] + r[3 + i] * base[3 + j] + r[6 + i] * base[6 + j];
    }
    start[9 + i] = r[i] * p[0] + r[3 + i] * p[1] + r[6 + i] * p[2];
  }
}

// Of a row-major rotation matrix, by its largest component (Shepperd, "Quaternion from rotation
// matrix", 1978).
HJCDIK_FN Quaternion quaternion_of(const double* r) {
  const double trace = r[0] + r[4] + r[8];
  double w, x, y, z;
  if (trace >= r[0] && trace >= r[4] && trace >= r[8]) {
    w = 1 + trace, x = r[7] - r[5], y = r[2] - r[6], z = r[3] - r[1];
  } else if (r[0] >= r[4] && r[0] >= r[8]) {
    w = r[7] - r[5], x = 1 + r[0] - r[4] - r[8], y = r[1] + r[3], z = r[2] + r[6];
  } else if (r[4] >= r[8]) {
    w = r[2] - r[6], x = r[1] + r[3], y = 1 + r[4] - r[0] - r[8], z = r[5] + r[7];
  } else {
    w = r[3] - r[1], x = r[2] + r[6], y = r[5] + r[7], z = 1 + r[8] - r[0] - r[4];
  }
  const double scale = 1 / sqrt(w * w + x * x + y * y + z * z);
  return {w * scale, {x * scale, y * scale, z * scale}};
}

// target . tool: the tool's pose in the base frame. t: the target's normalised quaternion; tool: 12 numbers,
// in the target's frame.
HJCDIK_FN void reached_pose(const double* target, const Quaternion& t, const double* tool, double* pose) {
  // v + 2 u x (u x v + w v): the rotation by a unit quaternion (w, u).
  const Vec3<double> p = {tool[9], tool[10], tool[11]};
  const Vec3<double> moved = p + 2.0 * cross(t.v, cross(t.v, p) + t.w * p);
  pose[0] = target[0] + moved.x;
  pose[1] = target[1] + moved.y;
  pose[2] = target[2] + moved.z;
  const Quaternion q = quaternion_of(tool);
  const Vec3<double> v = t.w * q.v + (q.w * t.v + cross(t.v, q.v));
  const double w = t.w * q.w - dot(t.v, q.v);
  const double scale = 1 / sqrt(w * w + dot(v, v));
  pose[3] = w * scale;
  pose[4] = v.x * scale;
  pose[5] = v.y * scale;
  pose[6] = v.z * scale;
}

}  // namespace hjcdik::HJCDIK_CORE
