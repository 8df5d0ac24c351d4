// The packaged robots. Their files and where the figures come from: robots/.
#include <algorithm>
#include <span>

#include <hjcdik/robot.hpp>

#include "model/embedded.hpp"
#include "model/names.hpp"

namespace hjcdik {

namespace {

const PresetInfo& preset_info(std::string_view name) {
  std::vector<std::string> names;
  for (const PresetInfo& preset : presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  throw InvalidArgument("no preset is called " + model::in_quotes(name) + "; there are " +
                        model::nearest_names(name, names));
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
  static const std::map<std::string, std::string, std::less<>> texts = [] {
    std::map<std::string, std::string, std::less<>> map;
    for (int i = 0; i < embedded::robots_count; ++i) {
      map.emplace(embedded::robots[i].name, embedded::robots[i].text);
    }
    return map;
  }();
  return texts.at(preset_info(name).name);
}

Robot Robot::preset(std::string_view name, const RobotOptions& options) {
  const PresetInfo& preset = preset_info(name);
  RobotOptions own = options;
  if (own.ee_link.empty()) own.ee_link = preset.ee_link;
  return from_urdf_text(preset_urdf(name), own, preset.name + ".urdf");
}

}  // namespace hjcdik
