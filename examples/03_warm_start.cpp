// Follow a path: start each solve from the last answer, so that the arm does not flip.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <hjcdik/hjcdik.hpp>

int main() {
  const hjcdik::Solver solver(hjcdik::Robot::preset("panda"));
  std::vector<double> q = {0, -0.4, 0, -2.2, 0, 1.8, 0.785};  // where the arm is
  hjcdik::Pose target = solver.robot().forward_kinematics(q);

  double largest_step = 0;
  for (int i = 0; i < 50; ++i) {  // straight up, 2 mm at a time
    hjcdik::SolveOptions options;
    options.q_init = q.data();
    options.q_init_rows = 1;
    options.collision = hjcdik::Collision::none;
    const hjcdik::Result result = solver.solve(target, options);
    if (result.outcome[0] != hjcdik::Outcome::solved) {
      std::printf("no solution at z = %.3f m: %s\n", target[2], hjcdik::to_string(result.outcome[0]));
      return 1;
    }
    for (int j = 0; j < result.dof; ++j) {  // row 0 is the nearest to q_init
      largest_step = std::max(largest_step, std::abs(result.q[j] - q[j]));
      q[j] = result.q[j];
    }
    target[2] += 0.002;
  }
  std::printf("50 targets, no joint moved more than %.4f rad from one to the next\n", largest_step);
  return largest_step < 0.1 ? 0 : 1;
}
