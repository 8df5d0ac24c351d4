// A robot: an immutable serial chain from a base link to an end effector,
// read from a URDF or from a packaged preset.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hjcdik/error.hpp>

namespace hjcdik {

namespace model {
struct Chain;
}

// Position in metres and unit quaternion, scalar first: x y z qw qx qy qz.
using Pose = std::array<double, 7>;

enum class JointType { revolute, continuous, prismatic };

// "revolute", "continuous" or "prismatic".
const char* to_string(JointType type) noexcept;

struct JointInfo {
  std::string name;
  JointType type;
  // rad, or m for a prismatic joint. A continuous joint has [-pi, pi].
  double lower;
  double upper;
};

struct RobotOptions {
  // The end effector: the name of a link, or of a fixed joint (then its child link). "link:NAME" and
  // "joint:NAME" settle a name that is both.
  // Empty: a preset's own tool; an error for any other robot.
  std::string ee_link;
  // Joints held at a value (rad or m), by name. A moving joint off the chain that is
  // not named is held at 0, put into its limits; its place is reported by locked_joints().
  std::map<std::string, double> locked_joints;
  // Collision spheres: one of sphere_presets(), the path of a spherized URDF or of a JSON file, or the text
  // of either (it begins with "<" or "{"; then spheres_source stands for its name in messages). Empty: a
  // preset's own; none for any other robot. "none": none.
  std::string spheres, spheres_source;
  // Path or text of an SRDF whose disable_collisions entries remove self pairs.
  std::string srdf, srdf_source;
  // Checks spheres of the base link too: against links that do not move with the first joint alone, and
  // against held links.
  bool check_base = false;
};

// Cheap to copy: copies share one immutable chain. Safe to use from any thread.
class Robot {
 public:
  // Throw ModelError, which names file, line and element.
  static Robot from_urdf_file(const std::string& path, const RobotOptions& options);
  // `source` stands for the file's name in messages.
  static Robot from_urdf_text(std::string_view xml, const RobotOptions& options,
                              const std::string& source = "<string>");
  // One of presets(). Throws InvalidArgument for an unknown name.
  static Robot preset(std::string_view name, const RobotOptions& options = {});

  const std::string& name() const noexcept;
  const std::string& base_link() const noexcept;
  const std::string& ee_link() const noexcept;
  // The fixed joint that carries the tool link; empty where that joint moves.
  const std::string& ee_frame() const noexcept;
  int dof() const noexcept;
  // In the order of q, from base to tool.
  const std::vector<JointInfo>& joints() const noexcept;
  // Every moving joint of the file that is not part of q, with the value it is held at.
  const std::map<std::string, double>& locked_joints() const noexcept;
  // What was accepted but deserves a look, a sentence each.
  const std::vector<std::string>& warnings() const noexcept;
  // The links that have collision spheres, in the order that Check counts in; empty without.
  const std::vector<std::string>& collision_links() const noexcept;
  // Pairs of them that are checked against each other.
  const std::vector<std::array<int, 2>>& self_pairs() const noexcept;
  // The spheres at q in the base frame: x y z r each, and the collision link of each.
  std::vector<std::array<double, 4>> spheres(std::span<const double> q) const;
  const std::vector<int>& sphere_links() const noexcept;
  // The chain as C++ text with exact constants: what specialises GPU programs.
  const std::string& header_text() const noexcept;

  // Pose of the tool link in the base link's frame, in float64. q has dof() values.
  Pose forward_kinematics(std::span<const double> q) const;
  // Geometric Jacobian at the tool in the base frame, 6 x dof, row-major: linear rows
  // (m per unit of q) above angular rows (rad per unit of q).
  std::vector<double> jacobian(std::span<const double> q) const;

  // For the library's own parts.
  explicit Robot(std::shared_ptr<const model::Chain> chain) : chain_(std::move(chain)) {}
  const model::Chain& chain() const noexcept { return *chain_; }

 private:
  std::shared_ptr<const model::Chain> chain_;
};

// The robot as the text of one self-contained C++ header, which g++, clang, nvcc and NVRTC compile: joint
// count, limits, joint frames, tool pose, Jacobian, spheres, self pairs and config_free, in namespace
// `name_space` (an identifier). header_text() is part of it. docs/native.md lists what it declares. Throws
// InvalidArgument.
std::string codegen(const Robot& robot, const std::string& name_space = "hjcdik_robot");

struct PresetInfo {
  std::string name;
  std::string ee_link;      // the preset's own tool link
  std::string description;  // one line, with the source of the figures and their licence
};

// The packaged robots, in a fixed order.
const std::vector<PresetInfo>& presets();
// The URDF text of a preset. Throws InvalidArgument for an unknown name.
const std::string& preset_urdf(std::string_view name);

struct SpherePresetInfo {
  std::string name;
  std::string robot;        // the preset robot it is made for
  std::string description;  // one line, with the source of the figures and their licence
};

// The packaged sphere models, in a fixed order.
const std::vector<SpherePresetInfo>& sphere_presets();
// Its JSON text. Throws InvalidArgument for an unknown name.
const std::string& sphere_preset_text(std::string_view name);

}  // namespace hjcdik
