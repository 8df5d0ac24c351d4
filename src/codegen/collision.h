// The documented part of the header that codegen.cpp writes: collision, of a robot with spheres. It follows
// kinematics.h.

// Obstacles where they lie, in the base link's frame: metres, quaternions qw qx qy qz of any finite norm but
// 0. Rows that are no obstacles (not finite, a zero quaternion) leave nothing free.
template <class S>
struct World {
  const S* boxes = nullptr;  // x 10: cx cy cz, qw qx qy qz, sx sy sz (full side lengths)
  int num_boxes = 0;
  const S* capsules = nullptr;  // x 7: x0 y0 z0, x1 y1 z1, r (end points of the axis, radius)
  int num_capsules = 0;
  const S* cylinders = nullptr;  // x 9: cx cy cz, qw qx qy qz, r, L (axis local z, full length), flat ends
  int num_cylinders = 0;
  const S* spheres = nullptr;  // x 4: cx cy cz, r
  int num_spheres = 0;
};

// Smallest signed distances, m, negative where something overlaps; 1e15 where there is nothing to compare.
// NaN for q or obstacles that are not finite.
template <class S>
struct Clearance {
  S self, world;
};

#if defined(__CUDA_ARCH__)
#define HJCDIK_ROLLED _Pragma("unroll 1")
#else
#define HJCDIK_ROLLED
#endif

namespace detail {

HJCDIK_FN hjcdik::core::SphereTable<double> sphere_table(double) { return hjcdik::robot::spheres_f64(); }
HJCDIK_FN hjcdik::core::SphereTable<float> sphere_table(float) { return hjcdik::robot::spheres_f32(); }

// A configuration's spheres.
template <class S>
struct Placed {
  using Team = hjcdik::core::SerialTeam<S, hjcdik::robot::spheres>;

  HJCDIK_FN explicit Placed(const S* q) : table(sphere_table(S())), team(place(q)) {}
  HJCDIK_FN Team place(const S* q) {
    hjcdik::core::carrying_frames<hjcdik::robot::dof>(chain(S()), q, frames);
    return Team(table, frames);
  }

