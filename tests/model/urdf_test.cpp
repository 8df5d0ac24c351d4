// The rules of reading a URDF: what is accepted, how, and what is refused with which words.
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <locale>
#include <numbers>

#include <unistd.h>

#include "model/urdf_builder.hpp"

namespace hjcdik {
namespace {

using namespace test;

const Pose kPlanarPose = {0.540780146, 0.483776627, 0, std::cos(0.65), 0, 0, std::sin(0.65)};
const std::vector<double> kPlanarQ = {0.4, 0.9};

TEST(Urdf, PlanarArm) {
  const Robot arm = load(Planar{}.text());
  EXPECT_EQ(arm.name(), "r");
  EXPECT_EQ(arm.base_link(), "base");
  EXPECT_EQ(arm.ee_link(), "tool");
  EXPECT_EQ(arm.ee_frame(), "tip");
  EXPECT_EQ(arm.dof(), 2);
  EXPECT_EQ(arm.joints()[1].name, "j2");
  EXPECT_EQ(arm.joints()[1].type, JointType::revolute);
  EXPECT_TRUE(arm.warnings().empty());
  expect_near(arm.forward_kinematics(kPlanarQ), kPlanarPose, 1e-9);
}

// --- XML ---

TEST(Urdf, MalformedXmlNamesLineAndReason) {
  const ModelError error =
      error_of("<robot name=\"r\">\n<link name=\"a\"/>\n<joint></robot>\n", {"malformed XML"});
  EXPECT_EQ(error.line(), 3);
  EXPECT_EQ(error_of("<robot name=\"r\"><link name=\"a\"", {"malformed XML"}).line(), 1);
}

TEST(Urdf, WrongDocuments) {
  error_of("", {"empty"});
  error_of(" \n\t ", {"empty"});
  error_of("<sdf/>", {"<sdf>", "<robot>"});
  error_of("<robot name=\"r\"/>", {"no <link>"});
  error_of("<robot><link name=\"tool\"/></robot><robot/>", {"second root"});
  error_of(std::string("\x7f"
                       "ELF\0\0\0",
                       7),
           {"not a text file"});
  error_of("<robot name=\"r\">\n<!-- \xe9 -->\n</robot>", {"test.urdf:2", "UTF-8"});
  error_of("<robot><link name=\"a&#xD800;\"/></robot>", {"<link> attribute name is not valid text"});
}

TEST(Urdf, ByteOrderMarkAndDeclarationAreFine) {
  EXPECT_EQ(load("\xEF\xBB\xBF<?xml version=\"1.0\" encoding=\"utf-8\"?>\n" + Planar{}.text()).dof(), 2);
}

TEST(Urdf, DuplicateAttributesAndElements) {
  error_of(Planar{.first = kZ + "<limit lower=\"-1\" lower=\"-2\" upper=\"1\"/>"}.text(),
           {"joint 'j1'", "<limit> attribute lower is given twice"});
  error_of(Planar{.first = kZ + kZ + kLimit}.text(), {"joint 'j1'", "a second <axis>"});
  error_of(Planar{.first = kZ + kLimit + kLimit}.text(), {"joint 'j1'", "a second <limit>"});
}

TEST(Urdf, UnknownElementsAndMissingMeshesAreIgnored) {
  const std::string extra =
      "<gazebo reference=\"x\"><a/></gazebo><transmission name=\"t\"><joint "
      "name=\"j1\"><x/></joint></transmission>"
      "<material name=\"m\"/><material name=\"m\"/><unheard_of lower=\"${x}\"/>";
  std::string xml = Planar{.extra = extra}.text();
  const std::string visual =
      "<visual name=\"v\"><geometry><mesh filename=\"package://none/m.dae\"/></geometry></visual>";
  xml.replace(xml.find("<link name=\"upper\"/>"), 20, "<link name=\"upper\">" + visual + visual + "</link>");
  expect_near(load(xml).forward_kinematics(kPlanarQ), kPlanarPose, 1e-9);
}

// --- Files ---

class UrdfFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("hjcdik_urdf_" + std::to_string(getpid()) +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& text) const {
    const std::string path = (folder_ / "arm.urdf").string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  static void expect_error(const std::string& path, const std::string& part) {
    try {
      Robot::from_urdf_file(path, {"tool", {}});
      ADD_FAILURE() << path << " loaded";
    } catch (const ModelError& error) {
      EXPECT_EQ(error.file(), path);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  std::filesystem::path folder_;
};

TEST_F(UrdfFile, Loads) {
  const std::string path = write(Planar{}.text());
  expect_near(Robot::from_urdf_file(path, {"tool", {}}).forward_kinematics(kPlanarQ), kPlanarPose, 1e-9);
}

TEST_F(UrdfFile, Missing) { expect_error((folder_ / "none.urdf").string(), "does not exist"); }
TEST_F(UrdfFile, Directory) { expect_error(folder_.string(), "directory"); }
TEST_F(UrdfFile, Empty) { expect_error(write(""), "empty"); }
TEST_F(UrdfFile, Binary) { expect_error(write(std::string("\0\1\2\3", 4)), "not a text file"); }
TEST_F(UrdfFile, PathThatNoSystemTakes) { expect_error(std::string(5000, 'x'), "does not exist"); }

// --- Numbers ---

TEST(UrdfNumbers, Blanks) {
  const std::string xml = Planar{.second = "<axis xyz=\" \t0\r\n 0\n+1 \"/>" + kLimit}.text();
  expect_near(load(xml).forward_kinematics(kPlanarQ), kPlanarPose, 1e-9);
}

TEST(UrdfNumbers, Refused) {
  const auto refused = [](const std::string& xyz, const std::string& part) {
    error_of(Planar{.first = "<origin xyz=\"" + xyz + "\"/>" + kZ + kLimit}.text(),
             {"test.urdf:", "joint 'j1'", "<origin> attribute xyz", part});
  };
  refused("0 0", "3 numbers expected, 2 found");
  refused("0 0 0 0", "3 numbers expected, 4 found");
  refused("", "3 numbers expected, 0 found");
  refused("0 0 nan", "finite");
  refused("0 0 -inf", "finite");
  refused("0 0 infinity", "finite");
  refused("0 0 1e999", "range");
  refused("0 0 0,5", "'0,5' is not a number");
  refused("0 0 1.5m", "not a number");
  refused("0 0 0x10", "not a number");
  refused("0 0 +-1", "not a number");
  refused("0 0 ++1", "not a number");
  refused("0 0 +", "not a number");
  refused("0 0 ${h}", "xacro not expanded");
  refused("0 0 $(arg h)", "xacro not expanded");
  error_of(Planar{.first = "<origin xyz=\"0 0 1e5\"/>" + kZ + kLimit}.text(),
           {"joint 'j1'", "<origin> xyz", "metres"});
}

TEST(UrdfNumbers, LeftOverXacro) {
  const ModelError error = error_of(Planar{.first = kZ + "\n<limit lower=\"0\" upper=\"${-1*x}\"/>"}.text(),
                                    {"joint 'j1'", "<limit> attribute upper", "xacro not expanded"});
  EXPECT_EQ(error.line(), 7);
  EXPECT_EQ(error.element(), "joint 'j1'");
  error_of(robot("<xacro:macro name=\"m\"/>" + link("tool")), {"xacro:macro", "xacro not expanded"});
  error_of(robot(link("${prefix}tool")), {"attribute name", "xacro not expanded"});
}

struct Comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
};

TEST(UrdfNumbers, LocaleDoesNotMatter) {
  const Robot before = load(Planar{}.text());
  const std::locale cpp = std::locale::global(std::locale(std::locale::classic(), new Comma));
  const std::string c = std::setlocale(LC_ALL, nullptr);
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8"}) {
    if (std::setlocale(LC_ALL, name)) break;
  }
  const Robot with_comma = load(Planar{}.text());
  const std::string message =
      error_of(Planar{.first = kZ + "<limit lower=\"1.5\" upper=\"-1.5\"/>"}.text(), {}).what();
  std::setlocale(LC_ALL, c.c_str());
  std::locale::global(cpp);
  EXPECT_EQ(before.header_text(), with_comma.header_text());
  EXPECT_NE(message.find("-1.5"), std::string::npos);
}

// --- Joints ---

TEST(UrdfJoints, ContinuousIsOneAngle) {
  const Robot arm = load(Planar{.first_type = "continuous", .first = kZ}.text());
  EXPECT_EQ(arm.dof(), 2);
  EXPECT_EQ(arm.joints()[0].type, JointType::continuous);
  EXPECT_EQ(arm.joints()[0].lower, -std::numbers::pi);
  EXPECT_EQ(arm.joints()[0].upper, std::numbers::pi);
  EXPECT_TRUE(arm.warnings().empty());
  expect_near(arm.forward_kinematics(kPlanarQ), kPlanarPose, 1e-9);
}

TEST(UrdfJoints, ContinuousIgnoresLimitsWithOneWarning) {
  const Robot arm =
      load(Planar{.first_type = "continuous", .first = kZ + "<limit lower=\"-1\" upper=\"1\"/>"}.text());
  EXPECT_EQ(arm.joints()[0].upper, std::numbers::pi);
  ASSERT_EQ(arm.warnings().size(), 1u);
  EXPECT_NE(arm.warnings()[0].find("joint 'j1'"), std::string::npos);
}

TEST(UrdfJoints, Limits) {
  const ModelError none = error_of(Planar{.first = kZ}.text(), {"joint 'j1'", "<limit"});
  EXPECT_EQ(none.line(), 6);
  error_of(Planar{.first = kZ + "<limit effort=\"1\"/>"}.text(), {"joint 'j1'", "neither lower nor upper"});
  error_of(Planar{.first = kZ + "<limit lower=\"1.0\" upper=\"-1.0\"/>"}.text(),
           {"joint 'j1'", "'1.0'", "'-1.0'"});
  error_of(Planar{.first = kZ + "<limit lower=\"-1e9\" upper=\"1e9\"/>"}.text(),
           {"joint 'j1'", "continuous"});
  error_of(Planar{.first_type = "prismatic", .first = kZ}.text(), {"joint 'j1'", "prismatic", "<limit"});

  const Robot half = load(Planar{.first = kZ + "<limit upper=\"0.5\"/>"}.text());
  EXPECT_EQ(half.joints()[0].lower, 0);  // the URDF's default
  const Robot pinned = load(Planar{.first = kZ + "<limit lower=\"0.9\" upper=\"0.9\"/>"}.text());
  EXPECT_EQ(pinned.joints()[0].lower, pinned.joints()[0].upper);
}

TEST(UrdfJoints, Axes) {
  error_of(Planar{.first = "<axis xyz=\"0 0 0\"/>" + kLimit}.text(), {"joint 'j1'", "<axis> is zero"});

  const auto x1 = [](const std::string& axis, const std::string& tool) {
    return load(
        robot(link("base") + link("arm") + link("tool") +
              joint("j", "revolute", "base", "arm", "<origin xyz=\"0 0 0.1\"/>" + axis + kLimit) +
              joint("tip", "fixed", "arm", "tool", "<axis xyz=\"0 0 0\"/><origin xyz=\"" + tool + "\"/>")));
  };
  const auto fk = [](const Robot& arm, double q) { return arm.forward_kinematics(std::array{q}); };
  expect_near(fk(x1("<axis xyz=\"0.6 0 0.8\"/>", "0.3 0 0"), 1),
              {0.211738043, 0.201953036, 0.166196468, 0.877582562, 0.287655323, 0, 0.383540431}, 1e-9);
  expect_near(fk(x1("<axis xyz=\"0 1.5 0\"/>", "0.3 0 0"), 0.7),
              {0.229452656, 0, -0.093265306, std::cos(0.35), 0, std::sin(0.35), 0}, 1e-9);
  expect_near(fk(x1("", "0 0.3 0"), 0.7), {0, 0.229452656, 0.293265306, std::cos(0.35), std::sin(0.35), 0, 0},
              1e-9);
  // Any length of axis, down to where its square vanishes.
  expect_near(fk(x1("<axis xyz=\"0 3e-200 0\"/>", "0.3 0 0"), 0.7),
              fk(x1("<axis xyz=\"0 1e200 0\"/>", "0.3 0 0"), 0.7), 1e-15);
}

TEST(UrdfJoints, NegativeAxisKeepsItsSign) {
  const Robot arm = load(robot(link("base") + link("arm") + link("tool") +
                               joint("j", "revolute", "base", "arm",
                                     "<origin xyz=\"0.1 0.2 0.3\" rpy=\"0.3 -0.2 0.5\"/><axis xyz=\"-1 0 "
                                     "0\"/><limit lower=\"-0.2\" upper=\"1.5\"/>") +
                               joint("tip", "fixed", "arm", "tool", "<origin xyz=\"0 0.25 0.1\"/>")));
  const Pose pose = arm.forward_kinematics(std::array{0.9});
  EXPECT_NEAR(pose[0], -0.015770592, 1e-9);
  EXPECT_NEAR(pose[1], 0.436211135, 1e-9);
  EXPECT_NEAR(pose[2], 0.242541581, 1e-9);
  EXPECT_EQ(arm.joints()[0].lower, -0.2);
  EXPECT_EQ(arm.joints()[0].upper, 1.5);
}

TEST(UrdfJoints, PrismaticAxisIsNormalised) {
  const Robot slide =
      load(robot(link("base") + link("tool") +
                 joint("s", "prismatic", "base", "tool", "<axis xyz=\"0 0 2\"/><limit upper=\"1\"/>")));
  expect_near(slide.forward_kinematics(std::array{0.2}), {0, 0, 0.2, 1, 0, 0, 0}, 0);
  EXPECT_EQ(slide.ee_frame(), "");
}

TEST(UrdfJoints, MissingPartsAndNames) {
  error_of(robot(link("base") + link("tool") + joint("j", "ball", "base", "tool")),
           {"joint 'j'", "'ball'", "revolute"});
  error_of(robot(link("base") + link("tool") +
                 "<joint name=\"j\"><parent link=\"base\"/><child link=\"tool\"/></joint>"),
           {"joint 'j'", "needs a type"});
  error_of(robot(link("base") + "<joint type=\"fixed\"/>"), {"needs a name"});
  error_of(robot(link("base") + "<link/>"), {"<link> needs a name"});
  error_of(robot(link("base") + "<joint name=\"j\" type=\"fixed\"><parent link=\"base\"/></joint>"),
           {"joint 'j'", "no <child>"});
  error_of(robot(link("base") + link("tool") + joint("j", "fixed", "bose", "tool")),
           {"joint 'j'", "'bose'", "does not exist", "'base'"});
  error_of(Planar{.first = "<origin quat_xyzw=\"0 0 0 1\"/>" + kZ + kLimit}.text(),
           {"joint 'j1'", "quat_xyzw"});
}

// --- The tree ---

TEST(UrdfTree, ChildrenBeforeParents) {
  const Robot arm =
      load(robot(joint("tip", "fixed", "fore", "tool", "<origin xyz=\"0.3 0 0\"/>") +
                 joint("j2", "revolute", "upper", "fore", "<origin xyz=\"0.5 0 0\"/>" + kZ + kLimit) +
                 joint("j1", "revolute", "base", "upper", kZ + kLimit) + link("tool") + link("fore") +
                 link("upper") + link("base")));
  EXPECT_EQ(arm.base_link(), "base");
  expect_near(arm.forward_kinematics(kPlanarQ), kPlanarPose, 1e-9);
}

TEST(UrdfTree, Broken) {
  error_of(robot(link("one") + link("two") + link("three") + joint("j", "fixed", "two", "three")),
           {"more than one root", "'one'", "'two'"});
  error_of(
      robot(link("A") + link("B") + link("C") + link("D") + joint("ab", "fixed", "A", "B") +
            joint("ac", "fixed", "A", "C") + joint("bd", "fixed", "B", "D") + joint("cd", "fixed", "C", "D")),
      {"link 'D'", "two parents", "'bd'", "'cd'"});
  error_of(robot(link("arm") + link("arm")), {"link 'arm'", "second link"});
  error_of(Planar{.extra = link("x") + joint("j1", "fixed", "base", "x")}.text(),
           {"joint 'j1'", "second joint"});
  error_of(robot(link("A") + link("B") + joint("ab", "fixed", "A", "B") + joint("ba", "fixed", "B", "A")),
           {"cycle"});
  error_of(robot(link("R") + link("A") + joint("aa", "fixed", "A", "A")), {"link 'A'", "cycle"}, "R");
}

// --- The tool ---

TEST(UrdfTool, LinkOrFixedJoint) {
  EXPECT_EQ(load(Planar{}.text(), "tip").ee_link(), "tool");
  EXPECT_EQ(load(Planar{}.text(), "fore").ee_frame(), "");
  EXPECT_EQ(load(Planar{}.text(), "upper").dof(), 1);
}

TEST(UrdfTool, WrongNames) {
  error_of(Planar{}.text(), {"ee_link", "'tol'", "'tool'", "'tip'"}, "tol");
  error_of(Planar{}.text(), {"ee_link", "not given", "'tool'"}, "");
  error_of(Planar{}.text(), {"'base' is the base link"}, "base");
  error_of(Planar{}.text(), {"'j2' is a revolute joint", "'fore'"}, "j2");
  error_of(robot(link("base") + link("tool") + joint("j", "fixed", "base", "tool")),
           {"no joint between", "moves"});
}

TEST(UrdfTool, NameOfLinkAndJoint) {
  // The same frame: no question.
  const std::string same = joint("pad", "fixed", "fore", "pad", "<origin xyz=\"0 0 1\"/>");
  EXPECT_EQ(load(Planar{.extra = link("pad") + same}.text(), "pad").ee_link(), "pad");
  // Different frames: both readings are offered, and both work.
  const std::string other = joint("fore", "fixed", "tool", "pad", "<origin xyz=\"0 0 1\"/>");
  const std::string xml = Planar{.extra = link("pad") + other}.text();
  error_of(xml, {"'fore' is both a link and a fixed joint", "'link:fore'", "'pad'"}, "fore");
  EXPECT_EQ(load(xml, "link:fore").ee_link(), "fore");
  EXPECT_EQ(load(xml, "joint:fore").ee_link(), "pad");
  EXPECT_EQ(load(xml, "pad").ee_link(), "pad");
}

TEST(UrdfTool, TooManyJoints) {
  std::mt19937_64 random(5);
  EXPECT_EQ(load(random_chain(32, random)).dof(), 32);
  error_of(random_chain(33, random), {"33 joints", "32"});
}

// --- Locked joints, mimics, joints off the chain ---

const std::string kGripper =
    link("finger1") + link("finger2") + link("thing") +
    joint("grip", "prismatic", "tool", "finger1", kZ + "<limit lower=\"0.01\" upper=\"0.04\"/>") +
    joint("grip2", "prismatic", "tool", "finger2",
          kZ + "<limit lower=\"0\" upper=\"0.04\"/><mimic joint=\"grip\" multiplier=\"0.5\" "
               "offset=\"0.001\"/>") +
    joint("carried", "floating", "tool", "thing");

TEST(UrdfLocks, OffTheChain) {
  const Robot arm = load(Planar{.extra = kGripper}.text());
  EXPECT_EQ(arm.dof(), 2);
  const std::map<std::string, double> expected = {{"grip", 0.01}, {"grip2", 0.006}};
  ASSERT_EQ(arm.locked_joints().size(), 2u);
  for (const auto& [name, value] : expected) EXPECT_DOUBLE_EQ(arm.locked_joints().at(name), value);

  const Robot open = load(Planar{.extra = kGripper}.text(), "tool", {{"grip", 0.03}});
  EXPECT_EQ(open.locked_joints().at("grip"), 0.03);
  EXPECT_DOUBLE_EQ(open.locked_joints().at("grip2"), 0.016);
  // What is reported can be handed back.
  EXPECT_EQ(load(Planar{.extra = kGripper}.text(), "tool", open.locked_joints()).locked_joints(),
            open.locked_joints());
}

TEST(UrdfLocks, OnTheChain) {
  const Robot whole = load(Planar{}.text());
  const Robot locked = load(Planar{}.text(), "tool", {{"j1", 0.4}});
  EXPECT_EQ(locked.dof(), 1);
  EXPECT_EQ(locked.joints()[0].name, "j2");
  EXPECT_EQ(locked.locked_joints().at("j1"), 0.4);
  expect_near(locked.forward_kinematics(std::array{0.9}), whole.forward_kinematics(kPlanarQ), 1e-15);
  error_of(Planar{}.text(), {"all joints", "locked"}, "tool", {{"j1", 0}, {"j2", 0}});
}

TEST(UrdfLocks, Refused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  error_of(Planar{}.text(), {"locked_joints", "'j3'", "'j1' and 'j2'"}, "tool", {{"j3", 0}});
  error_of(Planar{}.text(), {"joint 'tip'", "fixed"}, "tool", {{"tip", 0}});
  error_of(Planar{}.text(), {"joint 'j1'", "not finite"}, "tool", {{"j1", nan}});
  error_of(Planar{}.text(), {"joint 'j1'", "3.5", "[-3, 3]"}, "tool", {{"j1", 3.5}});
  error_of(Planar{.extra = kGripper}.text(), {"joint 'carried'", "floating"}, "tool", {{"carried", 0}});
}

TEST(UrdfLocks, ContinuousTakesAnyAngle) {
  const std::string xml = Planar{.first_type = "continuous", .first = kZ}.text();
  expect_near(load(xml, "tool", {{"j1", 0.4 + 20 * std::numbers::pi}}).forward_kinematics(std::array{0.9}),
              kPlanarPose, 1e-9);
}

TEST(UrdfMimic, OnTheChain) {
  const std::string mimic = "<mimic joint=\"j1\" multiplier=\"-1\" offset=\"0.1\"/>";
  const std::string xml = Planar{.second = kZ + kLimit + mimic}.text();
  error_of(xml, {"joint 'j2'", "mimics joint 'j1'"});
  // With either of the two locked there is nothing left to follow.
  EXPECT_EQ(load(xml, "tool", {{"j2", 0.9}}).dof(), 1);
  error_of(xml, {"all joints"}, "tool", {{"j1", 0.4}});
}

TEST(UrdfMimic, FollowersOfMovingJointsOffTheChain) {
  const std::string extra =
      link("pad") + joint("follow", "revolute", "base", "pad", kLimit + "<mimic joint=\"j1\"/>");
  const Robot arm = load(Planar{.extra = extra}.text());
  EXPECT_EQ(arm.locked_joints().at("follow"), 0);
  ASSERT_EQ(arm.warnings().size(), 1u);
  EXPECT_NE(arm.warnings()[0].find("'follow' mimics joint 'j1'"), std::string::npos);
}

TEST(UrdfMimic, Broken) {
  error_of(Planar{.second = kZ + kLimit + "<mimic joint=\"j9\"/>"}.text(),
           {"joint 'j2'", "'j9'", "does not exist"});
  error_of(Planar{.second = kZ + kLimit + "<mimic joint=\"j2\"/>"}.text(),
           {"joint 'j2'", "leads back to itself"});
  error_of(Planar{.second = kZ + kLimit + "<mimic/>"}.text(), {"joint 'j2'", "<mimic> needs a joint"});
}

TEST(UrdfJoints, PlanarAndFloatingOnTheChain) {
  error_of(Planar{.first_type = "planar"}.text(), {"joint 'j1'", "planar"});
  error_of(Planar{.first_type = "floating", .first = ""}.text(), {"joint 'j1'", "floating"});
}

// --- Robot ---

TEST(Robot, RefusesWrongConfigurations) {
  const Robot arm = load(Planar{}.text());
  EXPECT_THROW(arm.forward_kinematics(std::array{0.1}), InvalidArgument);
  EXPECT_THROW(arm.jacobian(std::array{0.1, 0.2, 0.3}), InvalidArgument);
  EXPECT_THROW(arm.forward_kinematics(std::array{0.1, std::nan("")}), InvalidArgument);
  EXPECT_THROW(arm.jacobian(std::array{double{INFINITY}, 0.0}), InvalidArgument);
}

}  // namespace
}  // namespace hjcdik
