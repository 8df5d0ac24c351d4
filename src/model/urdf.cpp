#include "model/urdf.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <unordered_map>

#include "model/names.hpp"
#include "model/xml.hpp"

namespace hjcdik::model {

namespace {

constexpr int kLongestMimic = 100;
constexpr std::size_t kMostListed = 20;

// R = Rz(yaw) Ry(pitch) Rx(roll), the URDF's fixed-axis angles.
void set_rotation(Transform& transform, const std::array<double, 3>& rpy) {
  const double cr = std::cos(rpy[0]), sr = std::sin(rpy[0]);
  const double cp = std::cos(rpy[1]), sp = std::sin(rpy[1]);
  const double cy = std::cos(rpy[2]), sy = std::sin(rpy[2]);
  const double rotation[9] = {cy * cp,
                              cy * sp * sr - sy * cr,
                              cy * sp * cr + sy * sr,  //
                              sy * cp,
                              sy * sp * sr + cy * cr,
                              sy * sp * cr - cy * sr,  //
                              -sp,
                              cp * sr,
                              cp * cr};
  std::copy_n(rotation, 9, transform.rotation);
}

// A half-read file.
class Parser : XmlReader {
 public:
  Parser(std::string_view text, const std::string& source, bool with_spheres)
      : XmlReader(text, source, "a URDF"), with_spheres_(with_spheres) {}

  Urdf parse();

 private:
  void read_link(Node node);
  std::vector<std::array<double, 4>> read_spheres(Node link, const std::string& label) const;
  void read_joint(Node node);
  UrdfJointType read_type(Node node, const std::string& label) const;
  int read_end(Node joint, const char* name, const std::string& label) const;
  Transform read_origin(Node joint, const std::string& label) const;
  void read_axis(Node node, const std::string& label, UrdfJoint& joint) const;
  void read_limits(Node node, const std::string& label, UrdfJoint& joint) const;
  void read_mimics(const std::vector<Node>& nodes);
  void connect();

