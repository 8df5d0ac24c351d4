#include "solver/judge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "core/collision.h"
#include "solver/world.hpp"

namespace hjcdik {
namespace {

using core::Frame;
using core::Vec3;
using Team = core::SerialTeam<double, core::kMaxSpheres>;

// A configuration's frames and spheres.
struct Placed {
  Placed(const model::Chain& chain, const double* q)
      : robot(chain.sphere_tables.f64.table()), team(place(chain, q)) {}

  Team place(const model::Chain& chain, const double* q) {
    core::carrying_frames(chain.constants, q, frames);
    return Team(robot, frames);
  }

  core::SphereTable<double> robot;
  Frame<double> frames[core::kMaxDof + 1];
  Team team;
};

// Where two things come closest: a sphere of joint `joint`, and another of joint `other` (-1: an obstacle).
struct Contact {
  double clearance = std::numeric_limits<double>::infinity();
  Vec3<double> normal{}, point{}, other_point{};  // the normal points to the sphere
  int joint = -1, other = -1;
};

Contact deepest(const model::Chain& chain, const double* q, const CollisionRule& rule, std::int32_t world) {
  const Placed pose(chain, q);
  Contact worst;
  worst.clearance = 1e-3;
  if (rule.self) {
    core::visit_self(pose.team, pose.robot, worst.clearance,
                     [&](double clearance, const Vec3<double>& d, double length, int one, int other, int) {
                       if (clearance < worst.clearance) {
                         worst = {clearance,
                                  (1 / std::max(length, 1e-12)) * d,
                                  pose.team.place(one),
                                  pose.team.place(other),
                                  pose.robot.joint[one],
                                  pose.robot.joint[other]};
                       }
                     });
  }
  core::visit_world(pose.team, pose.robot, rule.worlds->table_f64(), world, worst.clearance + rule.margin,
                    [&](const core::Distance<double>& d, int i, int, int) {
                      if (d.value - rule.margin < worst.clearance) {
                        worst = {d.value - rule.margin, d.normal, pose.team.place(i), {},
                                 pose.robot.joint[i],   -1};
                      }
                      return worst.clearance + rule.margin;
                    });
  return worst;
}

// What obstacle o of its shape was given as: kind, and row of its array.
std::pair<ObstacleKind, std::int32_t> as_given(const WorldSet& set, std::int32_t world, int shape,
                                               std::size_t o) {
  if (shape == core::kBoxes) return {ObstacleKind::box, set.box_rows[o]};
  if (shape == core::kCylinders) return {ObstacleKind::cylinder, set.cylinder_rows[o]};
  const World& of = set.worlds[std::size_t(world)];
  const auto given = std::int32_t(of.obstacles().given_capsules),
             all = std::int32_t(of.capsules().size() / 7), row = set.capsule_rows[o];
  if (row < given) return {ObstacleKind::capsule, row};
  if (row < all) return {ObstacleKind::cylinder, row - given};
  return {ObstacleKind::sphere, row - all};
}

std::string array_of(ObstacleKind kind) {
  return std::string(to_string(kind)) + (kind == ObstacleKind::box ? "es" : "s");
}

template <class Visit>
void for_each_obstacle(const WorldSet& set, std::int32_t world, Visit&& visit) {
  const auto w = std::size_t(world);
  const auto &begin = set.begins[w], &end = set.begins[w + 1];
  const auto each = [&](const auto& obstacles, int shape, std::int32_t from, std::int32_t to) {
    for (auto o = std::size_t(from); o < std::size_t(to); o++) {
      const auto [kind, row] = as_given(set, world, shape, o);
      visit(obstacles[o], kind, row);
    }
  };
  each(set.f64.boxes, core::kBoxes, begin.boxes, end.boxes);
  each(set.f64.capsules, core::kCapsules, begin.capsules, end.capsules);
  each(set.f64.cylinders, core::kCylinders, begin.cylinders, end.cylinders);
}

}  // namespace

double clearance(const model::Chain& chain, const double* q, const CollisionRule& rule, std::int32_t world,
                 double interest) {
  const Placed pose(chain, q);
  double least = interest;
  if (rule.self) least = core::self_clearance(pose.team, pose.robot, least);
  return std::min(least, core::world_clearance(pose.team, pose.robot, rule.worlds->table_f64(), world,
                                               least + rule.margin) -
                             rule.margin);
}

Check check(const model::Chain& chain, const double* q, const CollisionRule& rule, std::int32_t world) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Placed pose(chain, q);
  const auto& tables = chain.sphere_tables;
  Check result{true, kInfinity, kInfinity, -1, ObstacleKind::none, -1};
  const auto link_of = [&](int sphere) {
    int group = 0;
    while (tables.f64.groups[std::size_t(group)].end <= sphere) group++;
    return tables.link_of_group[std::size_t(group)];
  };
  double responsible = kInfinity;
  if (rule.self) {
    for (const auto& pair : tables.f64.pairs) {
      const auto &a = tables.f64.groups[std::size_t(pair[0])], &b = tables.f64.groups[std::size_t(pair[1])];
      for (int i = a.begin; i < a.end; i++) {
        for (int k = b.begin; k < b.end; k++) {
          const Vec3<double> d = pose.team.place(i) - pose.team.place(k);
          const double value = std::sqrt(core::dot(d, d)) - pose.team.radius(i) - pose.team.radius(k);
          if (!(value < result.self_clearance_m)) continue;
          result.self_clearance_m = responsible = value;
          result.link = tables.link_of_group[std::size_t(pair[0])];
          result.other = ObstacleKind::link;
          result.other_index = tables.link_of_group[std::size_t(pair[1])];
        }
      }
    }
  }
  int sphere = -1, shape = 0, nearest = 0;
  core::visit_world(pose.team, pose.robot, rule.worlds->table_f64(), world, kInfinity,
                    [&](const core::Distance<double>& d, int i, int of, int o) {
                      if (d.value < result.world_clearance_m) {
                        result.world_clearance_m = d.value;
                        sphere = i, shape = of, nearest = o;
                      }
                      return result.world_clearance_m;
                    });
  if (sphere >= 0 && result.world_clearance_m - rule.margin < responsible) {
    result.link = link_of(sphere);
    std::tie(result.other, result.other_index) = as_given(*rule.worlds, world, shape, std::size_t(nearest));
  }
  result.free = result.self_clearance_m >= 0 && result.world_clearance_m - rule.margin >= 0;
  return result;
}

