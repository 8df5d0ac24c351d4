// The packaged robots. Their files and where the figures come from: robots/.
#include <functional>
#include <map>
#include <span>

#include <hjcdik/robot.hpp>

#include "model/embedded.hpp"
#include "model/names.hpp"

namespace hjcdik {

namespace {

// The entry of `all` with this name. `kind`: "preset" or the like.
template <class Info>
const Info& named(const std::vector<Info>& all, std::string_view name, const char* kind) {
  std::vector<std::string> names;
  for (const Info& info : all) {
    if (info.name == name) return info;
    names.push_back(info.name);
  }
  throw InvalidArgument("no " + std::string(kind) + " is called " + model::in_quotes(name) + "; there are " +
                        model::nearest_names(name, names));
}

const PresetInfo& preset_info(std::string_view name) { return named(presets(), name, "preset"); }

using Texts = std::map<std::string, std::string, std::less<>>;

Texts texts_of(const embedded::File* files, int count) {
  Texts texts;
  for (int i = 0; i < count; ++i) texts.emplace(files[i].name, files[i].text);
  return texts;
}

// The spheres that a preset robot has by itself.
std::string own_spheres(const std::string& robot) {
  for (const SpherePresetInfo& model : sphere_presets()) {
    if (model.robot == robot) return model.name;  // the first
  }
  return "none";
}

}  // namespace

const std::vector<PresetInfo>& presets() {
  static const std::vector<PresetInfo> all = {
      {"panda", "panda_grasptarget",
       "Franka Emika Panda with hand, 7 joints; figures of franka_description (Apache-2.0)"},
      {"iiwa14", "iiwa_link_ee_kuka",
       "KUKA LBR iiwa 14 R820, 7 joints; figures of Drake's iiwa_description (BSD-3-Clause)"},
      {"ur5e", "tool0",
       "Universal Robots UR5e, 6 joints; figures of Universal_Robots_ROS2_Description (BSD-3-Clause), "
       "nominal "
       "calibration"},
      {"fetch", "gripper_link",
       "Fetch arm with the torso at 0, 7 joints; figures of the Fetch description in VAMP (Apache-2.0)"},
  };
  return all;
}

const std::string& preset_urdf(std::string_view name) {
  static const Texts texts = texts_of(embedded::robots, embedded::robots_count);
  return texts.at(preset_info(name).name);
}

const std::vector<SpherePresetInfo>& sphere_presets() {
  // A robot's own comes first.
  static const std::vector<SpherePresetInfo> all = {
      {"panda_foam", "panda", "59 spheres; figures of foam's spherized Panda (MIT)"},
      {"panda_curobo", "panda", "61 spheres; figures of cuRobo's Panda (Apache-2.0)"},
      {"iiwa14", "iiwa14", "148 spheres, fitted to the meshes of iiwa_stack (BSD)"},
      {"ur5e", "ur5e",
       "112 spheres, fitted to the meshes of Universal_Robots_ROS2_Description (BSD-3-Clause)"},
  };
  return all;
}

const std::string& sphere_preset_text(std::string_view name) {
  static const Texts texts = texts_of(embedded::spheres, embedded::spheres_count);
  return texts.at(named(sphere_presets(), name, "sphere model").name);
}

Robot Robot::preset(std::string_view name, const RobotOptions& options) {
  const PresetInfo& preset = preset_info(name);
  RobotOptions own = options;
  if (own.ee_link.empty()) own.ee_link = preset.ee_link;
  if (own.spheres.empty()) own.spheres = own_spheres(preset.name);
  return from_urdf_text(preset_urdf(name), own, preset.name + ".urdf");
}

}  // namespace hjcdik
