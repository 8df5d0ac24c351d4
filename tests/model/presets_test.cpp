// The packaged robots, and their figures against the shared data where it is present.
#include <cstdlib>
#include <filesystem>

#include "model/embedded.hpp"
#include "model/urdf_builder.hpp"

namespace hjcdik {
namespace {

std::filesystem::path data_folder() {
  if (const char* folder = std::getenv("HJCDIK_TEST_DATA")) return folder;
  return std::filesystem::path(HJCDIK_SOURCE_DIR) / "../shared/data";
}

TEST(Presets, Load) {
  ASSERT_EQ(presets().size(), 4u);
  EXPECT_EQ(embedded::robots_count, 4);
  EXPECT_EQ(embedded::spheres_count, 4);
  for (const PresetInfo& preset : presets()) {
    const Robot arm = Robot::preset(preset.name);
    EXPECT_EQ(arm.name(), preset.name);
    EXPECT_EQ(arm.ee_link(), preset.ee_link);
    // The UR5e's fitted spheres of forearm and wrist 2 just overlap at mid-range.
    EXPECT_EQ(arm.warnings().size(), preset.name == "ur5e" ? 1u : 0u);
    EXPECT_TRUE(arm.locked_joints().empty());
    EXPECT_NE(preset_urdf(preset.name).find("<robot name=\"" + preset.name + "\">"), std::string::npos);
  }
  EXPECT_EQ(Robot::preset("panda").ee_frame(), "panda_grasptarget_hand");
  EXPECT_EQ(Robot::preset("iiwa14").ee_frame(), "iiwa_joint_ee");
  EXPECT_EQ(Robot::preset("ur5e").ee_frame(), "flange-tool0");
  EXPECT_EQ(Robot::preset("fetch").ee_frame(), "gripper_axis");
  EXPECT_EQ(Robot::preset("ur5e").dof(), 6);
}

TEST(Presets, AnotherTool) {
  const Robot hand = Robot::preset("panda", {"panda_hand", {}});
  EXPECT_EQ(hand.ee_frame(), "panda_hand_joint");
}

TEST(Presets, FetchRollsWithoutEnd) {
  const std::vector<JointInfo> joints = Robot::preset("fetch").joints();
  for (const std::size_t i : {2u, 4u, 6u}) EXPECT_EQ(joints[i].type, JointType::continuous) << joints[i].name;
  for (const std::size_t i : {0u, 1u, 3u, 5u})
    EXPECT_EQ(joints[i].type, JointType::revolute) << joints[i].name;
}

TEST(Presets, UnknownName) {
  try {
    Robot::preset("pandaa");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("'panda', "), std::string::npos) << error.what();
  }
  EXPECT_THROW(preset_urdf(""), InvalidArgument);
}

TEST(Presets, FiguresAreThoseOfTheData) {
  const std::filesystem::path folder = data_folder() / "robots";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no robots in " << folder << "; set HJCDIK_TEST_DATA";
  const std::pair<const char*, const char*> files[] = {
      {"panda", "panda.urdf"}, {"iiwa14", "iiwa14.urdf"}, {"ur5e", "ur5e.urdf"}, {"fetch", "fetch_arm.urdf"}};
  for (const auto& [name, file] : files) {
    const Robot preset = Robot::preset(name);
    const Robot data = Robot::from_urdf_file((folder / file).string(), {preset.ee_link(), {}});
    ASSERT_EQ(preset.dof(), data.dof());
    if (std::string(name) != "fetch") {
      const Robot open = Robot::preset(name, {.spheres = "none"});
      EXPECT_TRUE(open.header_text() == data.header_text()) << name;
    }
    for (int i = 0; i < preset.dof(); ++i) {
      const JointInfo &a = preset.joints()[i], &b = data.joints()[i];
      EXPECT_EQ(a.name, b.name);
      if (a.type != JointType::continuous) {
        EXPECT_EQ(a.lower, b.lower);
        EXPECT_EQ(a.upper, b.upper);
      }
    }
    std::mt19937_64 random(3);
    const std::vector<double> q = test::random_configuration(data, random);
    EXPECT_EQ(preset.forward_kinematics(q), data.forward_kinematics(q));
  }
}

}  // namespace
}  // namespace hjcdik
