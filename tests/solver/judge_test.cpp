// The verdict in float64, its reasons, and the way out of a collision.
#include "solver/judge.hpp"

#include <map>

#include "plain_world.hpp"
#include "rows.hpp"

namespace hjcdik {
namespace {

using namespace test;

constexpr double kRounding = 1e-12;

std::vector<Robot> robots(Random& random) {
  std::vector<Robot> robots;
  for (const char* name : {"panda", "iiwa14", "ur5e"}) robots.push_back(Robot::preset(name));
  for (const int joints : {1, 4, 12, 30}) robots.push_back(random_sphere_robot(random, joints, 9));
  return robots;
}

TEST(Judge, ClearanceAndPenetrationAgainstPlainLoops) {
  Random random(100);
  for (const Robot& robot : robots(random)) {
    PlainWorld plain[2] = {random_world(random, 15), random_world(random, 60)};
    plain[1].exact_cylinders = true;
    const WorldSet set(robot.chain(), {plain[0].world(), plain[1].world()});
    for (int k = 0; k < few(100); k++) {
      const std::vector<double> q = random_configuration(robot, random.engine);
      const int w = k % 2;
      const PlainVerdict v = judge(robot, plain[w], q);
      const double margin = k % 3 == 0 ? 0.05 : 0, interest = k % 5 == 0 ? kNoObstacle : 1e-3;
      const bool self = k % 7 != 0;
      const CollisionRule rule{&set, margin, self};
      const double exact = std::min(self ? v.self : kNoObstacle, v.world - margin);
      ASSERT_NEAR(clearance(robot.chain(), q.data(), rule, w, interest), std::min(exact, interest),
                  kRounding * (1 + robot.chain().length));
      if (std::abs(exact) > kRounding * (1 + robot.chain().length)) {
        ASSERT_EQ(is_free(robot.chain(), q.data(), rule, w), exact > 0);
      }
      ASSERT_NEAR(penetration(robot.chain(), q.data(), set, w), v.penetration,
                  kRounding * (1 + v.penetration) * (1 + robot.chain().length));
      ASSERT_EQ(penetration(robot.chain(), q.data(), set, set.empty_world()), 0);
    }
  }
}

// The pair that a check names is as near as it says, and counts in the arrays as given.
TEST(Judge, NamesThePairResponsible) {
  Random random(101);
  std::map<ObstacleKind, int> seen;
  for (const Robot& robot : robots(random)) {
    PlainWorld plain[2] = {random_world(random, 12), random_world(random, 12)};
    plain[1].exact_cylinders = true;
    const WorldSet set(robot.chain(), {plain[0].world(), plain[1].world()});
    for (int k = 0; k < few(60); k++) {
      const std::vector<double> q = random_configuration(robot, random.engine);
      const PlainWorld& world = plain[k % 2];
      const double margin = k % 3 == 0 ? 0.1 : 0;
      const Check c = check(robot.chain(), q.data(), {&set, margin, true}, k % 2);
      seen[c.other]++;
      if (c.other == ObstacleKind::none) continue;
      PlainWorld one;
      one.exact_cylinders = world.exact_cylinders;
      const auto row = std::size_t(c.other_index);
      if (c.other == ObstacleKind::box) one.boxes = {world.boxes.at(row)};
      if (c.other == ObstacleKind::capsule) one.capsules = {world.capsules.at(row)};
      if (c.other == ObstacleKind::cylinder) one.cylinders = {world.cylinders.at(row)};
      if (c.other == ObstacleKind::sphere) one.spheres = {world.spheres.at(row)};
      const auto spheres = robot.spheres(q);
      double nearest = kNoObstacle;
      for (std::size_t i = 0; i < spheres.size(); i++) {
        if (robot.sphere_links()[i] != c.link) continue;
        const Point at{spheres[i][0], spheres[i][1], spheres[i][2]};
        nearest = std::min(nearest, one.distance(at) - spheres[i][3]);
        for (std::size_t o = 0; c.other == ObstacleKind::link && o < spheres.size(); o++) {
          if (robot.sphere_links()[o] != c.other_index) continue;
          const double apart = norm(at - Point{spheres[o][0], spheres[o][1], spheres[o][2]});
          nearest = std::min(nearest, apart - spheres[i][3] - spheres[o][3]);
        }
      }
      const double tolerance = kRounding * (1 + robot.chain().length);
      if (c.other == ObstacleKind::link) {
        ASSERT_NEAR(nearest, c.self_clearance_m, tolerance);
        ASSERT_LE(c.self_clearance_m, c.world_clearance_m - margin + tolerance);
      } else {
        ASSERT_NEAR(nearest, c.world_clearance_m, tolerance) << to_string(c.other);
        ASSERT_LE(c.world_clearance_m - margin, c.self_clearance_m + tolerance);
      }
    }
  }
  for (const ObstacleKind kind : {ObstacleKind::link, ObstacleKind::box, ObstacleKind::capsule,
                                  ObstacleKind::cylinder, ObstacleKind::sphere}) {
    if (!kSanitized) {  // else too few to tell
      EXPECT_GT(seen[kind], 0) << to_string(kind);
    }
  }
}

// Shallow collisions mostly have a way out; where one is claimed, it is one.
TEST(PushOut, EndsFreeAndInsideTheLimits) {
  Random random(102);
  int shallow = 0, freed = 0;
  for (const Robot& robot : robots(random)) {
    PlainWorld plain = random_world(random, 8);
    const WorldSet set(robot.chain(), {plain.world()});
    for (int k = 0; k < few(400); k++) {
      std::vector<double> q = random_configuration(robot, random.engine);
      for (std::size_t i = 0; i < q.size(); i++)
        q[i] = std::clamp(q[i], robot.joints()[i].lower, robot.joints()[i].upper);
      const std::vector<double> before = q;
      const double margin = k % 2 ? 0.02 : 0;
      const CollisionRule rule{&set, margin, k % 3 != 0};
      const auto room = [&] {
        const PlainVerdict v = judge(robot, plain, q);
        return std::min(rule.self ? v.self : kNoObstacle, v.world - margin);
      };
      const double deep = room();
      const bool ok = push_out(robot.chain(), q.data(), rule, 0);
      for (const double v : q) ASSERT_TRUE(std::isfinite(v));
      if (deep > kRounding) {
        ASSERT_TRUE(ok && same_bits(q, before)) << "what is free stays";
      }
      if (ok) {
        ASSERT_TRUE(inside_limits(robot, q));
        ASSERT_GE(room(), -kRounding * (1 + robot.chain().length));
      }
      if (robot.dof() < 6 || deep > 0 || deep < -0.02) continue;
      shallow++;
      freed += ok;
      ASSERT_TRUE(!ok || largest_difference(robot, q, before) < 1);
    }
  }
  EXPECT_GT(shallow, few(60));
  EXPECT_GT(freed, shallow * 8 / 10);
}

TEST(PushOut, StraightOutOfABox) {
  RobotOptions options;
  options.ee_link = "tool";
  options.spheres = "{\"spheres\": {\"tool\": [[0, 0, 0, 0.1]]}}";
  const Robot robot =
      Robot::from_urdf_text(test::robot(link("base") + link("tool") +
                                        joint("j", "prismatic", "base", "tool",
                                              "<axis xyz=\"1 0 0\"/><limit lower=\"-1\" upper=\"0.45\"/>")),
                            options);
  const WorldSet set(robot.chain(), {PlainWorld{.boxes = {{0.5, 0, 0, 1, 0, 0, 0, 0.4, 2, 2}}}.world()});
  for (const double q0 : {0.25, 0.3, 0.4, 0.45}) {
    double q = q0;
    ASSERT_TRUE(push_out(robot.chain(), &q, {&set, 0, true}, 0));
    EXPECT_LE(q, 0.2) << "the box begins at 0.3";
    EXPECT_GT(q, 0.2 - 1e-4);
  }
  // Held by the limit on the one side, and by the box on the other.
  const WorldSet wall(robot.chain(), {PlainWorld{.boxes = {{-0.8, 0, 0, 1, 0, 0, 0, 3, 2, 2}}}.world()});
  double q = 0.44;
  EXPECT_FALSE(push_out(robot.chain(), &q, {&wall, 0, true}, 0));
  EXPECT_LE(q, 0.45);
}

}  // namespace
}  // namespace hjcdik
