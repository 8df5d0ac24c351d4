// Worlds and sphere robots by plain formulas in double, one thing after the other: the oracle for
// core/collision.h and for the rows of collision-aware solves, with which it shares no arithmetic.
#pragma once

#include <array>
#include <limits>

#include <hjcdik/world.hpp>

#include "support.hpp"

namespace hjcdik::test {

constexpr double kNoObstacle = std::numeric_limits<double>::infinity();

struct Point {
  double x, y, z;
};
inline Point operator+(const Point& a, const Point& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
inline Point operator-(const Point& a, const Point& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
inline Point operator*(double s, const Point& a) { return {s * a.x, s * a.y, s * a.z}; }
inline double along(const Point& a, const Point& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline double norm(const Point& a) { return std::hypot(a.x, a.y, a.z); }
inline Point crossed(const Point& a, const Point& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

// v turned by the quaternion w x y z, of any norm: v + 2 w u x v + 2 u x (u x v). turn < 0: back.
inline Point turned(const double* q, const Point& v, int turn = 1) {
  const double size = std::hypot(std::hypot(q[0], q[1]), std::hypot(q[2], q[3]));
  const double w = q[0] / size;
  const Point u = (turn / size) * Point{q[1], q[2], q[3]};
  const Point c = crossed(u, v);
  return v + 2 * w * c + 2 * crossed(u, c);
}

// Signed distances to the surfaces: the nearest point of each piece of it, and whether the point is inside.
inline double distance_to_box(const double* row, const Point& point) {
  const Point d = turned(row + 3, point - Point{row[0], row[1], row[2]}, -1);
  const double p[3] = {d.x, d.y, d.z}, half[3] = {row[7] / 2, row[8] / 2, row[9] / 2};
  double nearest = kNoObstacle;
  bool inside = true;
  for (int face = 0; face < 3; face++) {
    inside = inside && std::abs(p[face]) < half[face];
    for (const double side : {-half[face], half[face]}) {
      double off[3];
      for (int k = 0; k < 3; k++) {
        const double on_face = k == face ? side : std::clamp(p[k], -half[k], half[k]);
        off[k] = p[k] - on_face;
      }
      nearest = std::min(nearest, std::hypot(off[0], off[1], off[2]));
    }
  }
  return inside ? -nearest : nearest;
}

inline double distance_to_capsule(const double* row, const Point& point) {
  const Point a{row[0], row[1], row[2]}, b{row[3], row[4], row[5]};
  const double length = norm(b - a);
  double nearest = std::min(norm(point - a), norm(point - b));
  if (length > 0 && along(point - a, b - a) > 0 && along(point - b, a - b) > 0)
    nearest = std::min(nearest, norm(crossed(point - a, (1 / length) * (b - a))));
  return nearest - row[6];
}

// In the half plane of the axis: the three edges of half of its section.
inline double distance_to_cylinder(const double* row, const Point& point) {
  const Point d = turned(row + 3, point - Point{row[0], row[1], row[2]}, -1);
  const double out = std::hypot(d.x, d.y), radius = row[7], half = row[8] / 2;
  const double to_side = std::hypot(out - radius, d.z - std::clamp(d.z, -half, half));
  const double over = out - std::min(out, radius);
  const double nearest = std::min({to_side, std::hypot(over, d.z - half), std::hypot(over, d.z + half)});
  return out < radius && std::abs(d.z) < half ? -nearest : nearest;
}

inline double distance_to_sphere(const double* row, const Point& point) {
  return norm(point - Point{row[0], row[1], row[2]}) - row[3];
}

// Rows as WorldView takes them.
struct PlainWorld {
  std::vector<std::array<double, 10>> boxes;
  std::vector<std::array<double, 7>> capsules;
  std::vector<std::array<double, 9>> cylinders;
  std::vector<std::array<double, 4>> spheres;
  bool exact_cylinders = false;

  std::size_t size() const { return boxes.size() + capsules.size() + cylinders.size() + spheres.size(); }

  void add(const PlainWorld& other) {
    boxes.insert(boxes.end(), other.boxes.begin(), other.boxes.end());
    capsules.insert(capsules.end(), other.capsules.begin(), other.capsules.end());
    cylinders.insert(cylinders.end(), other.cylinders.begin(), other.cylinders.end());
    spheres.insert(spheres.end(), other.spheres.begin(), other.spheres.end());
  }

  World world() const {
    const auto flat = [](const auto& rows) {
      std::vector<double> values;
      for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
      return values;
    };
    const auto b = flat(boxes), c = flat(capsules), y = flat(cylinders), s = flat(spheres);
    WorldView view;
    view.boxes = b, view.capsules = c, view.cylinders = y, view.spheres = s;
    view.exact_cylinders = exact_cylinders;
    return World(view);
  }

  // A cylinder that is not exact: the capsule around its axis.
  static std::array<double, 7> as_capsule(const std::array<double, 9>& row) {
    const Point to_end = turned(row.data() + 3, {0, 0, row[8] / 2});
    return {row[0] - to_end.x,
            row[1] - to_end.y,
            row[2] - to_end.z,
            row[0] + to_end.x,
            row[1] + to_end.y,
            row[2] + to_end.z,
            row[7]};
  }

  // Calls visit(distance) for every obstacle.
  template <class Visit>
  void for_each(const Point& p, Visit&& visit) const {
    for (const auto& row : boxes) visit(distance_to_box(row.data(), p));
    for (const auto& row : capsules) visit(distance_to_capsule(row.data(), p));
    for (const auto& row : cylinders) {
      visit(exact_cylinders ? distance_to_cylinder(row.data(), p)
                            : distance_to_capsule(as_capsule(row).data(), p));
    }
    for (const auto& row : spheres) visit(distance_to_sphere(row.data(), p));
  }
  double distance(const Point& p) const {
    double least = kNoObstacle;
    for_each(p, [&](double d) { least = std::min(least, d); });
    return least;
  }
};

// What a configuration comes to. Links in `skip` do not meet the world: the base's.
struct PlainVerdict {
  double self = kNoObstacle, world = kNoObstacle;
  double penetration = 0;  // of the world, summed over spheres
};
inline PlainVerdict judge(const Robot& robot, const PlainWorld& world, std::span<const double> q,
                          const std::vector<std::string>& skip = {}) {
  PlainVerdict verdict;
  const auto spheres = robot.spheres(q);
  const std::vector<std::string>& links = robot.collision_links();
  std::vector<std::vector<std::array<double, 4>>> of_link(links.size());
  for (std::size_t i = 0; i < spheres.size(); i++)
    of_link[std::size_t(robot.sphere_links()[i])].push_back(spheres[i]);
  for (std::size_t l = 0; l < links.size(); l++) {
    if (std::find(skip.begin(), skip.end(), links[l]) != skip.end()) continue;
    for (const auto& s : of_link[l]) {
      const double gap = world.distance({s[0], s[1], s[2]}) - s[3];
      verdict.world = std::min(verdict.world, gap);
      verdict.penetration += std::max(0.0, -gap);
    }
  }
  for (const auto& [a, b] : robot.self_pairs()) {
    for (const auto& s : of_link[std::size_t(a)]) {
      for (const auto& o : of_link[std::size_t(b)]) {
        const double apart = std::hypot(s[0] - o[0], s[1] - o[1], s[2] - o[2]);
        verdict.self = std::min(verdict.self, apart - s[3] - o[3]);
      }
    }
  }
  return verdict;
}

inline std::array<double, 4> random_quaternion(Random& random) {
  const std::vector<double> axis = random.direction();
  const double half = random.uniform(-1.6, 1.6), size = random.magnitude(-2, 2);
  return {size * std::cos(half), size * std::sin(half) * axis[0], size * std::sin(half) * axis[1],
          size * std::sin(half) * axis[2]};
}

// `count` obstacles of all kinds within about `far` of the origin, sizes 10^low to 10^high m.
inline PlainWorld random_world(Random& random, int count, double far = 1, double low = -2,
                               double high = -0.5) {
  PlainWorld world;
  for (int k = 0; k < count; k++) {
    const double x = random.uniform(-far, far), y = random.uniform(-far, far), z = random.uniform(-far, far);
    const auto size = [&] { return random.magnitude(low, high); };
    const auto q = random_quaternion(random);
    switch (random.below(4)) {
      case 0: world.boxes.push_back({x, y, z, q[0], q[1], q[2], q[3], size(), size(), size()}); break;
      case 1: {
        const std::vector<double> axis = random.direction();
        const double length = random.below(8) == 0 ? 0 : size();
        world.capsules.push_back(
            {x, y, z, x + length * axis[0], y + length * axis[1], z + length * axis[2], size() / 2});
        break;
      }
      case 2: world.cylinders.push_back({x, y, z, q[0], q[1], q[2], q[3], size() / 2, size()}); break;
      default: world.spheres.push_back({x, y, z, size() / 2}); break;
    }
  }
  return world;
}

// A chain at random with up to `most` spheres on each of its links.
inline Robot random_sphere_robot(Random& random, int joints, int most, double size = 0.1) {
  const std::string urdf = random_chain(joints, random.engine);
  std::string json;
  for (int l = 1; urdf.find("<link name=\"l" + std::to_string(l) + "\"") != std::string::npos; l++) {
    json += (json.empty() ? "{\"spheres\": {\"l" : ", \"l") + std::to_string(l) + "\": [";
    const int count = 1 + random.below(most);
    for (int s = 0; s < count; s++) {
      json += s > 0 ? ", [" : "[";
      for (int k = 0; k < 3; k++) json += model::to_text(random.uniform(-size, size)) + ", ";
      json += model::to_text(size * random.uniform(0.1, 0.6)) + "]";
    }
    json += "]";
  }
  RobotOptions options;
  options.ee_link = "tool";
  options.spheres = json + "}}";
  return Robot::from_urdf_text(urdf, options);
}

}  // namespace hjcdik::test
