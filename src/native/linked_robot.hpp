// The robot of the program behind hjcd_kernel.h.
#pragma once

#include <hjcdik/robot.hpp>

namespace hjcdik::native {

// What a generated header (src/codegen/registration.h) hands over. Format 1; it may grow at its end, and what
// an older header lacks is told by `format`.
struct LinkedRobot {
  int format;
  const char* key;  // differs where anything of the robot does
  const char *robot, *base_link, *tool_link, *tool_frame;
  int joints;
  const char *const *joint_names, *const *joint_types;
  // Of ChainConstants<double>: start; of each joint cos_alpha .. upper; cos_end, sin_end.
  const double* chain;
  int links, base_links, pairs;  // the base's links come last
  const char* const* link_names;
  const int *link_joints, *link_ends;  // the joint that carries a link's spheres, and where these end
  const double* spheres;               // x y z r, in the frames of the chain's constants
  const int* pair_links;
};

// The chain is that of the header to the last bit. Throws std::runtime_error.
Robot robot_of(const LinkedRobot& linked);

// A preset's name, that of a prepared build in the store, or the path of a URDF with its tool, and collision
// spheres if any: "arm.urdf#tool0" or "arm.urdf#tool0#spheres.json". Throws std::runtime_error, which says
// what is expected.
Robot robot_named(const std::string& name);

// The program's: of its header, else of HJCDIK_NATIVE_ROBOT, else the packaged panda. Always the same once it
// could be loaded. Throws std::runtime_error.
const Robot& program_robot();

}  // namespace hjcdik::native

// For generated headers.
extern "C" __attribute__((visibility("default"))) void hjcdik_link_robot(const void* linked);
