// A URDF as a checked tree of links and joints, and the chain from its root to a tool.
// Kinematics is read, and spheres where asked for: meshes, inertias, transmissions and unknown elements are
// never looked at.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/chain.hpp"

namespace hjcdik::model {

enum class UrdfJointType { fixed, revolute, continuous, prismatic, planar, floating };

const char* to_string(UrdfJointType type) noexcept;

// value = multiplier * value of `joint` + offset
struct UrdfMimic {
  int joint;
  double multiplier, offset;
};

struct UrdfJoint {
  std::string name;
  UrdfJointType type;
  int parent, child;  // indices of links
  Transform origin;
  double axis[3];       // unit length, for a moving joint
  double lower, upper;  // rad or m; [-pi, pi] for a continuous joint
  bool has_range;       // <limit> has a lower or an upper
  std::optional<UrdfMimic> mimic;
  int line;

  bool moves() const {
    return type == UrdfJointType::revolute || type == UrdfJointType::continuous ||
           type == UrdfJointType::prismatic;
  }
};

struct UrdfLink {
  std::string name;
  int parent_joint = -1;  // the joint that carries it; -1 for the root
  int line = 0;
  std::vector<std::array<double, 4>> spheres;  // x y z r; only where they were asked for
};

struct Urdf {
  std::string source;  // the file's name in messages
  std::string robot;
  std::vector<UrdfLink> links;
  std::vector<UrdfJoint> joints;
  int root = 0;
};

// -1 where there is none.
int find_link(const Urdf& urdf, std::string_view name);
int find_joint(const Urdf& urdf, std::string_view name);

// All throw ModelError.
Urdf parse_urdf(std::string_view text, const std::string& source);
// With the links' collision geometry, which must be spheres.
Urdf parse_spherized_urdf(std::string_view text, const std::string& source);
// A joint's motion by q about or along its axis, in its own frame.
Transform motion(const UrdfJoint& joint, double q);
// Everything but what finish() fills in.
Chain make_chain(const Urdf& urdf, const RobotOptions& options);

}  // namespace hjcdik::model
