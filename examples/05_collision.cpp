// Solve among obstacles: answers touch neither them nor the robot itself.
#include <algorithm>
#include <cstdio>
#include <hjcdik/hjcdik.hpp>

int main() {
  hjcdik::Solver solver(hjcdik::Robot::preset("panda"));  // comes with collision spheres
  // Boxes: centre, quaternion qw qx qy qz, side lengths. Capsules: both ends of the axis, radius. In metres.
  const std::vector<double> boxes = {0.5,  0.0, -0.03, 1, 0, 0, 0, 1.0, 1.4, 0.05,   // table
                                     0.55, 0.0, 0.55,  1, 0, 0, 0, 0.4, 1.0, 0.02};  // shelf
  const std::vector<double> post = {0.5, -0.25, 0.0, 0.5, -0.25, 0.5, 0.04};
  const hjcdik::Pose target = {0.5, 0.0, 0.15, 0, 1, 0, 0};  // between table and shelf, tool pointing down

  hjcdik::WorldView view;
  view.boxes = boxes;
  view.capsules = post;
  const hjcdik::World world(view);
  solver.set_world(world);
  const hjcdik::Result answer = solver.solve(target, {.collision = hjcdik::Collision::hard});
  if (answer.outcome[0] != hjcdik::Outcome::solved) {
    std::printf("no solution: %s\n", hjcdik::to_string(answer.outcome[0]));
    return 1;
  }

  // The verdict on any configuration, and what it comes closest to.
  const hjcdik::Check verdict = solver.check({answer.q.data(), answer.q.size()}).front();
  std::printf("%.1f mm from %s to %s %d\n",
              1e3 * std::min(verdict.self_clearance_m, verdict.world_clearance_m),
              solver.robot().collision_links()[verdict.link].c_str(), hjcdik::to_string(verdict.other),
              verdict.other_index);

  // Several worlds: every target says which one it is in; -1 is an empty one.
  hjcdik::WorldView table;
  table.boxes = std::span(boxes).first(10);
  solver.set_worlds({hjcdik::World(table), world});
  std::vector<double> targets;
  std::vector<std::int32_t> world_index;
  for (int t = 0; t < 300; ++t) {
    targets.insert(targets.end(), target.begin(), target.end());
    targets[7 * t + 1] = -0.1 + 0.001 * t;
    world_index.push_back(t % 3 - 1);
  }
  hjcdik::SolveOptions options;
  options.collision = hjcdik::Collision::hard;
  options.world_index = world_index.data();
  const hjcdik::Result result = solver.solve({targets.data(), 300}, options);
  const auto solved = std::ranges::count(result.outcome, hjcdik::Outcome::solved);
  std::printf("%d of 300 targets solved in three worlds\n", static_cast<int>(solved));
  return verdict.free && solved == 300 ? 0 : 1;
}
