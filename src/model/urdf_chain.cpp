// From a URDF's tree to the chain between its root and a tool.
#include <algorithm>
#include <cmath>
#include <utility>

#include "model/names.hpp"
#include "model/spheres.hpp"
#include "model/urdf.hpp"

namespace hjcdik::model {

namespace {

// Beyond these, float32 lanes cannot tell configurations apart; such figures are slips.
constexpr double kLargestLimit = 1e3;   // rad or m
constexpr double kLargestOrigin = 1e4;  // m

std::string label_of(const UrdfJoint& joint) { return "joint " + in_quotes(joint.name); }

[[noreturn]] void fail(const Urdf& urdf, const UrdfJoint& joint, const std::string& reason) {
  throw ModelError(urdf.source, joint.line, label_of(joint), reason);
}

[[noreturn]] void fail_tool(const Urdf& urdf, const std::string& reason) {
  throw ModelError(urdf.source, 0, "ee_link", reason);
}

template <class Items>
int find(const Items& items, std::string_view name) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::vector<std::string> tool_names(const Urdf& urdf) {
  std::vector<std::string> names;
  for (const UrdfLink& link : urdf.links) names.push_back(link.name);
  for (const UrdfJoint& joint : urdf.joints) {
    if (joint.type == UrdfJointType::fixed) names.push_back(joint.name);
  }
  return names;
}

// The tool's link. "link:NAME" and "joint:NAME" choose a reading where NAME alone has two.
int find_tool(const Urdf& urdf, const std::string& name) {
  if (name.empty()) {
    std::vector<std::string> leaves;
    std::vector<char> is_parent(urdf.links.size(), 0);
    for (const UrdfJoint& joint : urdf.joints) is_parent[joint.parent] = 1;
    for (std::size_t i = 0; i < urdf.links.size(); ++i) {
      if (!is_parent[i]) leaves.push_back(urdf.links[i].name);
    }
    fail_tool(urdf,
              "not given; pass the name of the tool's link or of the fixed joint that carries it, such as " +
                  nearest_names("", leaves));
  }

  int link = find(urdf.links, name);
  int joint = find(urdf.joints, name);
  if (link < 0 && joint < 0) {
    if (name.starts_with("link:")) link = find(urdf.links, name.substr(5));
    if (name.starts_with("joint:")) joint = find(urdf.joints, name.substr(6));
  }
  if (link < 0 && joint < 0) {
    fail_tool(urdf, "no link or fixed joint is called " + in_quotes(name) + "; the nearest names are " +
                        nearest_names(name, tool_names(urdf)));
  }
  if (joint < 0) return link;

  const UrdfJoint& by = urdf.joints[joint];
  const std::string& child = urdf.links[by.child].name;
  if (link < 0 && by.type != UrdfJointType::fixed) {
    fail_tool(urdf, in_quotes(by.name) + " is a " + to_string(by.type) +
                        " joint, which is no tool frame; pass its child link " + in_quotes(child));
  }
  if (link >= 0 && link != by.child) {
    fail_tool(urdf, in_quotes(name) + " is both a link and a " + to_string(by.type) +
                        " joint with the child link " + in_quotes(child) + "; pass " +
                        in_quotes("link:" + name) + " for the link or " +
                        in_quotes(find(urdf.joints, child) < 0 ? child : "link:" + child) +
                        " for the joint's frame");
  }
  return by.child;
}

// Which joints are held, and where.
class Locks {
 public:
  Locks(const Urdf& urdf, const RobotOptions& options, const std::vector<int>& path, Chain& chain)
      : urdf_(urdf), asked_(options.locked_joints), chain_(chain), on_path_(urdf.joints.size(), 0) {
    for (const int j : path) on_path_[j] = 1;
    check_asked();
  }