  bool with_spheres_;
  std::unordered_map<std::string, int> link_index_, joint_index_;
  Urdf urdf_;
};

Urdf Parser::parse() {
  const Node robot = root();
  urdf_.source = source();
  urdf_.robot = std::string(attribute(robot, "name", "").value_or("robot"));

  std::vector<Node> joint_nodes;
  for (const Node node : robot.children()) {
    const std::string_view name = node.name();
    if (name == "link") read_link(node);
    if (name == "joint") joint_nodes.push_back(node);
    if (name.starts_with("xacro:")) {
      fail(node, "", "<" + std::string(name) + ">: xacro not expanded; run xacro on the file first");
    }
  }
  if (urdf_.links.empty()) fail(robot, "", "<robot> has no <link>");
  for (const Node node : joint_nodes) read_joint(node);
  read_mimics(joint_nodes);
  connect();
  return std::move(urdf_);
}

void Parser::read_link(Node node) {
  const std::string name = required(node, "name", "link");
  const int index = static_cast<int>(urdf_.links.size());
  if (const auto [entry, fresh] = link_index_.try_emplace(name, index); !fresh) {
    fail(node, label_of("link", name),
         "a second link of this name; the first is in line " +
             std::to_string(urdf_.links[entry->second].line));
  }
  UrdfLink link{name, -1, line_of(node), {}};
  if (with_spheres_) link.spheres = read_spheres(node, label_of("link", name));
  urdf_.links.push_back(std::move(link));
}

std::vector<std::array<double, 4>> Parser::read_spheres(Node link, const std::string& label) const {
  std::vector<std::array<double, 4>> spheres;
  for (const Node collision : link.children("collision")) {
    const Node geometry = only_child(collision, "geometry", label);
    const Node sphere = only_child(geometry, "sphere", label);
    for (const Node shape : geometry.children()) {
      if (shape.type() != pugi::node_element || shape == sphere) continue;
      fail(shape, label, "<collision> holds a <" + std::string(shape.name()) + ">; only spheres are read");
    }
    if (!sphere) fail(collision, label, "<collision> holds no <sphere>");
    required(sphere, "radius", label);
    const double radius = number(sphere, "radius", label, 0);
    if (radius <= 0)
      fail(sphere, label, "<sphere> attribute radius is " + to_text(radius) + "; it must be above 0");
    const Transform origin = read_origin(collision, label);
    spheres.push_back({origin.position[0], origin.position[1], origin.position[2], radius});
  }
  return spheres;
}

void Parser::read_joint(Node node) {
  UrdfJoint joint{};
  joint.name = required(node, "name", "joint");
  joint.line = line_of(node);
  const std::string label = label_of("joint", joint.name);
  const int index = static_cast<int>(urdf_.joints.size());
  if (const auto [entry, fresh] = joint_index_.try_emplace(joint.name, index); !fresh) {
    fail(node, label,
         "a second joint of this name; the first is in line " +
             std::to_string(urdf_.joints[entry->second].line));
  }
  joint.type = read_type(node, label);
  joint.parent = read_end(node, "parent", label);
  joint.child = read_end(node, "child", label);
  joint.origin = read_origin(node, label);
  if (joint.moves()) {
    read_axis(node, label, joint);
    read_limits(node, label, joint);
  }
  urdf_.joints.push_back(joint);
}

UrdfJointType Parser::read_type(Node node, const std::string& label) const {
  const std::string name = required(node, "type", label);
  for (const auto type : {UrdfJointType::fixed, UrdfJointType::revolute, UrdfJointType::continuous,
                          UrdfJointType::prismatic, UrdfJointType::planar, UrdfJointType::floating}) {
    if (name == to_string(type)) return type;
  }
  fail(node, label,
       "unknown type " + in_quotes(name) +
           "; known are fixed, revolute, continuous, prismatic, planar and floating");
}

int Parser::read_end(Node joint, const char* name, const std::string& label) const {
  const Node node = only_child(joint, name, label);
  if (!node) fail(joint, label, "has no <" + std::string(name) + ">");
  const std::string link = required(node, "link", label);
  const auto found = link_index_.find(link);
  if (found == link_index_.end()) {
    std::vector<std::string> names;
    for (const UrdfLink& other : urdf_.links) names.push_back(other.name);
    fail(node, label,
         "<" + std::string(name) + "> names the link " + in_quotes(link) +
             ", which does not exist; the nearest names are " + nearest_names(link, names));
  }
  return found->second;
}

Transform Parser::read_origin(Node joint, const std::string& label) const {
  Transform origin;
  const Node node = only_child(joint, "origin", label);
  if (!node) return origin;
  if (node.attribute("quat_xyzw"))
    fail(node, label, "<origin> attribute quat_xyzw is not supported; use rpy");
  const auto xyz = triplet(node, "xyz", label, {0, 0, 0});
  std::copy(xyz.begin(), xyz.end(), origin.position);
  set_rotation(origin, triplet(node, "rpy", label, {0, 0, 0}));
  return origin;
}

void Parser::read_axis(Node node, const std::string& label, UrdfJoint& joint) const {
  const Node axis = only_child(node, "axis", label);
  const auto xyz = triplet(axis, "xyz", label, {1, 0, 0});
  // Scaled first, so that neither tiny nor huge components spoil the norm.
  const double largest = std::max({std::abs(xyz[0]), std::abs(xyz[1]), std::abs(xyz[2])});
  if (largest == 0) fail(axis, label, "<axis> is zero; a moving joint needs a direction");
  const double x = xyz[0] / largest, y = xyz[1] / largest, z = xyz[2] / largest;
  const double norm = std::sqrt(x * x + y * y + z * z);
  joint.axis[0] = x / norm;
  joint.axis[1] = y / norm;
  joint.axis[2] = z / norm;
}

void Parser::read_limits(Node node, const std::string& label, UrdfJoint& joint) const {
  const Node limit = only_child(node, "limit", label);
  joint.has_range = limit.attribute("lower") || limit.attribute("upper");
  if (joint.type == UrdfJointType::continuous) {
    joint.lower = -std::numbers::pi;
    joint.upper = std::numbers::pi;
    return;
  }
  if (!limit) {
    fail(node, label,
         "a " + std::string(to_string(joint.type)) + " joint needs <limit lower=... upper=...>" +
             (joint.type == UrdfJointType::revolute ? "; without limits it is continuous" : ""));
  }
  joint.lower = number(limit, "lower", label, 0);
  joint.upper = number(limit, "upper", label, 0);
  if (joint.lower > joint.upper) {
    fail(limit, label,
         "<limit> lower=" + in_quotes(limit.attribute("lower").as_string("0")) +
             " is above upper=" + in_quotes(limit.attribute("upper").as_string("0")));
  }
}

void Parser::read_mimics(const std::vector<Node>& nodes) {
  for (std::size_t j = 0; j < nodes.size(); ++j) {
    UrdfJoint& joint = urdf_.joints[j];
    const std::string label = label_of("joint", joint.name);
    const Node node = only_child(nodes[j], "mimic", label);
    if (!node || !joint.moves()) continue;
    const std::string leader = required(node, "joint", label);
    const auto found = joint_index_.find(leader);
    if (found == joint_index_.end()) {
      std::vector<std::string> names;
      for (const UrdfJoint& other : urdf_.joints) names.push_back(other.name);
      fail(node, label,
           "<mimic> names the joint " + in_quotes(leader) + ", which does not exist; the nearest names are " +
               nearest_names(leader, names));
    }
    joint.mimic =
        UrdfMimic{found->second, number(node, "multiplier", label, 1), number(node, "offset", label, 0)};
  }
  // Followers of followers end somewhere, or they form a ring.
  for (const UrdfJoint& joint : urdf_.joints) {
    int steps = 0;
    for (const UrdfJoint* at = &joint; at->mimic; at = &urdf_.joints[at->mimic->joint]) {
      if (++steps > kLongestMimic) {
        fail(joint.line, label_of("joint", joint.name),
             "its <mimic> leads back to itself, or through more than 100 joints");
      }
    }
  }
}

// One tree: every link but the root is carried by one joint.
void Parser::connect() {
  std::vector<UrdfLink>& links = urdf_.links;
  for (std::size_t j = 0; j < urdf_.joints.size(); ++j) {
    const UrdfJoint& joint = urdf_.joints[j];
    UrdfLink& child = links[joint.child];
    if (child.parent_joint >= 0) {
      const UrdfJoint& other = urdf_.joints[child.parent_joint];
      fail(joint.line, label_of("link", child.name),
           "has two parents: the child of joint " + in_quotes(other.name) + " (line " +
               std::to_string(other.line) + ") and of joint " + in_quotes(joint.name));
    }
    child.parent_joint = static_cast<int>(j);
  }

  std::vector<int> roots;
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (links[i].parent_joint < 0) roots.push_back(static_cast<int>(i));
  }
  if (roots.size() > 1) {
    std::string names;
    for (std::size_t i = 0; i < std::min(roots.size(), kMostListed); ++i) {
      names += (i == 0 ? "" : ", ") + in_quotes(links[roots[i]].name);
    }
    if (roots.size() > kMostListed) names += " and " + std::to_string(roots.size() - kMostListed) + " more";
    fail(links[roots[1]].line, "", "more than one root link: " + names + "; join them by fixed joints");
  }

