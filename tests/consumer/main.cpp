// Solves with the installed library and judges the answers by its own measure.
#include <cmath>
#include <cstdio>
#include <hjcdik/hjcdik.hpp>

int main() {
  const hjcdik::Solver solver(hjcdik::Robot::preset("panda"));
  const hjcdik::Robot& robot = solver.robot();
  const std::vector<hjcdik::Pose> targets = solver.sample_targets(50);
  hjcdik::SolveOptions options;
  options.collision = hjcdik::Collision::none;  // sampled targets may be reached in collision only
  const hjcdik::Result result =
      solver.solve({targets[0].data(), static_cast<std::int64_t>(targets.size())}, options);

  int solved = 0;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    if (result.count[t] < 1) continue;
    const std::span q(&result.q[t * result.dof], result.dof);
    const hjcdik::Pose reached = robot.forward_kinematics(q);
    double squared = 0, alignment = 0;
    for (int k = 0; k < 3; ++k) squared += std::pow(reached[k] - targets[t][k], 2);
    for (int k = 3; k < 7; ++k) alignment += reached[k] * targets[t][k];
    bool inside = true;
    for (int j = 0; j < robot.dof(); ++j) {
      inside = inside && robot.joints()[j].lower <= q[j] && q[j] <= robot.joints()[j].upper;
    }
    // 1 - |<a, b>| is an eighth of the squared angle, so float64 resolves about 3e-8 rad.
    solved += inside && std::sqrt(squared) < 1e-6 && 1 - std::abs(alignment) < 1.25e-13;
  }
  std::printf("%d of %zu targets solved\n", solved, targets.size());
  return solved == static_cast<int>(targets.size()) ? 0 : 1;
}
