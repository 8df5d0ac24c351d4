// Signed distances of points to obstacles, and the clearances of a robot made of spheres.
//
// One configuration is judged at a time, its spheres side by side: by the lanes of a Pack, the threads of a
// warp, or one after the other. A Team says which. It offers
//   Real, width                      spheres first .. first + width - 1 go together, one a lane
//   position(first), radius(first)   of the lane's sphere
//   counts(first, end)               whether the lane's sphere is before `end`
//   place(i), radius_of(i)           of one sphere: the same in all lanes
//   near_pairs(first, interest)      bit k: whether the bounding spheres of self pair first + k are that near
//   bound(g)                         the center of a group's bounding sphere
//   bits(mask), smallest(x)          over the lanes: bit l of lane l
#pragma once

#include "core/geometry.h"
#include "core/kinematics.h"

namespace hjcdik::HJCDIK_CORE {

// Distance from a surface, negative inside, and the direction in which it grows.
template <class Real>
struct Distance {
  Real value;
  Vec3<Real> normal;
};

template <class Real, class S>
HJCDIK_FN Vec3<Real> vector_of(const S* v) {
  return {Real(v[0]), Real(v[1]), Real(v[2])};
}

// 1 / length where that is not 0.
template <class Real>
HJCDIK_FN Real inverse_length(Real length) {
  using S = ScalarOf<Real>;
  return Real(S(1)) / max(length, Real(Constants<S>::tiny));
}

template <class Real, class S>
HJCDIK_FN Distance<Real> distance_to(const Box<S>& box, const Vec3<Real>& point) {
  const Real zero = Real(S(0)), one = Real(S(1));
  const Vec3<Real> x = vector_of<Real>(box.axis), y = vector_of<Real>(box.axis + 3),
                   z = vector_of<Real>(box.axis + 6);
  const Vec3<Real> d = point - vector_of<Real>(box.center);
  const Real along[3] = {dot(d, x), dot(d, y), dot(d, z)};
  const Real a = abs(along[0]) - Real(box.half[0]), b = abs(along[1]) - Real(box.half[1]),
             c = abs(along[2]) - Real(box.half[2]);
  const Vec3<Real> out = {max(a, zero), max(b, zero), max(c, zero)};
  const Real length = sqrt(dot(out, out)), deepest = max(max(a, b), c);
  const auto inside = deepest <= zero;
  // Inside it is the nearest face that counts.
  const auto by_x = inside & (a >= b) & (a >= c);
  const auto by_y = inside & !by_x & (b >= c);
  const auto by_z = inside & !by_x & !by_y;
  const Real scale = inverse_length(length);
  const Real nx = select(inside, select(by_x, one, zero), scale * out.x),
             ny = select(inside, select(by_y, one, zero), scale * out.y),
             nz = select(inside, select(by_z, one, zero), scale * out.z);
  const Vec3<Real> normal = select(along[0] < zero, -nx, nx) * x + select(along[1] < zero, -ny, ny) * y +
                            select(along[2] < zero, -nz, nz) * z;
  return {length + min(deepest, zero), normal};
}

template <class Real, class S>
HJCDIK_FN Distance<Real> distance_to(const Capsule<S>& capsule, const Vec3<Real>& point) {
  const Vec3<Real> v = point - vector_of<Real>(capsule.end), axis = vector_of<Real>(capsule.axis);
  const Real t = clamp(dot(v, axis) * Real(capsule.inverse), Real(S(0)), Real(S(1)));
  const Vec3<Real> e = v - t * axis;
  const Real length = sqrt(dot(e, e));
  return {length - Real(capsule.radius), inverse_length(length) * e};
}

template <class Real, class S>
HJCDIK_FN Distance<Real> distance_to(const Cylinder<S>& cylinder, const Vec3<Real>& point) {
  const Real zero = Real(S(0));
  const Vec3<Real> d = point - vector_of<Real>(cylinder.center), axis = vector_of<Real>(cylinder.axis);
  const Real height = dot(d, axis);
  const Vec3<Real> radial = d - height * axis;
  const Real length = sqrt(dot(radial, radial));
  const Real a = length - Real(cylinder.radius), b = abs(height) - Real(cylinder.half);
  const Real out_a = max(a, zero), out_b = max(b, zero), out = sqrt(out_a * out_a + out_b * out_b);
  const auto inside = max(a, b) <= zero;
  const Real one = Real(S(1)), scale = inverse_length(out);
  const Real side = select(inside, select(a >= b, one, zero), scale * out_a),
             face = select(inside, select(a >= b, zero, one), scale * out_b);
  const Vec3<Real> normal =
      (side * inverse_length(length)) * radial + select(height < zero, -face, face) * axis;
  return {out + min(max(a, b), zero), normal};
}

// The frames that spheres are carried by: base, then every joint after its motion.
template <int N = 0, class Real, class Chain>
HJCDIK_FN void carrying_frames(const Chain& chain, const Real* q, Frame<Real>* frames) {
  const int n = N > 0 ? N : chain.dof;
  const Real zero = Real(ScalarOf<Real>(0)), one = Real(ScalarOf<Real>(1));
  frames[0] = {{one, zero, zero}, {zero, one, zero}, {zero, zero, one}, {zero, zero, zero}};
  Frame<Real> f = frame_of<Real>(chain.start);
  HJCDIK_UNROLL
  for (int i = 0; i < n; i++) {
    move_joint(f, chain.joint[i], q[i]);
    frames[i + 1] = f;
    if (i + 1 < n) move_link(f, chain.joint[i]);
  }
}

// No sphere moved farther than this between a hit of the search and its polished row, m. lever: the largest
// distance of a sphere from a joint's axis.
template <int N = 0, class Chain>
HJCDIK_FN double moved_by_polish(const Chain& chain, double lever, const double* q, const float* hit) {
  constexpr double turn = Constants<double>::two_pi;
  const int n = N > 0 ? N : chain.dof;
  double moved = 0;
  HJCDIK_UNROLL
  for (int i = 0; i < n; i++) {
    const double d = abs(q[i] - double(hit[i]));
    moved += chain.joint[i].prismatic ? d : lever * abs(d - turn * round(d / turn));
  }
  return moved;
}

// Calls visit(distance, first, shape, o) for every obstacle of the world, number o of its shape, that may be
// nearer than `interest` to spheres first .. first + width - 1; what visit returns is the interest from then
// on.
template <class Team, class S, class Visit>
HJCDIK_FN void visit_world(const Team& team, const SphereTable<S>& robot, const WorldTable<S>& table,
                           int world, typename Team::Real interest, Visit&& visit) {
  using Real = typename Team::Real;
  const WorldRange range = table.worlds[world];
  for (int first = 0; first < robot.world_spheres; first += Team::width) {
    const Vec3<Real> p = team.position(first);
    // Lanes beyond the last of these spheres, which may hold the base's, are never near anything.
    const Real r = select(team.counts(first, robot.world_spheres), team.radius(first), Real(S(-kFarAway)));
    for (int n = range.begin; n < range.end;) {
      const BoundingNode& node = table.nodes[n];
      const Vec3<Real> d = p - vector_of<Real>(node.center);
      const Real reach = max(r + (Real(S(node.radius)) + interest), Real(S(0)));
      if (team.bits(dot(d, d) <= reach * reach) == 0) {
        n = node.skip;
        continue;
      }
      n++;
      for (int o = node.begin; o < node.end; o++) {
        Distance<Real> distance;
        if (node.shape == core::kBoxes) {
          distance = distance_to(table.boxes[o], p);
        } else if (node.shape == core::kCapsules) {
          distance = distance_to(table.capsules[o], p);
        } else {
          distance = distance_to(table.cylinders[o], p);
        }
        interest = visit(Distance<Real>{distance.value - r, distance.normal}, first, node.shape, o);
      }
    }
  }
}

// Whether the bounding spheres of two groups, about these centers, are nearer than `interest`.
template <class S>
HJCDIK_FN bool are_near(const SphereGroup& a, const SphereGroup& b, const Vec3<S>& at_a, const Vec3<S>& at_b,
                        S interest) {
  const Vec3<S> apart = at_a - at_b;
  const S near = max(S(a.radius) + S(b.radius) + interest, S(0));
  return dot(apart, apart) < near * near;
}

// The same for self pairs: visit(clearance, d, length, one, first, end) of sphere `one` and spheres first ..;
// lanes at or beyond `end` do not count. d, of that length, leads from the others to the one.
template <class Team, class S, class Visit>
HJCDIK_FN void visit_self(const Team& team, const SphereTable<S>& robot, S interest, Visit&& visit) {
  using Real = typename Team::Real;
  for (int block = 0; block < robot.pairs; block += 32) {
    u32 near = team.near_pairs(block, interest);
    for (int k = block; near != 0; near >>= 1, k++) {
      if ((near & 1) == 0) continue;
      const SphereGroup *a = &robot.group[robot.pair[k][0]], *b = &robot.group[robot.pair[k][1]];
      if (a->end - a->begin > b->end - b->begin) {
        const SphereGroup* other = a;
        a = b;
        b = other;
      }
      const Vec3<S> center = team.bound(int(b - robot.group));
      const Vec3<Real> bound = {Real(center.x), Real(center.y), Real(center.z)};
      for (int some = a->begin; some < a->end; some += Team::width) {
        // Of the smaller group those that are near the other at all.
        const Vec3<Real> away = team.position(some) - bound;
        const Real within = team.radius(some) + Real(S(b->radius) + interest);
        u32 ones = team.bits((dot(away, away) < within * within) & team.counts(some, a->end));
        for (int one = some; ones != 0; ones >>= 1, one++) {
          if ((ones & 1) == 0) continue;
          const Vec3<S> at = team.place(one);
          const Vec3<Real> p = {Real(at.x), Real(at.y), Real(at.z)};
          const Real r = Real(team.radius_of(one) + interest);
          for (int first = b->begin; first < b->end; first += Team::width) {
            const Vec3<Real> d = p - team.position(first);
            const Real square = dot(d, d), reach = r + team.radius(first);
            if (team.bits(square < reach * reach) == 0) continue;
            const Real length = sqrt(square);
            visit(length - (team.radius(first) + Real(team.radius_of(one))), d, length, one, first, b->end);
          }
        }
      }
    }
  }
}

// Smallest signed distance of the lane's spheres to the world, or `interest` if that is smaller.
template <class Team, class S>
HJCDIK_FN typename Team::Real world_clearance(const Team& team, const SphereTable<S>& robot,
                                              const WorldTable<S>& table, int world, S interest) {
  using Real = typename Team::Real;
  Real best = Real(interest);
  visit_world(team, robot, table, world, best, [&](const Distance<Real>& d, int first, int, int) {
    // Behind the last sphere that meets the world come the base's.
    best = select(team.counts(first, robot.world_spheres), min(best, d.value), best);
    return best;
  });
  return best;
}

// The same between the robot's own spheres.
template <class Team, class S>
HJCDIK_FN typename Team::Real self_clearance(const Team& team, const SphereTable<S>& robot, S interest) {
  using Real = typename Team::Real;
  Real best = Real(interest);
  visit_self(team, robot, interest,
             [&](const Real& clearance, const Vec3<Real>&, const Real&, int, int first, int end) {
               best = select(team.counts(first, end), min(best, clearance), best);
             });
  return best;
}

// One sphere after the other.
template <class S, int Capacity>
class SerialTeam {
 public:
  using Real = S;
  static constexpr int width = 1;