  // The value joint j is held at; nothing if it moves with q. `asked` tells a value that follows
  // from locked_joints (or from a fixed joint) from a default.
  std::optional<double> held(int j, bool* asked = nullptr) const {
    const UrdfJoint& joint = urdf_.joints[j];
    bool ignored;
    bool& explicitly = asked ? *asked : ignored;
    explicitly = true;
    if (!joint.moves()) return 0.0;
    if (const auto found = asked_.find(joint.name); found != asked_.end()) return found->second;

    if (joint.mimic) {
      const std::optional<double> leader = held(joint.mimic->joint, &explicitly);
      if (leader && (explicitly || !on_path_[j])) {
        const double followed = joint.mimic->multiplier * *leader + joint.mimic->offset;
        if (!std::isfinite(followed)) fail(urdf_, joint, "its <mimic> gives a value that is not finite");
        return joint.type == UrdfJointType::continuous ? followed
                                                       : std::clamp(followed, joint.lower, joint.upper);
      }
      if (on_path_[j]) {
        fail(urdf_, joint,
             "mimics joint " + in_quotes(urdf_.joints[joint.mimic->joint].name) +
                 "; mimic joints between base and tool are not supported: lock either of the two by "
                 "locked_joints");
      }
    }
    explicitly = false;
    if (on_path_[j]) return std::nullopt;
    return std::clamp(0.0, joint.lower, joint.upper);
  }

  // Of every joint of the file.
  std::vector<std::optional<double>> all() const {
    std::vector<std::optional<double>> values;
    for (std::size_t j = 0; j < urdf_.joints.size(); ++j) values.push_back(held(static_cast<int>(j)));
    return values;
  }

  void report() const {
    for (std::size_t j = 0; j < urdf_.joints.size(); ++j) {
      const UrdfJoint& joint = urdf_.joints[j];
      const std::optional<double> value = held(static_cast<int>(j));
      if (!joint.moves() || !value) continue;
      chain_.locked_joints[joint.name] = *value;
      if (joint.mimic && !asked_.contains(joint.name) && !held(joint.mimic->joint)) {
        chain_.warnings.push_back("joint " + in_quotes(joint.name) + " mimics joint " +
                                  in_quotes(urdf_.joints[joint.mimic->joint].name) +
                                  ", which moves; off the chain it is held where locked_joints says");
      }
    }
  }

 private:
  void check_asked() const {
    for (const auto& [name, value] : asked_) {
      const int j = find(urdf_.joints, name);
      if (j < 0) {
        std::vector<std::string> names;
        for (const UrdfJoint& joint : urdf_.joints) {
          if (joint.moves()) names.push_back(joint.name);
        }
        throw ModelError(urdf_.source, 0, "locked_joints",
                         "no joint is called " + in_quotes(name) + "; the nearest names are " +
                             nearest_names(name, names));
      }
      const UrdfJoint& joint = urdf_.joints[j];
      if (!joint.moves()) {
        fail(urdf_, joint,
             "locked_joints names it, but it is a " + std::string(to_string(joint.type)) +
                 " joint; only revolute, continuous and prismatic joints can be locked");
      }
      if (!std::isfinite(value)) fail(urdf_, joint, "locked_joints gives a value that is not finite");
      if (joint.type != UrdfJointType::continuous && (value < joint.lower || value > joint.upper)) {
        fail(urdf_, joint,
             "locked_joints gives " + to_text(value) + ", outside its limits [" + to_text(joint.lower) +
                 ", " + to_text(joint.upper) + "]");
      }
    }
  }

