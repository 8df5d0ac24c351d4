#include "model/sphere_files.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "model/json.hpp"
#include "model/names.hpp"
#include "model/xml.hpp"

namespace hjcdik::model {

namespace {

constexpr double kSameFrame = 1e-6;  // m, and of the entries of rotations and axes
constexpr std::size_t kMostListed = 5;

// The first character that counts; 0 where there is none.
char first_of(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  return at == text.npos ? '\0' : text[at];
}

bool is_text(std::string_view text) { return first_of(text) == '<' || first_of(text) == '{'; }

std::string source_or(const std::string& source, const char* fallback) {
  return source.empty() ? fallback : source;
}

// --- JSON ---

class JsonFile {
 public:
  JsonFile(std::string_view text, const std::string& source)
      : text_(text, source, "a JSON file of spheres"), root_(parse_json(text_)) {}

  SphereFile read() {
    file_.source = text_.source();
    expect(root_, Json::Kind::object, "", "the file");
    for (const auto& [key, value] : root_.members) read_member(key, value);
    if (file_.links.empty()) text_.fail(root_.line, "", "no link has spheres; pass \"none\" for no spheres");
    warn_of_unknown();
    return std::move(file_);
  }

 private:
  void expect(const Json& value, Json::Kind kind, const std::string& label, const std::string& what) const {
    if (value.kind == kind) return;
    text_.fail(value.line, label,
               what + " is " + to_string(value.kind) + "; " + to_string(kind) + " is expected");
  }

  void read_member(const std::string& key, const Json& value) {
    // What describes the file for people.
    const char* notes[] = {"robot", "frames", "source", "licence", "note", "fit", "self_collision_rule"};
    if (key == "spheres") {
      expect(value, Json::Kind::object, "spheres", "it");
      for (const auto& [link, spheres] : value.members) read_link(link, spheres);
    } else if (key == "self_collision_ignore_pairs") {
      read_ignored(key, value);
    } else if (key == "base_links_not_checked") {
      expect(value, Json::Kind::array, key, "it");
      for (const Json& link : value.items) file_.not_checked.insert(name(key, link));
    } else if (key == "self_collision_buffer_m") {
      file_.warnings.push_back(text_.source() + ": self_collision_buffer_m is not applied: " +
                               "pairs of links are checked at zero clearance");
    } else if (std::find(std::begin(notes), std::end(notes), key) == std::end(notes)) {
      unknown_.push_back(key);
    }
  }

  void warn_of_unknown() {
    if (unknown_.empty()) return;
    std::string names;
    for (std::size_t i = 0; i < std::min(unknown_.size(), kMostListed); ++i) {
      names += (i > 0 ? ", " : "") + in_quotes(unknown_[i]);
    }
    if (unknown_.size() > kMostListed) {
      names += " and " + std::to_string(unknown_.size() - kMostListed) + " more";
    }
    file_.warnings.push_back(text_.source() + ": unknown keys are ignored: " + names);
  }

  const std::string& name(const std::string& key, const Json& value) const {
    expect(value, Json::Kind::string, key, "an entry");
    return value.string;
  }

  void read_ignored(const std::string& key, const Json& pairs) {
    expect(pairs, Json::Kind::array, key, "it");
    for (const Json& pair : pairs.items) {
      expect(pair, Json::Kind::array, key, "an entry");
      if (pair.items.size() != 2) {
        text_.fail(pair.line, key,
                   "an entry has " + std::to_string(pair.items.size()) + " names; two links are expected");
      }
      file_.ignored.insert(name_pair(name(key, pair.items[0]), name(key, pair.items[1])));
    }
  }

  void read_link(const std::string& link, const Json& spheres) {
    const std::string label = label_of("link", link);
    expect(spheres, Json::Kind::array, label, "its entry");
    if (spheres.items.empty()) text_.fail(spheres.line, label, "its list of spheres is empty; leave it out");
    LinkSpheres read{link, spheres.line, {}};
    for (const Json& row : spheres.items) {
      read.spheres.push_back(sphere(label, "sphere " + std::to_string(read.spheres.size()), row));
    }
    file_.links.push_back(std::move(read));
  }