  HJCDIK_FN SerialTeam(const SphereTable<S>& robot, const Frame<S>* frames) : robot_(robot), frames_(frames) {
    for (int i = 0; i < robot.spheres; i++)
      place_[i] = transform(frames[robot.joint[i] + 1], Vec3<S>{robot.x[i], robot.y[i], robot.z[i]});
  }
  HJCDIK_FN Vec3<S> position(int i) const { return place_[i]; }
  HJCDIK_FN S radius(int i) const { return robot_.radius[i]; }
  HJCDIK_FN bool counts(int, int) const { return true; }
  HJCDIK_FN Vec3<S> place(int i) const { return place_[i]; }
  HJCDIK_FN S radius_of(int i) const { return robot_.radius[i]; }
  HJCDIK_FN u32 near_pairs(int first, S interest) const {
    u32 near = 0;
    for (int k = first; k < robot_.pairs && k < first + 32; k++) {
      const int a = robot_.pair[k][0], b = robot_.pair[k][1];
      near |= u32(are_near(robot_.group[a], robot_.group[b], bound(a), bound(b), interest)) << (k - first);
    }
    return near;
  }
  HJCDIK_FN u32 bits(bool mask) const { return mask; }
  HJCDIK_FN Vec3<S> bound(int g) const {
    const SphereGroup& group = robot_.group[g];
    return transform(frames_[group.joint + 1], vector_of<S>(group.center));
  }
  HJCDIK_FN S smallest(S x) const { return x; }

 private:
  const SphereTable<S>& robot_;
  const Frame<S>* frames_;
  Vec3<S> place_[Capacity];
};

}  // namespace hjcdik::HJCDIK_CORE