  hjcdik::core::SphereTable<S> table;
  hjcdik::core::Frame<S> frames[hjcdik::robot::dof + 1];
  Team team;
};

// 0 where all values are finite, else NaN.
template <class S>
HJCDIK_FN S not_finite(const S* values, int count) {
  S sum = S(0);
  for (int k = 0; k < count; k++) sum += values[k] - values[k];
  return sum;
}

// The axes of a quaternion's frame, one after the other.
template <class S>
HJCDIK_FN void axes_of(const S* q, S* axes) {
  using hjcdik::core::abs;
  using hjcdik::core::max;
  const S largest = max(max(abs(q[0]), abs(q[1])), max(abs(q[2]), abs(q[3])));
  S w = q[0] / largest, x = q[1] / largest, y = q[2] / largest, z = q[3] / largest;
  const S scale = S(1) / hjcdik::core::sqrt(w * w + x * x + y * y + z * z), one = S(1), two = S(2);
  w = scale * w, x = scale * x, y = scale * y, z = scale * z;
  axes[0] = one - two * (y * y + z * z), axes[1] = two * (x * y + w * z), axes[2] = two * (x * z - w * y);
  axes[3] = two * (x * y - w * z), axes[4] = one - two * (x * x + z * z), axes[5] = two * (y * z + w * x);
  axes[6] = two * (x * z + w * y), axes[7] = two * (y * z - w * x), axes[8] = one - two * (x * x + y * y);
}

// Adds to `bad` what not_finite says of the row, and of its length, which may overflow.
template <class S>
HJCDIK_FN hjcdik::core::Capsule<S> capsule_of(const S* row, bool is_sphere, S& bad) {
  hjcdik::core::Capsule<S> capsule;
  S square = S(0);
  for (int k = 0; k < 3; k++) {
    capsule.end[k] = row[k];
    capsule.axis[k] = is_sphere ? S(0) : row[3 + k] - row[k];
    square += capsule.axis[k] * capsule.axis[k];
  }
  // An axis too short for float32 is a sphere's.
  capsule.inverse = square > S(1e-24) ? S(1) / square : S(0);
  capsule.radius = row[is_sphere ? 3 : 6];
  bad += not_finite(row, is_sphere ? 4 : 7) + not_finite(&square, 1);
  return capsule;
}

// The robot's distance to one obstacle, or `least` if that is smaller.
template <class S, class Obstacle>
HJCDIK_FN S distance_to(const Placed<S>& robot, const Obstacle& obstacle, S least) {
  // Unrolled, programs for GPUs take minutes to compile.
  HJCDIK_ROLLED
  for (int i = 0; i < robot.table.world_spheres; i++) {
    const S centre = hjcdik::core::distance_to(obstacle, robot.team.position(i)).value;
    least = hjcdik::core::min(least, centre - robot.team.radius(i));
  }
  return least;
}

template <class S>
HJCDIK_FN S world_clearance(const Placed<S>& robot, const World<S>& world, S least) {
  S axes[9], bad = S(0);
  HJCDIK_ROLLED
  for (int o = 0; o < world.num_boxes; o++) {
    const S* row = world.boxes + 10 * o;
    hjcdik::core::Box<S> box;
    axes_of(row + 3, box.axis);
    bad += not_finite(row, 10) + not_finite(box.axis, 9);
    for (int k = 0; k < 3; k++) box.center[k] = row[k], box.half[k] = S(0.5) * row[7 + k];
    least = distance_to(robot, box, least);
  }
  HJCDIK_ROLLED
  for (int o = 0; o < world.num_capsules; o++)
    least = distance_to(robot, capsule_of(world.capsules + 7 * o, false, bad), least);
  HJCDIK_ROLLED
  for (int o = 0; o < world.num_spheres; o++)
    least = distance_to(robot, capsule_of(world.spheres + 4 * o, true, bad), least);
  HJCDIK_ROLLED
  for (int o = 0; o < world.num_cylinders; o++) {
    const S* row = world.cylinders + 9 * o;
    hjcdik::core::Cylinder<S> cylinder;
    axes_of(row + 3, axes);
    bad += not_finite(row, 9) + not_finite(axes, 9);
    for (int k = 0; k < 3; k++) cylinder.center[k] = row[k], cylinder.axis[k] = axes[6 + k];
    cylinder.radius = row[7];
    cylinder.half = S(0.5) * row[8];
    least = distance_to(robot, cylinder, least);
  }
  return least + bad;
}

}  // namespace detail

// The spheres at q: num_spheres x 4 numbers, x y z r.
template <class S>
HJCDIK_API void spheres(const S* q, S* out) {
  const detail::Placed<S> robot(q);
  HJCDIK_ROLLED
  for (int i = 0; i < num_spheres; i++) {
    const auto p = robot.team.position(i);
    out[4 * i] = p.x, out[4 * i + 1] = p.y, out[4 * i + 2] = p.z;
    out[4 * i + 3] = robot.team.radius(i);
  }
}

// The links of a sphere, and of a self pair, as numbers for link_name().
HJCDIK_API int sphere_link(int sphere) {
  const auto table = detail::sphere_table(double());
  int link = 0;
  while (table.group[link].end <= sphere) link++;
  return link;
}
HJCDIK_API void self_pair(int pair, int* first, int* second) {
  const auto table = detail::sphere_table(double());
  *first = table.pair[pair][0];
  *second = table.pair[pair][1];
}

template <class S>
HJCDIK_API Clearance<S> clearance(const S* q, const World<S>& world = {}) {
  const detail::Placed<S> robot(q);
  const S far = S(detail::hjcdik::core::kFarAway), bad = detail::not_finite(q, num_joints);
  return {detail::hjcdik::core::self_clearance(robot.team, robot.table, far) + bad,
          detail::world_clearance(robot, world, far) + bad};
}

// Whether no self pair overlaps, and no obstacle is nearer than the margin. Touching is free; what is not
// finite is not.
template <class S>
HJCDIK_API bool config_free(const S* q, const World<S>& world = {}, detail::Value<S> margin = S(0),
                            bool self_collision = true) {
  if (!(detail::not_finite(q, num_joints) >= S(0))) return false;
  const detail::Placed<S> robot(q);
  if (self_collision && detail::hjcdik::core::self_clearance(robot.team, robot.table, S(0)) < S(0))
    return false;
  return detail::world_clearance(robot, world, margin) - margin >= S(0);
}
