#include <cstdio>

#include "robot.cuh"

int main() {
  const double q[hjcdik_robot::num_joints] = {0.1, -1.2, 1.3, -0.4, 0.5, 0.6};
  double pose[7];
  hjcdik_robot::tool_pose(q, pose);
  std::printf("%s at %g %g %g\n", hjcdik_robot::tool_link(), pose[0], pose[1], pose[2]);
  return hjcdik_robot::config_free(q) ? 0 : 1;
}
