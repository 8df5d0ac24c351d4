// Signed distances, and clearances of sphere robots, against plain formulas and searches for the nearest
// point.
#include "core/collision.h"

#include "plain_world.hpp"
#include "solver/world_set.hpp"

namespace hjcdik {
namespace {

using namespace test;
using core::Distance;
using core::Vec3;

// --- Single obstacles, made from one by one ---

struct Obstacle {
  enum Kind { box, capsule, cylinder } kind;
  std::vector<double> row;  // as of WorldView

  double distance(const Point& p) const {
    return kind == box       ? distance_to_box(row.data(), p)
           : kind == capsule ? distance_to_capsule(row.data(), p)
                             : distance_to_cylinder(row.data(), p);
  }
  double size() const {
    double largest = 0;
    for (std::size_t k = 0; k < row.size(); k++) {
      if (kind == capsule || k < 3 || k > 6) largest = std::max(largest, std::abs(row[k]));
    }
    return largest;
  }
};

template <class S>
void store(const Point& p, S* to) {
  to[0] = S(p.x), to[1] = S(p.y), to[2] = S(p.z);
}

template <class S>
Distance<S> library_distance(const Obstacle& o, const Point& at) {
  const double* r = o.row.data();
  const Vec3<S> p{S(at.x), S(at.y), S(at.z)};
  const Point first{r[0], r[1], r[2]};
  if (o.kind == Obstacle::capsule) {
    core::Capsule<S> c{};
    const Point axis = Point{r[3], r[4], r[5]} - first;
    store(first, c.end);
    store(axis, c.axis);
    c.inverse = norm(axis) > 0 ? S(1 / along(axis, axis)) : S(0);
    c.radius = S(r[6]);
    return core::distance_to(c, p);
  }
  if (o.kind == Obstacle::cylinder) {
    core::Cylinder<S> c{};
    store(first, c.center);
    store(turned(r + 3, {0, 0, 1}), c.axis);
    c.radius = S(r[7]);
    c.half = S(r[8] / 2);
    return core::distance_to(c, p);
  }
  core::Box<S> b{};
  store(first, b.center);
  store(turned(r + 3, {1, 0, 0}), b.axis);
  store(turned(r + 3, {0, 1, 0}), b.axis + 3);
  store(turned(r + 3, {0, 0, 1}), b.axis + 6);
  for (int k = 0; k < 3; k++) b.half[k] = S(r[7 + k] / 2);
  return core::distance_to(b, p);
}

Obstacle random_obstacle(Random& random, int kind, double low = -2, double high = 0) {
  const auto at = [&] { return random.uniform(-1, 1); };
  const auto size = [&] { return random.magnitude(low, high); };
  const auto q = random_quaternion(random);
  if (kind == Obstacle::capsule) return {Obstacle::capsule, {at(), at(), at(), at(), at(), at(), size()}};
  if (kind == Obstacle::cylinder)
    return {Obstacle::cylinder, {at(), at(), at(), q[0], q[1], q[2], q[3], size(), size()}};
  return {Obstacle::box, {at(), at(), at(), q[0], q[1], q[2], q[3], size(), size(), size()}};
}

template <class S>
void expect_finite(const Distance<S>& d) {
  ASSERT_TRUE(std::isfinite(d.value));
  ASSERT_TRUE(std::isfinite(d.normal.x) && std::isfinite(d.normal.y) && std::isfinite(d.normal.z));
}

double length_of(const Vec3<double>& v) { return std::hypot(v.x, v.y, v.z); }

// The oracle itself, against a search over the surface: no point of it is nearer than the distance says, and
// some is as near.
TEST(PlainDistance, IsThatOfTheNearestSurfacePoint) {
  Random random(70);
  for (int k = 0; k < few(60); k++) {
    const Obstacle o = random_obstacle(random, k % 3);
    const double* r = o.row.data();
    const Point p{random.uniform(-2, 2), random.uniform(-2, 2), random.uniform(-2, 2)};
    double nearest = kNoObstacle;
    constexpr int n = 60;
    const auto visit = [&](const Point& surface) { nearest = std::min(nearest, norm(p - surface)); };
    for (int i = 0; i <= n; i++) {
      const double u = double(i) / n;
      for (int j = 0; j <= n; j++) {
        const double v = double(j) / n, turn = 2 * std::numbers::pi * v;
        if (o.kind == Obstacle::box) {
          for (const double w : {-0.5, 0.5}) {
            const double x = (u - 0.5) * r[7], y = (v - 0.5) * r[8];
            visit(Point{r[0], r[1], r[2]} + turned(r + 3, {x, y, w * r[9]}));
            visit(Point{r[0], r[1], r[2]} + turned(r + 3, {x, w * r[8], (v - 0.5) * r[9]}));
            visit(Point{r[0], r[1], r[2]} + turned(r + 3, {w * r[7], (u - 0.5) * r[8], (v - 0.5) * r[9]}));
          }
        } else if (o.kind == Obstacle::cylinder) {
          const double c = r[7] * std::cos(turn), s = r[7] * std::sin(turn);
          visit(Point{r[0], r[1], r[2]} + turned(r + 3, {c, s, (u - 0.5) * r[8]}));
          for (const double w : {-0.5, 0.5})
            visit(Point{r[0], r[1], r[2]} + turned(r + 3, {u * c, u * s, w * r[8]}));
        } else {
          // A ball about every point of the axis: the nearest of its surface points.
          const Point a{r[0], r[1], r[2]}, b{r[3], r[4], r[5]};
          const double d = norm(p - (a + (double(i * (n + 1) + j) / ((n + 1) * (n + 1) - 1)) * (b - a)));
          nearest = std::min(nearest, std::abs(d - r[6]));
        }
      }
    }
    const double distance = o.distance(p);
    if (o.kind == Obstacle::capsule && distance < 0) continue;  // its balls overlap: only from outside
    ASSERT_LE(std::abs(distance), nearest + 1e-12);
    ASSERT_GE(std::abs(distance), nearest - 0.05) << "of kind " << o.kind;
  }
}

TEST(Distance, OfRandomPoints) {
  Random random(71);
  int inside[3] = {}, outside[3] = {};
  for (int k = 0; k < few(30'000); k++) {
    const int kind = k % 3;
    const Obstacle o = random_obstacle(random, kind);
    // Everywhere, and where it is near.
    const Point middle =
        kind == Obstacle::capsule
            ? 0.5 * (Point{o.row[0], o.row[1], o.row[2]} + Point{o.row[3], o.row[4], o.row[5]})
            : Point{o.row[0], o.row[1], o.row[2]};
    const double far = random.magnitude(-2, 1);
    const Point p =
        middle + Point{random.uniform(-far, far), random.uniform(-far, far), random.uniform(-far, far)};
    const double expected = o.distance(p), scale = 1 + o.size() + norm(p);
    const Distance<double> d = library_distance<double>(o, p);
    expect_finite(d);
    ASSERT_NEAR(d.value, expected, 4e-15 * scale) << "kind " << kind;
    (expected < 0 ? inside : outside)[kind]++;
    const Distance<float> f = library_distance<float>(o, p);
    expect_finite(f);
    ASSERT_NEAR(f.value, expected, 1e-6 * scale) << "kind " << kind;

    // The normal by differences of the oracle, where these from both sides agree: not at an edge of the
    // distance.
    constexpr double h = 1e-6;
    double gradient[3], bend = 0;
    for (int i = 0; i < 3; i++) {
      const Point step{i == 0 ? h : 0, i == 1 ? h : 0, i == 2 ? h : 0};
      const double ahead = o.distance(p + step), behind = o.distance(p - step);
      gradient[i] = (ahead - behind) / (2 * h);
      bend = std::max(bend, std::abs(ahead - 2 * expected + behind) / h);
    }
    ASSERT_LE(length_of(d.normal), 1 + 1e-12);
    if (bend > 1e-3) continue;
    ASSERT_NEAR(length_of(d.normal), 1, 1e-12) << "kind " << kind;
    ASSERT_NEAR(d.normal.x, gradient[0], 2e-3) << "kind " << kind;
    ASSERT_NEAR(d.normal.y, gradient[1], 2e-3) << "kind " << kind;
    ASSERT_NEAR(d.normal.z, gradient[2], 2e-3) << "kind " << kind;
    if (std::abs(expected) > 0.01) {
      ASSERT_NEAR(f.normal.x, d.normal.x, 2e-3) << "kind " << kind;
      ASSERT_NEAR(f.normal.y, d.normal.y, 2e-3) << "kind " << kind;
      ASSERT_NEAR(f.normal.z, d.normal.z, 2e-3) << "kind " << kind;
    }
  }
  for (int kind = 0; kind < 3; kind++) {
    EXPECT_GT(inside[kind], few(30'000) / 60) << kind;
    EXPECT_GT(outside[kind], few(30'000) / 6) << kind;
  }
}

// Faces, edges, corners, rims, axes and middles, and steps of rounding size off them.
template <class S>
void expect_sound_at_features(double tolerance) {
  Random random(72);
  for (int k = 0; k < few(300); k++) {
    const int kind = k % 3;
    // Every other one stands upright, so that features are hit exactly.
    Obstacle o = random_obstacle(random, kind);
    if (k % 2 == 0) {
      if (kind == Obstacle::capsule) {
        o.row = {0.5, -0.25, 0, 0.5, -0.25, 0.75, 0.125};
      } else {
        for (std::size_t i = 0; i < 3; i++) o.row[i] = 0.25 * double(random.below(5));
        o.row[3] = 1;
        o.row[4] = o.row[5] = o.row[6] = 0;
        for (std::size_t i = 7; i < o.row.size(); i++) o.row[i] = 0.25 * double(1 + random.below(4));
      }
    }
    const double* r = o.row.data();
    std::vector<Point> points;
    const Point first{r[0], r[1], r[2]};
    if (kind == Obstacle::capsule) {
      const Point last{r[3], r[4], r[5]}, axis = last - first;
      const Point across = crossed(axis, std::abs(axis.x) < 0.5 ? Point{1, 0, 0} : Point{0, 1, 0});
      for (const double t : {-0.5, 0.0, 0.5, 1.0, 1.5}) {
        points.push_back(first + t * axis);  // on the axis and beyond it
        points.push_back(first + t * axis + (r[6] / norm(across)) * across);
      }
      points.push_back(last + (r[6] / norm(axis)) * axis);
    } else {
      for (const double x : {-1.0, 0.0, 1.0}) {
        for (const double y : {-1.0, 0.0, 1.0}) {
          for (const double z : {-1.0, 0.0, 1.0}) {
            const Point local = kind == Obstacle::box ? Point{x * r[7] / 2, y * r[8] / 2, z * r[9] / 2}
                                                      : Point{x * r[7], y * r[7], z * r[8] / 2};
            points.push_back(first + turned(r + 3, local));
            points.push_back(first + turned(r + 3, 0.5 * local));
            points.push_back(first + turned(r + 3, 2 * local));
          }
        }
      }
    }
    for (const Point& feature : points) {
      const auto off = random.direction();
      for (const double step : {0.0, 1e-300, 1e-40, 1e-24, 1e-16, 1e-8}) {
        const Point p = feature + step * Point{off[0], off[1], off[2]};
        const Distance<S> d = library_distance<S>(o, p);
        expect_finite(d);
        ASSERT_NEAR(double(d.value), o.distance(p), tolerance) << "kind " << kind;
        // Squares of lengths below 1e-22 are 0 in float, and a normal made of them has any length.
        if (sizeof(S) == 4 || (step > 0 && step < 1e-100)) continue;
        ASSERT_LE(std::hypot(double(d.normal.x), double(d.normal.y), double(d.normal.z)), 1 + tolerance);
      }
    }
  }
}
TEST(Distance, AtFacesEdgesCornersAndAxes) {
  expect_sound_at_features<double>(1e-14);
  expect_sound_at_features<float>(1e-6);
}

TEST(Distance, ByHand) {
  const std::vector<double> upright = {1, 0, 0, 0};
  const auto box = [&](double x, double y, double z) {
    return library_distance<double>({Obstacle::box, {0, 0, 0, 1, 0, 0, 0, 2, 4, 6}}, {x, y, z});
  };
  EXPECT_EQ(box(0, 0, 0).value, -1);
  EXPECT_EQ(length_of(box(0, 0, 0).normal), 1) << "some way out of the middle";
  EXPECT_EQ(box(0.75, 0, 0).value, -0.25);
  EXPECT_EQ(box(0.75, 0, 0).normal.x, 1);
  EXPECT_EQ(box(0, -1.75, 0).normal.y, -1);
  EXPECT_EQ(box(0, 0, -2.75).normal.z, -1);
  EXPECT_EQ(box(1, 0, 0).value, 0) << "touching";
  EXPECT_EQ(length_of(box(1, 0, 0).normal), 1);
  EXPECT_EQ(box(1, 2, 3).value, 0) << "a corner";
  EXPECT_EQ(length_of(box(1, 2, 3).normal), 1);
  EXPECT_EQ(box(4, 6, 3).value, 5) << "beyond an edge";
  EXPECT_DOUBLE_EQ(box(4, 6, 3).normal.x, 0.6);
  EXPECT_DOUBLE_EQ(box(4, 6, 3).normal.y, 0.8);
  EXPECT_DOUBLE_EQ(box(3, 4, 4).value, 3) << "beyond a corner";

  const auto cylinder = [](double x, double y, double z) {
    return library_distance<double>({Obstacle::cylinder, {0, 0, 0, 1, 0, 0, 0, 0.5, 4}}, {x, y, z});
  };
  EXPECT_EQ(cylinder(0, 0, 0).value, -0.5);
  EXPECT_EQ(cylinder(0, 0, 1.75).value, -0.25);
  EXPECT_EQ(cylinder(0, 0, 1.75).normal.z, 1);
  EXPECT_EQ(cylinder(0, 0, 5).value, 3);
  EXPECT_EQ(cylinder(0, 0, -5).normal.z, -1);
  EXPECT_EQ(cylinder(0.5, 0, 0).value, 0);
  EXPECT_EQ(cylinder(0.5, 0, 2).value, 0) << "the rim";
  EXPECT_EQ(cylinder(3.5, 0, 6).value, 5);
  EXPECT_DOUBLE_EQ(cylinder(0, -3.5, 6).normal.y, -0.6);
  EXPECT_DOUBLE_EQ(cylinder(0, -3.5, 6).normal.z, 0.8);

  // A capsule without length is a sphere, wherever its axis would point.
  Random random(73);
  for (int k = 0; k < 1000; k++) {
    const Point p{random.uniform(-1, 1), random.uniform(-1, 1), random.uniform(-1, 1)};
    const auto d = library_distance<double>({Obstacle::capsule, {0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.25}}, p);
    const Point off = p - Point{0.1, 0.2, 0.3};
    ASSERT_NEAR(d.value, norm(off) - 0.25, 1e-15);
    ASSERT_NEAR(d.normal.x, off.x / norm(off), 1e-14);
  }
}

// Sizes and distances of 1e9 m overflow nothing, and padding spheres are far from everything.
TEST(Distance, FiniteInFloatForWhateverIsAccepted) {
  Random random(74);
  for (int k = 0; k < few(20'000); k++) {
    Obstacle o = random_obstacle(random, k % 3, -9, 9);
    for (std::size_t i = 0; i < (o.kind == Obstacle::capsule ? 6u : 3u); i++)
      o.row[i] *= random.magnitude(-9, 9);
    const double far = k % 5 == 0 ? double(core::kFarAway) : random.magnitude(-9, 9);
    const Point p{far, -far, far};
    const Distance<float> f = library_distance<float>(o, p);
    expect_finite(f);
    ASSERT_NEAR(double(f.value), o.distance(p), 2e-6 * (norm(p) + o.size()));
    if (k % 5 == 0) {
      ASSERT_GT(f.value, 1e14f);
    }
  }
}

// --- Robots and worlds ---

template <class S>
struct Placed {
  Placed(const Robot& robot, const std::vector<double>& q)
      : table(arrays(robot).table()), team((place(robot, q), table), frames) {}

  static const model::SphereArrays<S>& arrays(const Robot& robot) {
    if constexpr (sizeof(S) == 4) {
      return robot.chain().sphere_tables.f32;
    } else {
      return robot.chain().sphere_tables.f64;
    }
  }
  void place(const Robot& robot, const std::vector<double>& q) {
    S values[core::kMaxDof];
    std::copy(q.begin(), q.end(), values);
    if constexpr (sizeof(S) == 4) {
      core::carrying_frames(robot.chain().constants_f32, values, frames);
    } else {
      core::carrying_frames(robot.chain().constants, values, frames);
    }
  }
  S self(S interest) const { return core::self_clearance(team, table, interest); }
  S world(const WorldSet& set, int world, S interest) const {
    if constexpr (sizeof(S) == 4) {
      return core::world_clearance(team, table, set.table_f32(), world, interest);
    } else {
      return core::world_clearance(team, table, set.table_f64(), world, interest);
    }
  }

  core::SphereTable<S> table;
  core::Frame<S> frames[core::kMaxDof + 1];
  core::SerialTeam<S, core::kMaxSpheres> team;
};

std::vector<Robot> sphere_robots(Random& random) {
  std::vector<Robot> robots;
  for (const char* name : {"panda", "iiwa14", "ur5e"}) robots.push_back(Robot::preset(name));
  for (int k = 0; k < 6; k++) robots.push_back(random_sphere_robot(random, 1 + 3 * k, 9));
  return robots;
}

// Below the interest the clearance itself, else the interest.
template <class S>
void expect_clearance(S found, double exact, double interest, double tolerance) {
  ASSERT_TRUE(std::isfinite(found) || (std::isinf(interest) && std::isinf(exact)));
  if (std::isinf(exact) && std::isinf(interest)) return;
  ASSERT_NEAR(double(found), std::min(exact, interest), tolerance);
}

TEST(Clearance, OfRobotsAgainstPlainLoops) {
  Random random(75);
  const double interests[] = {kNoObstacle, 1.0, 0.05, 2e-3, 0.0, -0.01};
  int colliding = 0, judged = 0;
  for (const Robot& robot : sphere_robots(random)) {
    std::vector<PlainWorld> worlds;
    for (const int count : {0, 1, 3, 4, 5, 30, 200}) {
      worlds.push_back(random_world(random, count));
      worlds.back().exact_cylinders = count % 2 == 0;
    }
    std::vector<World> given;
    for (const PlainWorld& w : worlds) given.push_back(w.world());
    const WorldSet set(robot.chain(), given);
    const double size = 1e-15 * (10 + 10 * robot.chain().length);
    for (int k = 0; k < few(30); k++) {
      const std::vector<double> q = random_configuration(robot, random.engine);
      const Placed<double> wide(robot, q);
      const Placed<float> narrow(robot, q);
      for (int w = 0; w < int(worlds.size()); w++) {
        const PlainVerdict plain = judge(robot, worlds[std::size_t(w)], q);
        const double slack = set.ranges[std::size_t(w)].slack;
        for (const double interest : interests) {
          expect_clearance(wide.world(set, w, interest), plain.world, interest, size);
          expect_clearance(narrow.world(set, w, float(interest)), plain.world, interest, slack);
          expect_clearance(wide.self(interest), plain.self, interest, size);
          expect_clearance(narrow.self(float(interest)), plain.self, interest, slack);
        }
        if (HasFatalFailure()) return;
        judged++;
        colliding += plain.world < 0;
      }
      // The empty world comes last.
      EXPECT_EQ(wide.world(set, set.empty_world(), 1.0), 1.0);
      EXPECT_EQ(set.world_of(-1), set.empty_world());
    }
  }
  EXPECT_GT(colliding, judged / 10);
  EXPECT_LT(colliding, judged * 9 / 10);
}

// Trees over any number of obstacles, of sizes and at distances of many orders of magnitude.
TEST(Clearance, TreesMissNothing) {
  Random random(76);
  const Robot robot = Robot::preset("panda");
  std::vector<int> counts;
  for (int n = 1; n < 20; n++) counts.push_back(n);
  for (const int n : {31, 32, 33, 64, 100, 257, 500}) counts.push_back(n);
  for (const int count : counts) {
    for (const auto& [far, low, high] : {std::tuple{1.0, -2.0, -0.5},
                                         {1.0, -6.0, -3.0},
                                         {100.0, -3.0, 2.0},
                                         {0.001, -3.0, -2.0},
                                         {1e6, 0.0, 6.0},
                                         {1e8, 0.0, 8.9}}) {
      PlainWorld world = random_world(random, count, far, low, high);
      world.exact_cylinders = random.below(2);
      const WorldSet set(robot.chain(), {world.world()});
      ASSERT_EQ(set.f64.boxes.size() + set.f64.capsules.size() + set.f64.cylinders.size(), world.size());
      for (int k = 0; k < few(10); k++) {
        const std::vector<double> q = random_configuration(robot, random.engine);
        const Placed<double> wide(robot, q);
        const Placed<float> narrow(robot, q);
        const double exact = judge(robot, world, q).world;
        const double rounding = 1e-14 * (1 + far), rounding_f32 = double(set.ranges[0].slack);
        for (const double interest : {kNoObstacle, 0.1, 2e-3, -0.001}) {
          expect_clearance(wide.world(set, 0, interest), exact, interest, rounding);
          if (std::isinf(interest) && exact > 2) continue;  // slack is for what can be touched
          expect_clearance(narrow.world(set, 0, float(interest)), exact, interest, rounding_f32);
        }
        if (HasFatalFailure()) FAIL() << count << " obstacles within " << far;
      }
    }
  }
}

// Every obstacle nearer than the interest is visited, with what belongs to the sphere.
TEST(Clearance, VisitsAllThatIsNear) {
  Random random(77);
  const Robot robot = Robot::preset("ur5e");
  for (int repeat = 0; repeat < few(40); repeat++) {
    const PlainWorld world = random_world(random, 60);
    const WorldSet set(robot.chain(), {world.world()});
    const std::vector<double> q = random_configuration(robot, random.engine);
    const Placed<double> pose(robot, q);
    const double interest = random.uniform(-0.05, 0.2);
    std::vector<std::vector<double>> seen(std::size_t(pose.table.spheres));
    core::visit_world(pose.team, pose.table, set.table_f64(), 0, interest,
                      [&](const Distance<double>& d, int i, int, int) {
                        if (d.value < interest) seen[std::size_t(i)].push_back(d.value);
                        return interest;
                      });
    for (int i = 0; i < pose.table.spheres; i++) {
      const Vec3<double> at = pose.team.place(i);
      std::vector<double> expected;
      world.for_each({at.x, at.y, at.z}, [&](double d) {
        if (d - pose.table.radius[i] < interest) expected.push_back(d - pose.table.radius[i]);
      });
      auto& found = seen[std::size_t(i)];
      ASSERT_EQ(found.size(), expected.size()) << "sphere " << i;
      std::sort(found.begin(), found.end());
      std::sort(expected.begin(), expected.end());
      for (std::size_t k = 0; k < found.size(); k++) ASSERT_NEAR(found[k], expected[k], 1e-13);
    }
  }
}

// Spheres of the base meet other links, not the world.
TEST(Clearance, TheBaseMeetsNoObstacle) {
  Random random(78);
  const Robot robot = Robot::preset("panda", {.check_base = true});
  ASSERT_EQ(robot.collision_links()[0], "panda_link0");
  const PlainWorld floor{.boxes = {{0, 0, -0.05, 1, 0, 0, 0, 2, 2, 0.12}}};
  const WorldSet set(robot.chain(), {floor.world()});
  int free = 0;
  for (int k = 0; k < 300; k++) {
    const std::vector<double> q = random_configuration(robot, random.engine);
    const PlainVerdict plain = judge(robot, floor, q, {"panda_link0"});
    const Placed<double> pose(robot, q);
    ASSERT_NEAR(pose.world(set, 0, 1.0), std::min(1.0, plain.world), 1e-14);
    ASSERT_NEAR(pose.self(1.0), std::min(1.0, plain.self), 1e-14);
    free += plain.world > 0;
  }
  EXPECT_GT(free, 30);
}

}  // namespace
}  // namespace hjcdik
