// Robots that come to the library through their headers are those that the headers were written of.
#include "expected.h"

#include <map>

#include <hjcd_kernel.h>

#include "codegen/header_robots.hpp"
#include "native/linked_robot.hpp"

namespace hjcdik {
namespace {

using namespace test;

std::map<std::string, const native::LinkedRobot*> linked_robots() {
  std::map<std::string, const native::LinkedRobot*> robots;
#define SPHERES(name) \
  robots[#name] = reinterpret_cast<const native::LinkedRobot*>(&::name::detail::registration.robot);
#define OPEN(name) SPHERES(name)
  ROBOTS
  return robots;
}

TEST(LinkedRobot, IsTheRobotOfTheHeader) {
  Random random(5);
  const auto linked = linked_robots();
  for (const auto& [name, robot] : header_robots()) {
    SCOPED_TRACE(name);
    const Robot again = native::robot_of(*linked.at(name));
    EXPECT_EQ(again.name(), robot.name());
    EXPECT_EQ(again.base_link(), robot.base_link());
    EXPECT_EQ(again.ee_link(), robot.ee_link());
    EXPECT_EQ(again.ee_frame(), robot.ee_frame());
    ASSERT_EQ(again.dof(), robot.dof());
    for (int i = 0; i < robot.dof(); i++) {
      const JointInfo &a = again.joints()[std::size_t(i)], &b = robot.joints()[std::size_t(i)];
      EXPECT_EQ(a.name, b.name);
      EXPECT_EQ(a.type, b.type);
      EXPECT_EQ(a.lower, b.lower);
      EXPECT_EQ(a.upper, b.upper);
    }
    // What GPU programs are made of and found by.
    EXPECT_EQ(again.header_text(), robot.header_text());
    EXPECT_EQ(again.chain().joints.size(), std::size_t(robot.dof()));
    EXPECT_NEAR(again.chain().reach.radius, robot.chain().reach.radius, 1e-5);
    for (int k = 0; k < 20; k++) {
      const std::vector<double> q = random_configuration(robot, random.engine);
      expect_near(again.forward_kinematics(q), robot.forward_kinematics(q), 1e-12);
      const auto a = again.jacobian(q), b = robot.jacobian(q);
      for (std::size_t i = 0; i < a.size(); i++) EXPECT_NEAR(a[i], b[i], 1e-12);
    }
  }
}

TEST(LinkedRobot, SolvesAsTheRobotOfTheHeader) {
  const auto linked = linked_robots();
  for (const auto& [name, robot] : header_robots()) {
    SCOPED_TRACE(name);
    const SolverOptions cpu{.device = "cpu"};
    const Solver one(robot, cpu), other(native::robot_of(*linked.at(name)), cpu);
    const std::vector<Pose> targets = one.sample_targets(20);
    const TargetView view{targets[0].data(), std::int64_t(targets.size())};
    SolveOptions options;
    options.batch_size = 100;
    const Result a = one.solve(view, options), b = other.solve(view, options);
    EXPECT_TRUE(same_bits(a.count, b.count));
    for (std::size_t t = 0; t < targets.size(); t++) {
      for (std::size_t i = 0; i < std::size_t(robot.dof() * a.count[t]); i++)
        EXPECT_EQ(a.q[t * std::size_t(robot.dof()) + i], b.q[t * std::size_t(robot.dof()) + i]);
    }
  }
}

TEST(LinkedRobot, AnotherFormatIsRefused) {
  native::LinkedRobot robot = *linked_robots().at("panda");
  robot.format = 99;
  EXPECT_THROW(native::robot_of(robot), std::runtime_error);
}

TEST(LinkedRobot, SeveralRobotsInOneProgramAreRefused) {
  try {
    grid_num_joints();
    FAIL();
  } catch (const std::runtime_error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("two robots"), std::string::npos) << message;
    EXPECT_NE(message.find("HJCDIK_NO_NATIVE_ROBOT"), std::string::npos) << message;
  }
}

TEST(Codegen, TextDependsOnTheRobotAndTheNamespaceAlone) {
  const Robot panda = Robot::preset("panda");
  EXPECT_EQ(codegen(panda), codegen(Robot::preset("panda")));
  EXPECT_NE(codegen(panda), codegen(panda, "panda"));
  EXPECT_NE(codegen(panda), codegen(Robot::preset("panda", {.spheres = "none"})));
  // Names are in the header, but not in what programs are found by.
  const std::string text = codegen(panda);
  EXPECT_NE(text.find("\"panda_joint1\""), std::string::npos);
  EXPECT_EQ(panda.header_text().find("panda"), std::string::npos);
  EXPECT_NE(text.find(panda.header_text().substr(panda.header_text().find("namespace"))), std::string::npos);
  EXPECT_EQ(text.find("#include"), std::string::npos);
}

TEST(Codegen, NamespaceMustBeAnIdentifier) {
  for (const char* name : {"", "1a", "a b", "a::b", "_a", "a__b", "a-b", "\xc3\xa4", "class", "float", "xor",
                           "std", "main", "Result", "linux"})
    EXPECT_THROW(codegen(Robot::preset("ur5e"), name), InvalidArgument) << name;
}

TEST(Codegen, NamesOfAnyKindAreText) {
  const std::string name =
      "a\"b\\c\n%s?"
      "?/";
  std::string escaped =
      "a&quot;b\\c&#10;%s?"
      "?/";
  const Robot robot = load("<robot name=\"" + escaped + "\">" + link("base") + link("tool") +
                           joint("j", "continuous", "base", "tool", kZ) + "</robot>");
  ASSERT_EQ(robot.name(), name);
  EXPECT_NE(codegen(robot).find("a\\042b\\134c\\012%s\\077\\077/"), std::string::npos);
}

}  // namespace
}  // namespace hjcdik
