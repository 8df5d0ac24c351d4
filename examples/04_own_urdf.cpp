// A robot of one's own: any serial chain of a URDF, with a joint held still if wanted.
#include <algorithm>
#include <cstdio>
#include <hjcdik/hjcdik.hpp>

int main(int argc, char** argv) {
  const std::string urdf = argc > 1 ? argv[1] : "examples/arm.urdf";
  for (const bool locked : {false, true}) {
    hjcdik::RobotOptions options;
    options.ee_link = "gripper";  // a link or a fixed joint; the chain from the root to it is the robot
    if (locked) options.locked_joints["slide"] = 0.25;
    const hjcdik::Solver solver(hjcdik::Robot::from_urdf_file(urdf, options));

    const std::vector<hjcdik::Pose> targets = solver.sample_targets(200);
    const hjcdik::Result result = solver.solve({targets[0].data(), static_cast<std::int64_t>(targets.size())},
                                               {.collision = hjcdik::Collision::none});
    const auto solved = std::ranges::count(result.outcome, hjcdik::Outcome::solved);
    std::printf("%d joints: %d of %zu targets solved\n", result.dof, static_cast<int>(solved),
                targets.size());
    if (solved != static_cast<std::ptrdiff_t>(targets.size())) return 1;
  }

  try {
    hjcdik::Robot::from_urdf_file(urdf, {.ee_link = "griper"});
  } catch (const hjcdik::ModelError& error) {
    std::printf("a mistake is explained: %s\n", error.what());
  }
}