  // With one parent at most for each link, what does not hang on the root hangs on a ring.
  std::vector<char> state(links.size(), 0);  // 1: on the present walk, 2: hangs on the root
  for (std::size_t i = 0; i < links.size(); ++i) {
    std::vector<int> walk;
    for (int at = static_cast<int>(i); state[at] != 2;) {
      if (state[at] == 1) {
        fail(links[at].line, label_of("link", links[at].name),
             "is its own ancestor: the joints form a cycle");
      }
      state[at] = 1;
      walk.push_back(at);
      if (links[at].parent_joint < 0) break;
      at = urdf_.joints[links[at].parent_joint].parent;
    }
    for (const int at : walk) state[at] = 2;
  }
  urdf_.root = roots[0];
}

}  // namespace

const char* to_string(UrdfJointType type) noexcept {
  switch (type) {
    case UrdfJointType::fixed: return "fixed";
    case UrdfJointType::revolute: return "revolute";
    case UrdfJointType::continuous: return "continuous";
    case UrdfJointType::prismatic: return "prismatic";
    case UrdfJointType::planar: return "planar";
    case UrdfJointType::floating: return "floating";
  }
  return "unknown";
}

Urdf parse_urdf(std::string_view text, const std::string& source) {
  return Parser(text, source, false).parse();
}

Urdf parse_spherized_urdf(std::string_view text, const std::string& source) {
  return Parser(text, source, true).parse();
}

}  // namespace hjcdik::model