  const Urdf& urdf_;
  const std::map<std::string, double>& asked_;
  Chain& chain_;
  std::vector<char> on_path_;
};

void check_on_chain(const Urdf& urdf, const UrdfJoint& joint) {
  if (joint.type == UrdfJointType::planar || joint.type == UrdfJointType::floating) {
    fail(urdf, joint,
         "a " + std::string(to_string(joint.type)) +
             " joint between base and tool is not supported; use fixed, revolute, continuous or "
             "prismatic joints");
  }
  for (const double x : joint.origin.position) {
    if (std::abs(x) > kLargestOrigin) {
      fail(
          urdf, joint,
          "<origin> xyz holds " + to_text(x) + "; lengths are in metres, at most " + to_text(kLargestOrigin));
    }
  }
}

JointInfo joint_info(const Urdf& urdf, const UrdfJoint& joint, Chain& chain) {
  if (joint.type == UrdfJointType::continuous) {
    if (joint.has_range) {
      chain.warnings.push_back(urdf.source + ":" + std::to_string(joint.line) + ": " + label_of(joint) +
                               " is continuous: its lower and upper limits are ignored");
    }
    return {joint.name, JointType::continuous, joint.lower, joint.upper};
  }
  if (!joint.has_range) {
    fail(urdf, joint, "its <limit> has neither lower nor upper, so the joint could not move");
  }
  for (const double limit : {joint.lower, joint.upper}) {
    if (std::abs(limit) > kLargestLimit) {
      fail(urdf, joint,
           "its limit " + to_text(limit) + " is beyond +-" + to_text(kLargestLimit) +
               (joint.type == UrdfJointType::revolute
                    ? " rad; declare the joint continuous if it turns without end"
                    : " m"));
    }
  }
  const bool prismatic = joint.type == UrdfJointType::prismatic;
  return {joint.name, prismatic ? JointType::prismatic : JointType::revolute, joint.lower, joint.upper};
}

// CAD exporters write limits of 0 for people to fill in; with these nothing can be reached.
void warn_of_zero_limits(const Urdf& urdf, Chain& chain) {
  std::string names;
  for (const auto& [info, origin, axis] : chain.joints) {
    if (info.lower != 0 || info.upper != 0) continue;
    names += (names.empty() ? "" : ", ") + in_quotes(info.name);
  }
  if (names.empty()) return;
  chain.warnings.push_back(urdf.source + ": both limits are 0, so nothing moves there: joint " + names +
                           "; write their <limit>, or hold them by locked_joints");
}

}  // namespace

int find_link(const Urdf& urdf, std::string_view name) { return find(urdf.links, name); }

int find_joint(const Urdf& urdf, std::string_view name) { return find(urdf.joints, name); }

Transform motion(const UrdfJoint& joint, double q) {
  return joint.type == UrdfJointType::prismatic ? translation_along(joint.axis, q)
                                                : rotation_about(joint.axis, q);
}

Chain make_chain(const Urdf& urdf, const RobotOptions& options) {
  const int tool = find_tool(urdf, options.ee_link);
  std::vector<int> path;  // joints from base to tool
  for (int link = tool; urdf.links[link].parent_joint >= 0;) {
    path.push_back(urdf.links[link].parent_joint);
    link = urdf.joints[path.back()].parent;
  }
  std::reverse(path.begin(), path.end());

  Chain chain;
  chain.robot = urdf.robot;
  chain.base_link = urdf.links[urdf.root].name;
  chain.ee_link = urdf.links[tool].name;
  if (path.empty()) {
    fail_tool(urdf, in_quotes(chain.ee_link) +
                        " is the base link, which no joint moves; name a link at the arm's end");
  }
  if (const UrdfJoint& last = urdf.joints[path.back()]; last.type == UrdfJointType::fixed) {
    chain.ee_frame = last.name;
  }

  const Locks locks(urdf, options, path, chain);
  Transform since_last;  // from the last moving joint's frame to here
  bool any_moving = false;
  for (const int j : path) {
    const UrdfJoint& joint = urdf.joints[j];
    check_on_chain(urdf, joint);
    since_last = since_last * joint.origin;
    if (!joint.moves()) continue;
    any_moving = true;
    if (const std::optional<double> value = locks.held(j)) {
      since_last = since_last * motion(joint, *value);
      continue;
    }
    Joint moving{joint_info(urdf, joint, chain), since_last, {}};
    std::copy_n(joint.axis, 3, moving.axis);
    chain.joints.push_back(std::move(moving));
    since_last = Transform{};
  }
  chain.tool = since_last;

  if (chain.joints.empty()) {
    fail_tool(urdf, any_moving ? "all joints between " + in_quotes(chain.base_link) + " and " +
                                     in_quotes(chain.ee_link) + " are locked; leave one free"
                               : "no joint between " + in_quotes(chain.base_link) + " and " +
                                     in_quotes(chain.ee_link) + " moves; name a link at the arm's end");
  }
  if (chain.joints.size() > core::kMaxDof) {
    fail_tool(urdf, std::to_string(chain.joints.size()) + " joints move between " +
                        in_quotes(chain.base_link) + " and " + in_quotes(chain.ee_link) +
                        "; at most 32 are supported: lock some by locked_joints");
  }
  locks.report();
  warn_of_zero_limits(urdf, chain);
  for (const Joint& joint : chain.joints) chain.joint_infos.push_back(joint.info);
  set_spheres(chain, urdf, locks.all(), options);
  return chain;
}

}  // namespace hjcdik::model
