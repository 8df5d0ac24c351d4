#include "model/urdf.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <system_error>
#include <unordered_map>

#include <pugixml.hpp>

#include "model/names.hpp"
#include "model/read_file.hpp"

namespace hjcdik::model {

namespace {

constexpr std::uintmax_t kLargestFile = 64u << 20;
constexpr int kLongestMimic = 100;
constexpr std::size_t kMostListed = 20;
constexpr std::string_view kBlanks = " \t\r\n";

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

// Half-read documents and what goes wrong in them. `label` names the element in messages,
// such as "joint 'elbow'".
class Parser {
 public:
  Parser(std::string_view text, const std::string& source) : text_(text), source_(source) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') line_ends_.push_back(i);
    }
  }

  Urdf parse();

 private:
  using Node = pugi::xml_node;

  int line_at(std::ptrdiff_t offset) const {
    const auto position = static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0));
    return 1 + static_cast<int>(std::lower_bound(line_ends_.begin(), line_ends_.end(), position) -
                                line_ends_.begin());
  }
  int line_of(Node node) const { return line_at(node.offset_debug()); }

  [[noreturn]] void fail(Node node, const std::string& label, const std::string& reason) const {
    throw ModelError(source_, line_of(node), label, reason);
  }
  [[noreturn]] void fail(int line, const std::string& label, const std::string& reason) const {
    throw ModelError(source_, line, label, reason);
  }

  void check_encoding() const;
  Node read_document(pugi::xml_document& document) const;
  Node only_child(Node parent, const char* name, const std::string& label) const;
  std::optional<std::string_view> attribute(Node node, const char* name, const std::string& label) const;
  std::string required(Node node, const char* name, const std::string& label) const;
  std::vector<double> numbers(Node node, const char* name, std::string_view value, const std::string& label,
                              std::size_t count) const;
  double number(Node node, const char* name, const std::string& label, double fallback) const;
  std::array<double, 3> triplet(Node node, const char* name, const std::string& label,
                                const std::array<double, 3>& fallback) const;

  void read_link(Node node);
  void read_joint(Node node);
  UrdfJointType read_type(Node node, const std::string& label) const;
  int read_end(Node joint, const char* name, const std::string& label) const;
  Transform read_origin(Node joint, const std::string& label) const;
  void read_axis(Node node, const std::string& label, UrdfJoint& joint) const;
  void read_limits(Node node, const std::string& label, UrdfJoint& joint) const;
  void read_mimics(const std::vector<Node>& nodes);
  void connect();

  std::string_view text_;
  std::string source_;
  std::vector<std::size_t> line_ends_;
  std::unordered_map<std::string, int> link_index_, joint_index_;
  Urdf urdf_;
};

std::string label_of(const char* kind, std::string_view name) {
  return std::string(kind) + " " + in_quotes(name);
}

void Parser::check_encoding() const {
  if (text_.find_first_not_of(kBlanks) == std::string_view::npos) fail(0, "", "the file is empty");
  if (const std::size_t nul = text_.find('\0'); nul != std::string_view::npos) {
    fail(line_at(static_cast<std::ptrdiff_t>(nul)), "", "not a text file in UTF-8; a URDF is expected");
  }
  if (const std::size_t bad = invalid_utf8(text_); bad != std::string_view::npos) {
    fail(line_at(static_cast<std::ptrdiff_t>(bad)), "", "not UTF-8 text; a URDF is expected, saved in UTF-8");
  }
}

pugi::xml_node Parser::read_document(pugi::xml_document& document) const {
  const pugi::xml_parse_result result =
      document.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!result) fail(line_at(result.offset), "", std::string("malformed XML: ") + result.description());

  Node root;
  for (const Node node : document.children()) {
    if (node.type() != pugi::node_element) continue;
    if (root)
      fail(node, "", "a second root element <" + std::string(node.name()) + ">; a URDF has one <robot>");
    root = node;
  }
  if (std::string_view(root.name()) != "robot") {
    fail(root, "", "the root element is <" + std::string(root.name()) + ">; a URDF has <robot>");
  }
  return root;
}

pugi::xml_node Parser::only_child(Node parent, const char* name, const std::string& label) const {
  const Node child = parent.child(name);
  if (const Node second = child.next_sibling(name)) {
    fail(second, label, "a second <" + std::string(name) + ">; keep one");
  }
  return child;
}