  // Numbers are finite: JSON has no others, and too large ones are malformed.
  std::array<double, 4> sphere(const std::string& label, const std::string& what, const Json& row) const {
    expect(row, Json::Kind::array, label, what);
    if (row.items.size() != 4) {
      text_.fail(
          row.line, label,
          what + " has " + std::to_string(row.items.size()) + " values; [x, y, z, radius] is expected");
    }
    std::array<double, 4> sphere;
    for (std::size_t k = 0; k < 4; ++k) {
      expect(row.items[k], Json::Kind::number, label, what + ", value " + std::to_string(k) + ",");
      sphere[k] = row.items[k].number;
    }
    if (sphere[3] <= 0) {
      text_.fail(row.line, label, what + " has the radius " + to_text(sphere[3]) + "; it must be above 0");
    }
    return sphere;
  }

  SourceText text_;
  Json root_;
  SphereFile file_;
  std::vector<std::string> unknown_;
};

// --- Spherized URDF ---

// The joints on the way from the root to a link, up to one that moves or to the link.
struct Leg {
  std::vector<int> joints;
  Transform origin;  // of the last joint, or of the link
  bool moves = false;
};

std::vector<Leg> legs_to(const Urdf& urdf, int link) {
  std::vector<int> path;
  for (int j = urdf.links[link].parent_joint; j >= 0; j = urdf.links[urdf.joints[j].parent].parent_joint) {
    path.push_back(j);
  }
  std::vector<Leg> legs(1);
  for (auto j = path.rbegin(); j != path.rend(); ++j) {
    const UrdfJoint& joint = urdf.joints[*j];
    legs.back().joints.push_back(*j);
    legs.back().origin = legs.back().origin * joint.origin;
    legs.back().moves = joint.type != UrdfJointType::fixed;
    if (legs.back().moves) legs.emplace_back();
  }
  return legs;
}

bool near(const double* a, const double* b, std::size_t count) {
  return std::equal(a, a + count, b, [](double x, double y) { return std::abs(x - y) <= kSameFrame; });
}

bool near(const Transform& a, const Transform& b) {
  return near(a.rotation, b.rotation, 9) && near(a.position, b.position, 3);
}

// Spheres belong to frames: both files must put a link that has some into the same one.
class FrameCheck {
 public:
  FrameCheck(const Urdf& spheres, const Urdf& robot) : spheres_(spheres), robot_(robot) {}

  void check(int link, int robot_link) const {
    const std::vector<Leg> ours = legs_to(spheres_, link), theirs = legs_to(robot_, robot_link);
    for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) check(link, ours[i], theirs[i]);
  }

 private:
  void check(int link, const Leg& ours, const Leg& theirs) const {
    // A fixed joint more or less is no difference, if the frames agree.
    if (!near(ours.origin, theirs.origin)) {
      for (const int j : ours.joints) {
        const int same = find_joint(robot_, spheres_.joints[j].name);
        if (same >= 0 && !near(spheres_.joints[j].origin, robot_.joints[same].origin)) {
          fail(link, j, "its origin differs");
        }
      }
      fail(link, last(ours), "the origins up to it differ");
    }
    if (ours.moves != theirs.moves) {
      if (ours.moves) fail(link, last(ours), "it moves; nothing does there in the robot");
      fail(link, last(ours),
           "the robot has joint " + in_quotes(robot_.joints[last(theirs)].name) + " there, which moves");
    }
    if (!ours.moves) return;

    const UrdfJoint &a = spheres_.joints[last(ours)], &b = robot_.joints[last(theirs)];
    if (a.name != b.name) fail(link, last(ours), "the robot's joint there is " + in_quotes(b.name));
    if (a.type != b.type) {
      fail(link, last(ours),
           std::string("it is ") + to_string(a.type) + "; the robot's is " + to_string(b.type));
    }
    if (a.moves() && !near(a.axis, b.axis, 3)) fail(link, last(ours), "its axis differs");
  }

  static int last(const Leg& leg) { return leg.joints.empty() ? -1 : leg.joints.back(); }

