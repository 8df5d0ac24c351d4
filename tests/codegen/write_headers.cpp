// Writes the headers of several robots into the folder argv[1], and expected.h: what they must give, by plain
// matrices and distances that share no code with the numerics. header_check.cpp compares.
#include <cstdio>
#include <fstream>

#include "codegen/header_robots.hpp"
#include "plain_world.hpp"

namespace {

using namespace hjcdik;
using namespace hjcdik::test;

template <class Values>
std::string list(const Values& values) {
  std::string text = "{";
  for (const double value : values) {
    char number[40];
    std::snprintf(number, sizeof number, "%a, ", value);
    text += std::isfinite(value) ? number : "1e15, ";
  }
  return text + "}";
}

template <class Rows>
std::string rows(const std::string& name, const Rows& all) {
  std::string text = "const double " + name + "[][10] = {";
  for (const auto& row : all) text += list(row) + ", ";
  return text + "{}};\nconst int num_" + name + " = " + std::to_string(all.size()) + ";\n";
}

std::vector<double> frames_at(const Robot& robot, const std::vector<double>& q) {
  std::vector<double> frames;
  model::Transform pose;
  for (std::size_t i = 0; i < q.size(); i++) {
    const model::Joint& joint = robot.chain().joints[i];
    pose = pose * joint.origin * model::motion(joint, q[i]);
    for (int k = 0; k < 3; k++) {
      frames.insert(frames.end(), pose.rotation + 3 * k, pose.rotation + 3 * k + 3);
      frames.push_back(pose.position[k]);
    }
  }
  return frames;
}

std::string cases_of(const Robot& robot, const PlainWorld& world, Random& random) {
  constexpr double kMargin = 0.02;
  std::vector<std::string> base;
  for (const auto& link : robot.chain().spheres.links)
    if (link.is_base) base.push_back(link.name);
  std::string text = "const Case cases[] = {\n";
  for (int k = 0; k < 25; k++) {
    const std::vector<double> q = random_configuration(robot, random.engine);
    const PlainVerdict verdict = judge(robot, world, q, base);
    const bool free = verdict.self >= 0 && verdict.world >= 0;
    text += "{" + list(q) + ", " + list(frames_at(robot, q)) + ", " + list(robot.forward_kinematics(q)) +
            ", " + list(robot.jacobian(q)) + ", " + list(std::array{verdict.self, verdict.world}) + ", " +
            (free ? "true, " : "false, ") + (verdict.world >= kMargin ? "true" : "false") + "},\n";
  }
  return text + "};\n";
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::string folder = arguments[1];
  Random random(20261201);
  const auto robots = header_robots();
  std::string expected =
      "// Written by write_headers.cpp.\n"
      "struct Case {\n  double q[32], frames[32 * 12], pose[7], jacobian[6 * 32], clearance[2];\n"
      "  bool free, clear_of_world;  // the second with a margin of 0.02 m, self pairs not counting\n};\n\n";
  // nvcc takes minutes for all of them, whose constants together are more than a GPU program may have.
  const std::vector<std::string> few = {"panda", "ur5e", "fetch", "panda_with_base", "open9", "spheres9"};
  std::string includes[2], all[2];
  for (const auto& [name, robot] : robots) {
    PlainWorld world = random_world(random, 12, 0.9, -1.2, -0.3);
    world.exact_cylinders = true;
    std::ofstream(folder + "/" + name + ".cuh") << codegen(robot, name);
    expected += "namespace expected_" + name + " {\n" + rows("boxes", world.boxes) +
                rows("capsules", world.capsules) + rows("cylinders", world.cylinders) +
                rows("spheres", world.spheres) + cases_of(robot, world, random) + "}\n\n";
    for (const int k : {0, 1}) {
      if (k == 1 && std::find(few.begin(), few.end(), name) == few.end()) continue;
      includes[k] += "#include \"" + name + ".cuh\"\n";
      all[k] += std::string(robot.collision_links().empty() ? "OPEN(" : "SPHERES(") + name + ") ";
    }
  }
  std::ofstream file(folder + "/expected.h");
  file << expected << "#ifdef FEW_ROBOTS\n"
       << includes[1] << "#define ROBOTS " << all[1] << "\n#else\n"
       << includes[0] << "#define ROBOTS " << all[0] << "\n#endif\n";
  return file.good() ? 0 : 1;
}
