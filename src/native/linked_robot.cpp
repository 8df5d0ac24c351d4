#include "native/linked_robot.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "model/chain.hpp"
#include "model/json.hpp"
#include "model/names.hpp"
#include "store/store.hpp"

namespace hjcdik::native {
namespace {

constexpr int kFormat = 1;

// Headers register while the program starts, perhaps before anything here is constructed.
constinit const LinkedRobot* linked = nullptr;
// What messages need of headers, whose plugins may be gone by then.
constinit char linked_key[24] = "", late_name[200] = "", another_name[200] = "";
constinit bool loaded = false;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

JointType joint_type(const char* text) {
  for (const JointType type : {JointType::revolute, JointType::continuous, JointType::prismatic})
    if (std::strcmp(text, to_string(type)) == 0) return type;
  throw std::runtime_error("the linked robot header has a joint of unknown type");
}

Robot load() {
  if (linked != nullptr) {
    if (*another_name != '\0') {
      throw std::runtime_error(
          "the program includes the headers of two robots, " + model::in_quotes(linked->robot) + " and " +
          model::in_quotes(another_name) +
          "; define HJCDIK_NO_NATIVE_ROBOT before the one that is not meant for hjcd_kernel.h");
    }
    return robot_of(*linked);
  }
  const char* name = std::getenv("HJCDIK_NATIVE_ROBOT");
  return name != nullptr && *name != '\0' ? robot_named(name) : Robot::preset("panda");
}

}  // namespace

Robot robot_of(const LinkedRobot& from) {
  if (from.format != kFormat) {
    throw std::runtime_error("the linked robot header has format " + std::to_string(from.format) +
                             ", this library reads " + std::to_string(kFormat) +
                             ": write it again with this version's hjcdik codegen");
  }
  auto chain = std::make_shared<model::Chain>();
  chain->robot = from.robot;
  chain->base_link = from.base_link;
  chain->ee_link = from.tool_link;
  chain->ee_frame = from.tool_frame;
  core::ChainConstants<double>& constants = chain->constants;
  const double* number = from.chain;
  constants.dof = from.joints;
  for (double& x : constants.start) x = *number++;
  for (int i = 0; i < from.joints; i++) {
    core::JointConstants<double>& joint = constants.joint[i];
    joint.cos_alpha = *number++, joint.sin_alpha = *number++;
    for (double& x : joint.translation) x = *number++;
    joint.offset = *number++, joint.cos_offset = *number++, joint.sin_offset = *number++;
    joint.lower = *number++, joint.upper = *number++;
    chain->joint_infos.push_back(
        {from.joint_names[i], joint_type(from.joint_types[i]), joint.lower, joint.upper});
  }
  constants.cos_end = *number++, constants.sin_end = *number++;

  model::SphereModel& model = chain->spheres;
  for (int l = 0, i = 0; l < from.links; l++) {
    model::SphereLink link{from.link_names[l], from.link_joints[l], l >= from.links - from.base_links, {}};
    for (; i < from.link_ends[l]; i++) {
      const double* s = from.spheres + 4 * i;
      link.spheres.push_back({s[0], s[1], s[2], s[3]});
      model.sphere_links.push_back(l);
    }
    model.link_names.push_back(link.name);
    model.links.push_back(std::move(link));
  }
  if (from.links > 0) model.source = "robot header";
  for (int k = 0; k < from.pairs; k++)
    model.pairs.push_back({from.pair_links[2 * k], from.pair_links[2 * k + 1]});
  model::finish_from_constants(*chain);
  return Robot(std::move(chain));
}

namespace {

// The document of a build is written by python/hjcdik/_builds.py; kSchema is its SCHEMA.
constexpr double kSchema = 1;

const model::Json& member(const model::Json& object, const char* key) {
  for (const auto& [name, value] : object.members) {
    if (name == key) return value;
  }
  throw std::runtime_error(std::string("it has no ") + key);
}

// The text of a file that stands in a build, and its name; nothing for null.
void file_of(const model::Json& entry, std::string& text, std::string& source) {
  if (entry.kind == model::Json::Kind::null) return;
  text = member(entry, "text").string;
  source = member(entry, "name").string;
}

// The robot of the store's build of this name, if there is one.
std::optional<Robot> prepared(const std::string& name) {
  std::string problem;
  const std::string folder = store::default_folder();
  const auto build = folder.empty() ? std::nullopt : store::read_build(folder, name, problem);
  if (!problem.empty()) throw std::runtime_error("HJCDIK_NATIVE_ROBOT: " + problem);
  if (!build) return std::nullopt;
  try {
    const model::Json document = model::parse_json({build->text, name, "a prepared build"});
    if (member(document, "schema").number != kSchema) throw std::runtime_error("it is of another version");
    const model::Json& inputs = member(document, "inputs");
    RobotOptions options;
    std::string urdf, source;
    file_of(member(inputs, "urdf"), urdf, source);
    options.ee_link = member(inputs, "tool").string;
    file_of(member(inputs, "spheres"), options.spheres, options.spheres_source);
    file_of(member(inputs, "srdf"), options.srdf, options.srdf_source);
    for (const auto& [joint, value] : member(inputs, "locked_joints").members)
      options.locked_joints[joint] = value.number;
    options.check_base = member(inputs, "check_base").number != 0;
    return Robot::from_urdf_text(urdf, options, source);
  } catch (const std::exception& error) {
    throw std::runtime_error("HJCDIK_NATIVE_ROBOT names the build " + model::in_quotes(name) +
                             ", which cannot be read: " + error.what() +
                             "; prepare it again by hjcdik build");
  }
}

}  // namespace

Robot robot_named(const std::string& name) {
  std::vector<std::string> names;
  for (const PresetInfo& preset : presets()) {
    if (preset.name == name) return Robot::preset(name);
    names.push_back(preset.name);
  }
  if (std::optional<Robot> robot = prepared(name)) return *std::move(robot);
  const std::size_t first = name.find('#');
  if (first == std::string::npos || first == 0) {
    throw std::runtime_error(
        "HJCDIK_NATIVE_ROBOT is " + model::in_quotes(name) + "; one of the presets " + joined(names) +
        ", the name of a prepared build (hjcdik list) or PATH.urdf#TOOL[#SPHERES] is expected");
  }
  const std::size_t second = name.find('#', first + 1);
  RobotOptions options;
  options.ee_link = name.substr(first + 1, second == std::string::npos ? second : second - first - 1);
  if (second != std::string::npos) options.spheres = name.substr(second + 1);
  try {
    return Robot::from_urdf_file(name.substr(0, first), options);
  } catch (const InvalidArgument& error) {
    throw std::runtime_error(std::string("HJCDIK_NATIVE_ROBOT: ") + error.what());
  }
}

const Robot& program_robot() {
  static std::mutex mutex;
  static auto& robot = *new std::optional<Robot>;
  std::lock_guard lock(mutex);
  if (!robot) {
    robot = load();
    loaded = true;
  }
  if (*late_name != '\0') {
    throw std::runtime_error(
        "the header of robot " + model::in_quotes(late_name) +
        " came after hjcd_kernel.h was first used, with " + model::in_quotes(robot->name()) +
        ": link it into the program itself, and do not call from what runs before main in other files");
  }
  return *robot;
}

}  // namespace hjcdik::native

void hjcdik_link_robot(const void* pointer) {
  using namespace hjcdik::native;
  const auto* robot = static_cast<const LinkedRobot*>(pointer);
  const auto keep = [](auto& to, const char* text) { std::snprintf(to, sizeof to, "%s", text); };
  if (std::strcmp(linked_key, robot->key) == 0) return;
  if (loaded) {
    keep(late_name, *robot->robot != '\0' ? robot->robot : "robot");
  } else if (linked == nullptr) {
    linked = robot;
    keep(linked_key, robot->key);
  } else {
    keep(another_name, *robot->robot != '\0' ? robot->robot : "robot");
  }
}