  [[noreturn]] void fail(int link, int joint, const std::string& difference) const {
    const UrdfLink& at = spheres_.links[link];
    const std::string place =
        joint < 0 ? "the link itself" : "joint " + in_quotes(spheres_.joints[joint].name);
    throw ModelError(spheres_.source, joint < 0 ? at.line : spheres_.joints[joint].line,
                     label_of("link", at.name),
                     "its frame is not that of " + robot_.source + ", so its spheres would be misplaced; " +
                         "the first difference is at " + place + ": " + difference);
  }

  const Urdf &spheres_, &robot_;
};

SphereFile read_spherized(std::string_view text, const std::string& source, const Urdf& robot) {
  const Urdf urdf = parse_spherized_urdf(text, source);
  const FrameCheck frames(urdf, robot);
  SphereFile file;
  file.source = source;
  for (std::size_t i = 0; i < urdf.links.size(); ++i) {
    const UrdfLink& link = urdf.links[i];
    if (link.spheres.empty()) continue;
    // A link that the robot lacks is reported with the others.
    if (const int same = find_link(robot, link.name); same >= 0) frames.check(static_cast<int>(i), same);
    file.links.push_back({link.name, link.line, link.spheres});
  }
  if (file.links.empty()) {
    throw ModelError(source, 0, "",
                     "no link has a <collision> with a <sphere>; pass \"none\" for no spheres");
  }
  return file;
}

// A path has no line breaks: a text that begins wrongly is not repeated as one.
void check_path(const std::string& path, const std::string& source, const std::string& expected) {
  if (path.find('\n') == path.npos) return;
  throw ModelError(source, 0, "", "neither a path nor " + expected);
}

std::string read_named_file(const std::string& path, const std::string& source) {
  check_path(path, source, "JSON, which begins with '{', nor a URDF, which begins with '<'");
  std::vector<std::string> names;
  for (const SpherePresetInfo& preset : sphere_presets()) names.push_back(preset.name);
  // A name without a folder or an extension was meant to be a preset's.
  std::error_code error;
  if (path.find_first_of("/.") == path.npos && !std::filesystem::exists(path, error)) {
    throw ModelError(
        path, 0, "spheres",
        "no file and no packaged sphere model has this name; there are " + nearest_names(path, names));
  }
  return read_text_file(path, "a JSON file of spheres or a spherized URDF");
}

}  // namespace

NamePair name_pair(const std::string& a, const std::string& b) {
  return a < b ? NamePair(a, b) : NamePair(b, a);
}

SphereFile read_spheres(const RobotOptions& options, const Urdf& robot) {
  const std::string& given = options.spheres;
  for (const SpherePresetInfo& preset : sphere_presets()) {
    if (given == preset.name) {
      return JsonFile(sphere_preset_text(given), given + ".json").read();
    }
  }
  const std::string named = source_or(options.spheres_source, "<spheres>");
  const std::string text = is_text(given) ? given : read_named_file(given, named);
  const std::string& source = is_text(given) ? named : given;
  if (first_of(text) == '<') return read_spherized(text, source, robot);
  return JsonFile(text, source).read();
}

std::string srdf_source(const RobotOptions& options) {
  const bool is_path = first_of(options.srdf) != '<' && options.srdf.find('\n') == options.srdf.npos;
  return is_path ? options.srdf : source_or(options.srdf_source, "<srdf>");
}

Srdf read_srdf(const RobotOptions& options) {
  const bool is_path = first_of(options.srdf) != '<';
  const std::string source = srdf_source(options);
  if (is_path) check_path(options.srdf, source, "an SRDF, which begins with '<'");
  const std::string text = is_path ? read_text_file(options.srdf, "an SRDF") : options.srdf;
  const XmlReader reader(text, source, "an SRDF");

  Srdf srdf;
  srdf.robot = reader.attribute(reader.root(), "name", "robot").value_or("");
  for (const XmlReader::Node node : reader.root().children("disable_collisions")) {
    srdf.ignored.insert(name_pair(reader.required(node, "link1", "disable_collisions"),
                                  reader.required(node, "link2", "disable_collisions")));
  }
  return srdf;
}

}  // namespace hjcdik::model
