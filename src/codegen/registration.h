// The last part of the header that codegen.cpp writes: the robot for the functions of hjcd_kernel.h, where
// the program has them. A program that does not use them need not link the library.
#if !defined(__CUDACC_RTC__) && !defined(HJCDIK_NO_NATIVE_ROBOT)

extern "C" __attribute__((weak)) void hjcdik_link_robot(const void*);

namespace detail {

// As in src/native/linked_robot.hpp of the library.
struct LinkedRobot {
  int format;
  const char* key;
  const char *robot, *base_link, *tool_link, *tool_frame;
  int joints;
  const char *const *joint_names, *const *joint_types;
  const double* chain;
  int links, base_links, pairs;
  const char* const* link_names;
  const int *link_joints, *link_ends;
  const double* spheres;
  const int* pair_links;
};

struct Registration {
  const char *joint_names[num_joints], *joint_types[num_joints], *link_names[num_links + 1];
  double chain[12 + 10 * num_joints + 2], spheres[4 * num_spheres + 1];
  int link_joints[num_links + 1], link_ends[num_links + 1], pair_links[2 * num_self_pairs + 1];
  LinkedRobot robot;

  Registration() {
    if (hjcdik_link_robot == nullptr) return;
    const auto& from = hjcdik::robot::chain_f64;
    double* to = chain;
    for (int k = 0; k < 12; k++) *to++ = from.start[k];
    for (int i = 0; i < num_joints; i++) {
      joint_names[i] = joint_name(i), joint_types[i] = joint_type(i);
      const auto& joint = from.joint[i];
      *to++ = joint.cos_alpha, *to++ = joint.sin_alpha;
      for (int k = 0; k < 3; k++) *to++ = joint.translation[k];
      *to++ = joint.offset, *to++ = joint.cos_offset, *to++ = joint.sin_offset;
      *to++ = joint.lower, *to++ = joint.upper;
    }
    *to++ = from.cos_end, *to++ = from.sin_end;
    const auto table = sphere_table(double());
    for (int l = 0; l < num_links; l++) {
      link_names[l] = link_name(l);
      link_joints[l] = table.group[l].joint, link_ends[l] = table.group[l].end;
    }
    for (int i = 0; i < num_spheres; i++) {
      spheres[4 * i] = table.x[i], spheres[4 * i + 1] = table.y[i], spheres[4 * i + 2] = table.z[i];
      spheres[4 * i + 3] = table.radius[i];
    }
    for (int k = 0; k < 2 * num_self_pairs; k++) pair_links[k] = table.pair[k / 2][k % 2];
    robot = {1,           key,         robot_name(), base_link(), tool_link(),    tool_frame(),   num_joints,
             joint_names, joint_types, chain,        num_links,   num_base_links, num_self_pairs, link_names,
             link_joints, link_ends,   spheres,      pair_links};
    hjcdik_link_robot(&robot);
  }
};

static const Registration registration;

}  // namespace detail

#endif
