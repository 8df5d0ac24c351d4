// The documented part of the header that codegen.cpp writes: kinematics. It stands in the robot's own
// namespace, behind detail::hjcdik::core, detail::hjcdik::robot and the tables and names of the robot.
// S is float or double everywhere. Poses and frames are the URDF's, in the base link's frame.

namespace detail {

// A parameter of type Value<S> takes no part in finding S.
template <class S>
struct ValueOf {
  using type = S;
};
template <class S>
using Value = typename ValueOf<S>::type;

HJCDIK_FN const hjcdik::core::ChainConstants<double>& chain(double) { return hjcdik::robot::chain_f64; }
HJCDIK_FN const hjcdik::core::ChainConstants<float>& chain(float) { return hjcdik::robot::chain_f32; }

// qw qx qy qz of a frame's rotation, qw >= 0, by the largest component.
template <class S>
HJCDIK_FN void quaternion(const hjcdik::core::Frame<S>& f, S* q) {
  const S one = S(1), xx = f.x.x, yy = f.y.y, zz = f.z.z;
  if (xx + yy + zz >= hjcdik::core::max(xx, hjcdik::core::max(yy, zz))) {
    q[0] = one + xx + yy + zz, q[1] = f.y.z - f.z.y, q[2] = f.z.x - f.x.z, q[3] = f.x.y - f.y.x;
  } else if (xx >= yy && xx >= zz) {
    q[0] = f.y.z - f.z.y, q[1] = one + xx - yy - zz, q[2] = f.y.x + f.x.y, q[3] = f.z.x + f.x.z;
  } else if (yy >= zz) {
    q[0] = f.z.x - f.x.z, q[1] = f.y.x + f.x.y, q[2] = one + yy - xx - zz, q[3] = f.y.z + f.z.y;
  } else {
    q[0] = f.x.y - f.y.x, q[1] = f.z.x + f.x.z, q[2] = f.y.z + f.z.y, q[3] = one + zz - xx - yy;
  }
  const S square = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
  const S scale = (q[0] < S(0) ? S(-1) : one) / hjcdik::core::sqrt(square);
  for (int k = 0; k < 4; k++) q[k] = scale * q[k];
}

}  // namespace detail

// Limits of joint 0 .. num_joints - 1, rad or m. Those of float are the outermost floats inside.
template <class S>
HJCDIK_API S lower_limit(int joint) {
  return detail::chain(S()).joint[joint].lower;
}
template <class S>
HJCDIK_API S upper_limit(int joint) {
  return detail::chain(S()).joint[joint].upper;
}

HJCDIK_API bool is_prismatic(int joint) { return detail::chain(double()).joint[joint].prismatic; }

// The frame of every joint after its motion, which is its child link's: num_joints x 12 numbers, each time
// the first three rows of the homogeneous matrix, row-major.
template <class S>
HJCDIK_API void joint_frames(const S* q, S* frames) {
  namespace core = detail::hjcdik::core;
  core::Frame<S> carrying[num_joints + 1];
  core::carrying_frames<num_joints>(detail::chain(S()), q, carrying);
  for (int i = 0; i < num_joints; i++) {
    const core::Frame<S>& f = carrying[i + 1];
    const double* turn = detail::frame_turns[i];
    S* row = frames + 12 * i;
    for (int k = 0; k < 3; k++) {
      const S a = S(turn[k]), b = S(turn[3 + k]), c = S(turn[6 + k]);
      row[k] = f.x.x * a + f.y.x * b + f.z.x * c;
      row[4 + k] = f.x.y * a + f.y.y * b + f.z.y * c;
      row[8 + k] = f.x.z * a + f.y.z * b + f.z.z * c;
    }
    row[3] = f.p.x, row[7] = f.p.y, row[11] = f.p.z;
  }
}

// The tool's pose: x y z qw qx qy qz.
template <class S>
HJCDIK_API void tool_pose(const S* q, S* pose) {
  namespace core = detail::hjcdik::core;
  const auto& chain = detail::chain(S());
  const core::Frame<S> f = core::forward_kinematics<num_joints>(chain, q, core::frame_of<S>(chain.start));
  pose[0] = f.p.x, pose[1] = f.p.y, pose[2] = f.p.z;
  detail::quaternion(f, pose + 3);
}

// The geometric Jacobian at the tool: 6 x num_joints, row-major, linear rows (m per unit of q) above angular
// ones (rad per unit of q).
template <class S>
HJCDIK_API void jacobian(const S* q, S* out) {
  namespace core = detail::hjcdik::core;
  const auto& chain = detail::chain(S());
  core::JointAxes<S, num_joints> axes;
  const core::Frame<S> tool =
      core::forward_kinematics<num_joints>(chain, q, core::frame_of<S>(chain.start), axes);
  for (int i = 0; i < num_joints; i++) {
    const core::Twist<S> column = core::jacobian_column(axes, i, chain.joint[i].prismatic, tool.p);
    const S values[6] = {column.linear.x,  column.linear.y,  column.linear.z,
                         column.angular.x, column.angular.y, column.angular.z};
    for (int k = 0; k < 6; k++) out[k * num_joints + i] = values[k];
  }
}
