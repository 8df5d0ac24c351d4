// hjcd_kernel.h against the public API that it stands on, with the packaged panda; what its documents say is
// tested by contract_program.cpp.
#include <hjcd_kernel.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "native/linked_robot.hpp"
#include "native/scene.hpp"
#include "native/stats_file.hpp"
#include "plain_world.hpp"
#include "store/store.hpp"

namespace hjcdik {
namespace {

using namespace test;
using native::robot_named;
using native::scene;

// What a call throws must be of this type and hold every part.
template <class Error, class Call>
void expect_error(Call&& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << part << " not in: " << error.what();
  }
}

std::string problem(const std::string& text) { return "{\"problems\": {\"a\": [" + text + "]}}"; }
std::string obstacles(const std::string& text) { return problem("{\"obstacles\": {" + text + "}}"); }

TEST(Scene, ObstaclesAreThoseOfTheProblem) {
  const std::string text =
      "{\"problems\": {\"a\": [{}, {\"valid\": true, \"obstacles\": {"
      "\"cuboid\": {\"table\": {\"dims\": [1, 2, 3], \"pose\": [4, 5, 6, 2, 0, 0, 0], \"colour\": 0}},"
      "\"cylinder\": [{\"radius\": 0.5, \"height\": 2, \"pose\": [1, 1, 1, 1, 0, 0, 0]}],"
      "\"sphere\": [{\"radius\": 0.25, \"position\": [7, 8, 9]}]}}], \"b\": []}}";
  EXPECT_TRUE(scene(text, "a", 0).empty());
  const World world = scene(text, "a", 1);
  EXPECT_EQ(world.boxes(), (std::vector<double>{4, 5, 6, 1, 0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(world.capsules(), (std::vector<double>{1, 1, 0, 1, 1, 2, 0.5}));  // conservative, as set_world's
  EXPECT_EQ(world.spheres(), (std::vector<double>{7, 8, 9, 0.25}));
  EXPECT_TRUE(world.cylinders().empty());
}

TEST(Scene, WhatIsWrongIsNamed) {
  const auto expect = [](const std::string& text, const std::vector<std::string>& parts,
                         const std::string& set = "a", int index = 0) {
    SCOPED_TRACE(text);
    expect_error<std::runtime_error>([&] { scene(text, set, index); }, parts);
  };
  expect("", {"problems_json_text"});
  expect("{\n{", {"problems_json_text:2", "malformed JSON"});
  expect("[]", {"\"problems\""});
  expect("{}", {"\"problems\""});
  expect("{\"problems\": []}", {"\"problems\""});
  expect("{\"problems\": {}}", {"'a'", "there are none"});
  expect("{\"problems\": {\"box\": [], \"cage\": []}}", {"'cag'", "'cage'"}, "cag");
  expect("{\"problems\": {\"a\": {}}}", {"'a' must be an array"});
  expect(problem("{}"), {"problem_idx is 1", "has 1 problems"}, "a", 1);
  expect(problem("7"), {"a problem must be an object"});
  expect(problem("{\"valid\": false}"), {"marked invalid"});
  expect(problem("{\"obstacles\": []}"), {"obstacles must be an object"});
  expect(obstacles("\"mesh\": {}"), {"'mesh'", "cuboid, cylinder and sphere"});
  expect(obstacles("\"cuboid\": 3"), {"cuboid must be an object or an array"});
  expect(obstacles("\"cuboid\": [3]"), {"cuboid[0] must be an object"});
  expect(obstacles("\"cuboid\": {\"b\": {\"dims\": [1, 1, 1]}}"), {"cuboid 'b': no 'pose'"});
  expect(obstacles("\"sphere\": [{\"position\": [1, 2], \"radius\": 1}]"),
         {"sphere[0]: position must be 3 numbers"});
  expect(obstacles("\"sphere\": [{\"position\": [1, 2, true], \"radius\": 1}]"),
         {"position must be 3 numbers"});
  expect(obstacles("\"sphere\": [{\"position\": [1, 2, 3], \"radius\": \"1\"}]"),
         {"radius must be a number"});
  expect(obstacles("\"sphere\": [{\"position\": [1, 2, 3], \"radius\": 1}, {\"position\": [1, 2, 3], "
                   "\"radius\": -1}]"),
         {"sphere[1]: ", "r is -1"});
  expect(obstacles("\"cylinder\": {\"c\": {\"radius\": 1, \"height\": 1, \"pose\": [0, 0, 0, 0, 0, 0, 0]}}"),
         {"cylinder 'c': ", "quaternion"});
}

TEST(StatsFile, HasOneHeadingAndSaysWhatFails) {
  const auto folder = std::filesystem::temp_directory_path() / "hjcdik_stats_file_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "ik_stats.csv").string();
  TargetStats stats;
  stats.batch_size = 5;
  stats.env_cost_mean_mm = 0.125;
  native::append_stats(path, stats);
  native::append_stats(path, stats);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string row = "5,-1,-1,-1,-1,-1,-1,-1,-1,-1,0.125,-1,-1,-1,-1,-1\n";
  EXPECT_EQ(text.str().substr(0, 12), "b_size,krep,");
  EXPECT_EQ(text.str().substr(text.str().find('\n') + 1), row + row);
  // Behind a row that was cut off a new line begins; what is another file's stays as it is.
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
  native::append_stats(path, stats);
  std::stringstream cut;
  cut << std::ifstream(path).rdbuf();
  EXPECT_EQ(cut.str(), text.str().substr(0, text.str().size() - 5) + "\n" + row);
  const std::string foreign = (folder / "foreign.csv").string();
  std::ofstream(foreign) << "foo,bar\n1,2\n";
  expect_error<std::runtime_error>([&] { native::append_stats(foreign, stats); },
                                   {foreign, "another heading"});
  EXPECT_EQ(std::filesystem::file_size(foreign), 12u);
  expect_error<std::runtime_error>([&] { native::append_stats(folder.string(), stats); },
                                   {"cannot open", "directory"});
  if (std::filesystem::exists("/dev/full"))
    expect_error<std::runtime_error>([&] { native::append_stats("/dev/full", stats); },
                                     {"cannot write /dev/full"});
  std::filesystem::remove_all(folder);
}

TEST(RobotNamed, IsAPresetOrAUrdf) {
  const std::string folder = HJCDIK_SOURCE_DIR "/robots/";
  EXPECT_EQ(robot_named("ur5e").header_text(), Robot::preset("ur5e").header_text());
  EXPECT_TRUE(robot_named(folder + "panda.urdf#panda_hand").collision_links().empty());
  EXPECT_EQ(robot_named(folder + "panda.urdf#panda_hand#panda_foam").sphere_links().size(), 58u);
  expect_error<std::runtime_error>([] { robot_named("pand"); },
                                   {"'pand'", "panda, iiwa14", "PATH.urdf#TOOL"});
  expect_error<std::runtime_error>([] { robot_named("#tool"); }, {"PATH.urdf#TOOL"});
  expect_error<std::runtime_error>([] { robot_named("/none.urdf#tool"); },
                                   {"HJCDIK_NATIVE_ROBOT", "/none.urdf"});
  expect_error<std::runtime_error>([&] { robot_named(folder + "panda.urdf#no"); },
                                   {"HJCDIK_NATIVE_ROBOT", "'no'"});
}

// The document as python/hjcdik/_builds.py writes it.
TEST(RobotNamed, IsAPreparedBuild) {
  const auto folder = std::filesystem::temp_directory_path() / ("hjcdik_native_" + std::to_string(getpid()));
  setenv("HJCDIK_CACHE_DIR", folder.c_str(), 1);
  const auto document = [](const std::string& schema, const std::string& spheres) {
    return "{\"schema\": " + schema +
           ", \"inputs\": {\"urdf\": {\"name\": \"arm.urdf\", \"text\": \"<robot name='arm'><link "
           "name='base'/>"
           "<link name='tip'/><joint name='j' type='revolute'><parent link='base'/><child link='tip'/>"
           "<axis xyz='0 0 1'/><limit lower='-1' upper='2'/></joint></robot>\"}, \"tool\": \"tip\", "
           "\"spheres\": " +
           spheres + ", \"srdf\": null, \"locked_joints\": {}, \"check_base\": false}}";
  };
  const std::string ball =
      "{\"name\": \"ball\", \"text\": \"{\\\"spheres\\\": {\\\"tip\\\": [[0, 0, 0, 0.1]]}}\"}";
  ASSERT_TRUE(store::publish_build(folder.string(), {"my arm", {}, document("1", ball)}));
  ASSERT_TRUE(store::publish_build(folder.string(), {"bare", {}, document("1", "null")}));
  ASSERT_TRUE(store::publish_build(folder.string(), {"newer", {}, document("2", "null")}));
  const Robot arm = robot_named("my arm");
  EXPECT_EQ(arm.name(), "arm");
  EXPECT_EQ(arm.ee_link(), "tip");
  EXPECT_EQ(arm.joints()[0].upper, 2);
  EXPECT_EQ(arm.collision_links(), std::vector<std::string>{"tip"});
  EXPECT_TRUE(robot_named("bare").collision_links().empty());
  expect_error<std::runtime_error>([] { robot_named("newer"); },
                                   {"'newer'", "another version", "hjcdik build"});
  std::filesystem::remove_all(folder);
  unsetenv("HJCDIK_CACHE_DIR");
}

TEST(Kernel, RowsAreTheSolversOwn) {
  const Solver solver(Robot::preset("panda"));
  for (const Pose& pose : solver.sample_targets(20, 3)) {
    Pose target = pose;
    for (const bool fp32 : {false, true}) {
      SolveOptions options = open();
      options.batch_size = 300;
      options.num_solutions = 3;
      options.precision = fp32 ? Precision::fp32 : Precision::fp64;
      const Result want = solver.solve(target, options);
      const auto got = fp32 ? generate_ik_solutions<double, float>(target.data(), 300, 3)
                            : generate_ik_solutions<double, double>(target.data(), 300, 3);
      ASSERT_EQ(got.count, want.count[0]);
      for (int i = 0; i < got.count * 7; i++) {
        EXPECT_EQ(got.joint_config[i], want.q[std::size_t(i)]);
        EXPECT_EQ(got.pose[i], want.pose[std::size_t(i)]);
      }
      for (int r = 0; r < got.count; r++) {
        EXPECT_EQ(got.pos_errors[r], 1e3 * want.pos_err_m[std::size_t(r)]);
        EXPECT_EQ(got.ori_errors[r], want.ori_err_rad[std::size_t(r)]);
      }
    }
  }
}

// Rounded rows are inside the limits and, by the plain judge, free; their errors are their own.
TEST(Kernel, RowsOfFloatsHoldByThemselves) {
  Random random(11);
  const Robot panda = Robot::preset("panda");
  int rows = 0;
  for (int repeat = 0; repeat < few(40); repeat++) {
    PlainWorld world = random_world(random, 6, 0.8);
    std::string text;
    for (const auto& s : world.spheres) {
      text += (text.empty() ? "" : ", ") + std::string("{\"position\": [") + model::to_text(s[0]) + ", " +
              model::to_text(s[1]) + ", " + model::to_text(s[2]) + "], \"radius\": " + model::to_text(s[3]) +
              "}";
    }
    world.boxes.clear(), world.capsules.clear(), world.cylinders.clear();
    const std::string json = obstacles("\"sphere\": [" + text + "]");
    std::array<float, 7> target = sample_random_target_poses<float>(nullptr, 1, std::uint64_t(repeat))[0];
    const auto result =
        generate_ik_solutions<float>(target.data(), nullptr, 200, 5, true, json.c_str(), "a", 0, false, 1);
    for (int r = 0; r < result.count; r++) {
      std::vector<double> q;
      for (int i = 0; i < 7; i++) {
        q.push_back(double(result.joint_config[7 * r + i]));
        EXPECT_GE(q.back(), panda.joints()[std::size_t(i)].lower);
        EXPECT_LE(q.back(), panda.joints()[std::size_t(i)].upper);
      }
      const PlainVerdict verdict = judge(panda, world, q);
      EXPECT_GE(verdict.self, -1e-12);
      EXPECT_GE(verdict.world, -1e-12);
      const Pose pose = panda.forward_kinematics(q);
      double square = 0;
      for (std::size_t k = 0; k < 3; k++) square += std::pow(pose[k] - double(target[k]), 2);
      EXPECT_NEAR(double(result.pos_errors[r]), 1e3 * std::sqrt(square),
                  1e-7 + 1e-6 * 1e3 * std::sqrt(square));
      rows++;
    }
  }
  EXPECT_GT(rows, few(40));
}

TEST(Kernel, ModeOfTheEnvironmentIsChecked) {
  std::array<double, 7> target = sample_random_target_poses<double>(nullptr, 1, 0)[0];
  const auto solve = [&] {
    return generate_ik_solutions<double>(target.data(), nullptr, 50, 1, true, problem("{}").c_str(), "a");
  };
  setenv("HJCD_CC_MODE", "medium", 1);
  expect_error<std::runtime_error>(solve, {"HJCD_CC_MODE", "'medium'", "soft, hard or both"});
  setenv("HJCD_CC_MODE", "soft", 1);
  expect_error<std::runtime_error>(solve, {"empty", "soft"});
  for (const char* mode : {"", "hard", "both", "1", "2"}) {
    setenv("HJCD_CC_MODE", mode, 1);
    EXPECT_NO_THROW(solve()) << mode;
  }
  unsetenv("HJCD_CC_MODE");
}

}  // namespace
}  // namespace hjcdik
