// One target: solve, check, use.
#include <cstdio>
#include <hjcdik/hjcdik.hpp>

int main() {
  const hjcdik::Solver solver(hjcdik::Robot::preset("panda"));
  // x y z in metres, then the quaternion qw qx qy qz: half a metre ahead, tool pointing down.
  const hjcdik::Pose target = {0.5, 0.1, 0.4, 0, 1, 0, 0};

  const hjcdik::Result result = solver.solve(target, {.collision = hjcdik::Collision::none});
  if (result.outcome[0] != hjcdik::Outcome::solved) {
    std::printf("no solution: %s\n", hjcdik::to_string(result.outcome[0]));
    return 1;
  }
  for (int j = 0; j < result.dof; ++j) {
    std::printf("%-14s %9.6f\n", solver.robot().joints()[j].name.c_str(), result.q[j]);
  }
  std::printf("misses the target by %.1e m and %.1e rad\n", result.pos_err_m[0], result.ori_err_rad[0]);
}