double penetration(const model::Chain& chain, const double* q, const WorldSet& worlds, std::int32_t world) {
  const Placed pose(chain, q);
  double sum = 0, least = 0;
  int sphere = -1;
  core::visit_world(pose.team, pose.robot, worlds.table_f64(), world, 0.0,
                    [&](const core::Distance<double>& d, int i, int, int) {
                      if (i != sphere) {
                        sum -= least;
                        least = 0;
                        sphere = i;
                      }
                      least = std::min(least, d.value);
                      return 0.0;
                    });
  return sum - least;
}

bool push_out(const model::Chain& chain, double* q, const CollisionRule& rule, std::int32_t world) {
  constexpr int kPushes = 20;
  constexpr double kRoom = 1e-5, kLongest = 0.1;
  const auto& c = chain.constants;
  for (int push = 0; push < kPushes; push++) {
    const Contact contact = deepest(chain, q, rule, world);
    if (contact.clearance >= 0) return true;
    Frame<double> frames[core::kMaxDof + 1];
    core::carrying_frames(c, q, frames);
    // How the clearance changes with each joint; joints at a limit that it pushes against do not move.
    double gradient[core::kMaxDof], square = 0;
    for (int i = 0; i < c.dof; i++) {
      const Frame<double>& f = frames[i + 1];
      const auto along = [&](const Vec3<double>& p) {
        return c.joint[i].prismatic ? core::dot(contact.normal, f.z)
                                    : core::dot(contact.normal, core::cross(f.z, p - f.p));
      };
      gradient[i] = 0;
      if (i <= contact.joint) gradient[i] += along(contact.point);
      if (i <= contact.other) gradient[i] -= along(contact.other_point);
      if ((gradient[i] < 0 && q[i] <= c.joint[i].lower) || (gradient[i] > 0 && q[i] >= c.joint[i].upper))
        gradient[i] = 0;
      square += gradient[i] * gradient[i];
    }
    if (square < 1e-12) return false;
    const double step = (kRoom - contact.clearance) / square;
    for (int i = 0; i < c.dof; i++)
      q[i] = std::clamp(q[i] + std::clamp(step * gradient[i], -kLongest, kLongest), c.joint[i].lower,
                        c.joint[i].upper);
  }
  return deepest(chain, q, rule, world).clearance >= 0;
}

std::vector<std::string> base_contacts(const model::Chain& chain, const WorldSet& worlds) {
  std::vector<std::string> contacts;
  for (std::int32_t w = 0; w < worlds.empty_world(); w++) {
    for (const model::SphereLink& link : chain.spheres.links) {
      if (!link.is_base) continue;
      for_each_obstacle(worlds, w, [&](const auto& obstacle, ObstacleKind kind, std::int32_t row) {
        double least = std::numeric_limits<double>::infinity();
        for (const auto& s : link.spheres)
          least = std::min(least, core::distance_to(obstacle, Vec3<double>{s[0], s[1], s[2]}).value - s[3]);
        if (least >= 0) return;
        contacts.push_back("base link '" + link.name + "' touches " + array_of(kind) + "[" +
                           std::to_string(row) + "]" +
                           (worlds.worlds.size() > 1 ? " of world " + std::to_string(w) : "") +
                           "; the base does not move, so this is no verdict on any configuration");
      });
    }
  }
  return contacts;
}

}  // namespace hjcdik
