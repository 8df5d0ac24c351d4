// A serial chain in the form the numerics use.
//
// Every joint frame is turned about its own axis so that the axis is local z and the fixed
// transform to the next joint is a translation followed by a turn about x:
//
//   tool = start . J(q_0) . T_0 X_0 . J(q_1) . T_1 X_1 ... J(q_n-1) . T_n-1 X_n-1 . Z_end
//
// J is a rotation about z by q + offset (revolute) or a translation along z by q after a rotation
// by offset (prismatic); T_i = translation[i], X_i = rotation about x by alpha_i, Z_end = rotation
// about z. Any rigid transform is Rz . T . Rx . Rz (Euler's zxz angles), and each outer Rz joins the
// neighbouring joint's offset, so nothing is lost: joint origins and axes are the URDF's own.
#pragma once

#include "core/config.h"

namespace hjcdik::core {

constexpr int kMaxDof = 32;

template <class S>
struct JointConstants {
  S cos_alpha, sin_alpha;
  S translation[3];
  S offset;                  // rad, added to q (revolute)
  S cos_offset, sin_offset;  // of offset (prismatic)
  S lower, upper;
  bool prismatic;
  bool wraps;  // continuous, or the range holds more than a turn: steps beyond a limit come back a turn off
};

// start[0..8]: rotation, row-major; start[9..11]: position.
template <class S>
struct ChainConstants {
  int dof;
  S start[12];
  JointConstants<S> joint[kMaxDof];
  S cos_end, sin_end;
};

// Where a tool can be at all: no farther than `radius` from the first joint's origin, with `wrist`, a point
// of the tool, between span[0] and span[1] from `anchor`, a point of the base.
struct Reach {
  double radius = 0;
  double anchor[3] = {0, 0, 0}, wrist[3] = {0, 0, 0};
  double span[2] = {0, 0};
};

}  // namespace hjcdik::core

#ifdef HJCDIK_CORE_IS_PRIVATE
namespace hjcdik::HJCDIK_CORE {
using core::ChainConstants;
using core::JointConstants;
using core::kMaxDof;
using core::Reach;
}  // namespace hjcdik::HJCDIK_CORE
#endif