std::optional<std::string_view> Parser::attribute(Node node, const char* name,
                                                  const std::string& label) const {
  const pugi::xml_attribute found = node.attribute(name);
  if (!found) return std::nullopt;
  const std::string where = "<" + std::string(node.name()) + "> attribute " + name;
  for (pugi::xml_attribute next = found.next_attribute(); next; next = next.next_attribute()) {
    if (std::string_view(next.name()) == name) fail(node, label, where + " is given twice");
  }
  const std::string_view value = found.value();
  if (invalid_utf8(value) != std::string_view::npos) fail(node, label, where + " is not valid text");
  if (value.find("${") != std::string_view::npos || value.find("$(") != std::string_view::npos) {
    fail(node, label,
         where + " is " + in_quotes(value) + ": xacro not expanded; run xacro on the file first");
  }
  return value;
}

std::string Parser::required(Node node, const char* name, const std::string& label) const {
  const auto value = attribute(node, name, label);
  if (!value || value->empty()) {
    fail(node, label, "<" + std::string(node.name()) + "> needs a " + std::string(name));
  }
  return std::string(*value);
}

// Locale-independent: std::from_chars always reads a decimal point.
std::vector<double> Parser::numbers(Node node, const char* name, std::string_view value,
                                    const std::string& label, std::size_t count) const {
  const std::string where =
      "<" + std::string(node.name()) + "> attribute " + name + " is " + in_quotes(value);
  std::vector<double> found;
  for (std::size_t begin = value.find_first_not_of(kBlanks); begin != std::string_view::npos;
       begin = value.find_first_not_of(kBlanks, begin)) {
    const std::size_t end = std::min(value.find_first_of(kBlanks, begin), value.size());
    const std::string_view token = value.substr(begin, end - begin);
    begin = end;

    const bool plus = token.size() > 1 && token[0] == '+' && token[1] != '-';
    const std::string_view digits = token.substr(plus ? 1 : 0);
    double x = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), x);
    if (error == std::errc::result_out_of_range) {
      fail(node, label, where + ": " + in_quotes(token) + " is beyond the range of a double");
    }
    if (error != std::errc() || stop != digits.data() + digits.size()) {
      fail(node, label, where + ": " + in_quotes(token) + " is not a number");
    }
    if (!std::isfinite(x)) fail(node, label, where + ": numbers must be finite");
    found.push_back(x);
  }
  if (found.size() != count) {
    fail(node, label,
         where + ": " + std::to_string(count) + (count == 1 ? " number" : " numbers") + " expected, " +
             std::to_string(found.size()) + " found");
  }
  return found;
}

double Parser::number(Node node, const char* name, const std::string& label, double fallback) const {
  const auto value = attribute(node, name, label);
  return value ? numbers(node, name, *value, label, 1)[0] : fallback;
}

std::array<double, 3> Parser::triplet(Node node, const char* name, const std::string& label,
                                      const std::array<double, 3>& fallback) const {
  const auto value = attribute(node, name, label);
  if (!value) return fallback;
  const std::vector<double> x = numbers(node, name, *value, label, 3);
  return {x[0], x[1], x[2]};
}

Urdf Parser::parse() {
  check_encoding();
  pugi::xml_document document;
  const Node robot = read_document(document);
  urdf_.source = source_;
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
  urdf_.links.push_back({name, -1, line_of(node)});
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

std::string read_urdf_file(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw ModelError(path, 0, "", "the file does not exist");
  if (std::filesystem::is_directory(status))
    throw ModelError(path, 0, "", "is a directory; a URDF file is expected");

  auto text = read_file(path, kLargestFile);
  if (!text) throw ModelError(path, 0, "", "the file cannot be read; check its permissions");
  if (text->size() > kLargestFile)
    throw ModelError(path, 0, "", "the file is larger than 64 MiB; a URDF is expected");
  return *std::move(text);
}

Urdf parse_urdf(std::string_view text, const std::string& source) {
  if (text.size() > kLargestFile)
    throw ModelError(source, 0, "", "the text is larger than 64 MiB; a URDF is expected");
  return Parser(text, source).parse();
}

}  // namespace hjcdik::model
