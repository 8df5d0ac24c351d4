// The chain's constants against forward kinematics by the URDF's own joints, and what is derived
// from them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "core/kinematics.h"
#include "model/urdf_builder.hpp"

namespace hjcdik {
namespace {

using namespace test;
using model::Transform;

// The formula at the head of core/chain.h, word for word.
Transform tool_by_constants(const core::ChainConstants<double>& chain, const std::vector<double>& q) {
  const double x[] = {1, 0, 0}, z[] = {0, 0, 1};
  Transform pose;
  std::copy_n(chain.start, 9, pose.rotation);
  std::copy_n(chain.start + 9, 3, pose.position);
  for (int i = 0; i < chain.dof; ++i) {
    const core::JointConstants<double>& joint = chain.joint[i];
    if (joint.prismatic) {
      EXPECT_NEAR(joint.cos_offset, std::cos(joint.offset), 1e-16);
      EXPECT_NEAR(joint.sin_offset, std::sin(joint.offset), 1e-16);
      pose = pose * model::rotation_about(z, joint.offset) * model::translation_along(z, q[i]);
    } else {
      pose = pose * model::rotation_about(z, q[i] + joint.offset);
    }
    Transform moved;
    std::copy_n(joint.translation, 3, moved.position);
    EXPECT_NEAR(joint.cos_alpha * joint.cos_alpha + joint.sin_alpha * joint.sin_alpha, 1, 1e-15);
    pose = pose * moved * model::rotation_about(x, std::atan2(joint.sin_alpha, joint.cos_alpha));
  }
  return pose * model::rotation_about(z, std::atan2(chain.sin_end, chain.cos_end));
}

Transform tool_by_joints(const model::Chain& chain, const std::vector<double>& q) {
  Transform pose;
  for (std::size_t i = 0; i < q.size(); ++i) {
    const model::Joint& joint = chain.joints[i];
    pose = pose * joint.origin *
           (joint.info.type == JointType::prismatic ? model::translation_along(joint.axis, q[i])
                                                    : model::rotation_about(joint.axis, q[i]));
  }
  return pose * chain.tool;
}

double difference(const Transform& a, const Transform& b) {
  double largest = 0;
  for (int i = 0; i < 9; ++i) largest = std::max(largest, std::abs(a.rotation[i] - b.rotation[i]));
  for (int i = 0; i < 3; ++i) largest = std::max(largest, std::abs(a.position[i] - b.position[i]));
  return largest;
}

TEST(Chain, ConstantsReproduceTheJoints) {
  std::mt19937_64 random(20261130);
  double worst = 0;
  for (int n = 1; n <= 32; ++n) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      const Robot arm = load(random_chain(n, random));
      ASSERT_EQ(arm.dof(), n);
      for (int k = 0; k < 5; ++k) {
        const std::vector<double> q = random_configuration(arm, random);
        worst = std::max(
            worst, difference(tool_by_constants(arm.chain().constants, q), tool_by_joints(arm.chain(), q)));
      }
    }
  }
  EXPECT_LT(worst, 1e-13);
}

// The numerics' own steps along the chain, with points of every joint's frame brought into theirs.
TEST(Chain, PointsInTheFramesOfTheConstants) {
  std::mt19937_64 random(20261201);
  double worst = 0;
  for (int n = 1; n <= 32; ++n) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      const Robot arm = load(random_chain(n, random));
      const model::Chain& chain = arm.chain();
      ASSERT_EQ(chain.to_constants.size(), static_cast<std::size_t>(n));
      const std::vector<double> q = random_configuration(arm, random);
      core::Frame<double> step = core::frame_of<double>(chain.constants.start);
      Transform pose;
      for (std::size_t i = 0; i < q.size(); ++i) {
        pose = pose * chain.joints[i].origin * model::motion(chain.joints[i], q[i]);
        core::move_joint(step, chain.constants.joint[i], q[i]);
        Transform turned;
        const core::Vec3<double>* columns[] = {&step.x, &step.y, &step.z};
        for (std::size_t k = 0; k < 3; ++k) {
          turned.rotation[k] = columns[k]->x;
          turned.rotation[3 + k] = columns[k]->y;
          turned.rotation[6 + k] = columns[k]->z;
        }
        turned.position[0] = step.p.x;
        turned.position[1] = step.p.y;
        turned.position[2] = step.p.z;
        worst = std::max(worst, difference(turned * chain.to_constants[i], pose));
        for (const double x : chain.to_constants[i].position) EXPECT_EQ(x, 0);
        core::move_link(step, chain.constants.joint[i]);
      }
    }
  }
  EXPECT_LT(worst, 1e-12);
}

// One link: the decomposition itself, where angles are small, right, or cut off after some decimals.
TEST(Chain, DecompositionIsExact) {
  for (const double roll : {0.0, 1e-17, 1e-15, 1e-12, 1e-9, 1e-5, 1.57079632679, 1.570796327,
                            1.5707963267948966, 3.141592653589793, 3.14159, -1.57079632679}) {
    for (const double yaw : {0.0, 0.7, -2.35619449019, 3.141592653589793}) {
      const std::string xml =
          robot(link("base") + link("arm") + link("tool") + joint("j", "continuous", "base", "arm", kZ) +
                joint("tip", "fixed", "arm", "tool",
                      "<origin xyz=\"0.1 -0.2 0.3\" rpy=\"" + model::to_text(roll) + " 0 " +
                          model::to_text(yaw) + "\"/>"));
      const Robot arm = load(xml);
      const std::vector<double> q = {0.0};
      EXPECT_LT(difference(tool_by_constants(arm.chain().constants, q), tool_by_joints(arm.chain(), q)),
                2e-15)
          << roll << " " << yaw;
    }
  }
}

TEST(Chain, TruncatedRightAnglesAreKept) {
  const Robot arm =
      load(robot(link("base") + link("a") + link("tool") + joint("j1", "continuous", "base", "a", kZ) +
                 joint("j2", "continuous", "a", "tool", "<origin rpy=\"1.57079632679 0 0\"/>" + kZ)));
  EXPECT_NEAR(arm.chain().constants.joint[0].cos_alpha, std::cos(1.57079632679), 1e-17);
  EXPECT_GT(arm.chain().constants.joint[0].cos_alpha, 1e-12);
}

TEST(Chain, Wraps) {
  const auto wraps = [](const std::string& type, const std::string& limit) {
    return load(Planar{.first_type = type, .first = kZ + limit}.text()).chain().constants.joint[0].wraps;
  };
  EXPECT_TRUE(wraps("continuous", ""));
  EXPECT_FALSE(wraps("revolute", "<limit lower=\"-3.141592653589793\" upper=\"3.141592653589793\"/>"));
  EXPECT_FALSE(wraps("revolute", "<limit lower=\"0.3927\" upper=\"6.6758853071795861\"/>"));
  EXPECT_TRUE(wraps("revolute", "<limit lower=\"-6.28\" upper=\"6.28\"/>"));
  EXPECT_FALSE(wraps("revolute", "<limit lower=\"-3.14159\" upper=\"3.14159\"/>"));
  EXPECT_FALSE(wraps("prismatic", "<limit lower=\"0\" upper=\"10\"/>"));
}

TEST(Chain, FloatLimitsLieInside) {
  std::mt19937_64 random(7);
  for (int repeat = 0; repeat < 100; ++repeat) {
    const Robot arm = load(random_chain(8, random));
    const model::Chain& chain = arm.chain();
    for (int i = 0; i < 8; ++i) {
      const auto& f64 = chain.constants.joint[i];
      const auto& f32 = chain.constants_f32.joint[i];
      EXPECT_LE(f64.lower, static_cast<double>(f32.lower));
      EXPECT_GE(f64.upper, static_cast<double>(f32.upper));
      EXPECT_LT(static_cast<double>(std::nextafterf(f32.lower, -INFINITY)),
                f64.lower);  // and no farther than need be
      EXPECT_GT(static_cast<double>(std::nextafterf(f32.upper, INFINITY)), f64.upper);
      // Rounded to nearest, and what is below the rounding of 1 to zero.
      EXPECT_EQ(f32.offset, std::abs(f64.offset) < 1e-8 ? 0.0f : static_cast<float>(f64.offset));
      EXPECT_EQ(f32.cos_alpha, std::abs(f64.cos_alpha) < 1e-8 ? 0.0f : static_cast<float>(f64.cos_alpha));
    }
  }
}

TEST(Chain, FloatLimitsOfAPinnedJoint) {
  const auto limits = [](const std::string& lower, const std::string& upper) {
    const Robot arm =
        load(Planar{.first = kZ + "<limit lower=\"" + lower + "\" upper=\"" + upper + "\"/>"}.text());
    const auto& joint = arm.chain().constants_f32.joint[0];
    return std::pair{joint.lower, joint.upper};
  };
  EXPECT_EQ(limits("0.9", "0.9"), (std::pair{0.9f, 0.9f}));
  EXPECT_EQ(limits("0.90000000001", "0.90000000002"), (std::pair{0.9f, 0.9f}));
  EXPECT_EQ(limits("0.5", "0.5"), (std::pair{0.5f, 0.5f}));
}

// --- Kinematics ---

TEST(Kinematics, JacobianAgreesWithDifferences) {
  std::mt19937_64 random(11);
  for (int n : {1, 2, 6, 7, 15, 32}) {
    for (int repeat = 0; repeat < 5; ++repeat) {
      const Robot arm = load(random_chain(n, random));
      const std::vector<double> q = random_configuration(arm, random);
      const std::vector<double> jacobian = arm.jacobian(q);
      ASSERT_EQ(jacobian.size(), 6u * static_cast<std::size_t>(n));
      const double h = 1e-6;
      for (int i = 0; i < n; ++i) {
        std::vector<double> ahead = q, behind = q;
        ahead[i] += h;
        behind[i] -= h;
        const Transform a = tool_by_joints(arm.chain(), ahead), b = tool_by_joints(arm.chain(), behind);
        // R_a R_b^T = 1 + 2 h [w]x to second order.
        const Transform turn = a * model::inverse(b);
        const double rate[6] = {
            (a.position[0] - b.position[0]) / (2 * h),       (a.position[1] - b.position[1]) / (2 * h),
            (a.position[2] - b.position[2]) / (2 * h),       (turn.rotation[7] - turn.rotation[5]) / (4 * h),
            (turn.rotation[2] - turn.rotation[6]) / (4 * h), (turn.rotation[3] - turn.rotation[1]) / (4 * h)};
        for (int k = 0; k < 6; ++k) EXPECT_NEAR(jacobian[k * n + i], rate[k], 2e-8);
      }
    }
  }
}

// Quaternions of all rotations, half turns among them.
TEST(Kinematics, QuaternionsOfAllRotations) {
  std::mt19937_64 random(13);
  const double pi = std::numbers::pi;
  for (const double angle : {0.0, 1e-12, 1e-8, 0.5, pi / 2, 2.0, pi - 1e-8, pi - 1e-12, pi, pi + 1e-12}) {
    for (int repeat = 0; repeat < 30; ++repeat) {
      double axis[3] = {0, 0, 0};
      if (repeat < 3) {
        axis[repeat] = 1;
      } else {
        for (double& x : axis) x = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
      }
      const std::string xyz =
          model::to_text(axis[0]) + " " + model::to_text(axis[1]) + " " + model::to_text(axis[2]);
      const Robot arm = load(robot(link("base") + link("tool") +
                                   joint("j", "continuous", "base", "tool", "<axis xyz=\"" + xyz + "\"/>")));
      const Pose pose = arm.forward_kinematics(std::array{angle});
      const double norm = std::hypot(axis[0], axis[1], axis[2]);
      double expected[4] = {std::cos(angle / 2)};
      for (int k = 0; k < 3; ++k) expected[k + 1] = std::sin(angle / 2) * axis[k] / norm;
      double dot = 0;
      for (int k = 0; k < 4; ++k) dot += expected[k] * pose[3 + k];
      for (int k = 0; k < 4; ++k) EXPECT_NEAR(pose[3 + k], std::copysign(1.0, dot) * expected[k], 1e-15);
      EXPECT_GE(pose[3], 0);
      EXPECT_FALSE(std::signbit(pose[3]));
    }
  }
}

// --- Reach ---

bool may_reach(const Robot& arm, const Transform& pose) {
  return model::may_reach(arm.chain(), pose.position, pose.rotation);
}

TEST(Reach, HoldsForEveryConfiguration) {
  std::mt19937_64 random(17);
  for (int repeat = 0; repeat < 300; ++repeat) {
    const Robot arm = load(random_chain(1 + repeat % 12, random));
    const model::Chain& chain = arm.chain();
    EXPECT_LE(chain.reach.span[0], chain.reach.span[1]);
    for (int k = 0; k < 100; ++k) {
      const Transform tool = tool_by_joints(chain, random_configuration(arm, random));
      EXPECT_TRUE(may_reach(arm, tool));
      double squared = 0;
      for (int i = 0; i < 3; ++i) squared += std::pow(tool.position[i] - chain.constants.start[9 + i], 2);
      // A slide as first joint moves its own origin, which start does not.
      EXPECT_LE(std::sqrt(squared), chain.reach.radius);
    }
  }
}

// Random configurations hardly ever come near a bound; climbing does.
TEST(Reach, HoldsWhereTheArmIsStretchedAndFolded) {
  std::mt19937_64 random(29);
  int near_far_end = 0, near_near_end = 0;
  for (int repeat = 0; repeat < 200; ++repeat) {
    const Robot arm = load(random_chain(2 + repeat % 4, random));
    const model::Chain& chain = arm.chain();
    const auto distance = [&](const std::vector<double>& q) {
      const Transform tool = tool_by_joints(chain, q);
      double squared = 0;
      for (int i = 0; i < 3; ++i) {
        double x = tool.position[i] - chain.reach.anchor[i];
        for (int k = 0; k < 3; ++k) x += tool.rotation[3 * i + k] * chain.reach.wrist[k];
        squared += x * x;
      }
      return std::sqrt(squared);
    };
    for (const double sign : {1.0, -1.0}) {
      std::vector<double> q = random_configuration(arm, random);
      double best = distance(q);
      for (int step = 0; step < 400; ++step) {
        std::vector<double> next = q;
        const std::size_t i = random() % q.size();
        const JointInfo& info = arm.joints()[i];
        const double size = std::pow(10.0, -static_cast<double>(step) / 100) * (random() % 2 ? 1 : -1);
        next[i] = std::clamp(q[i] + size * (info.upper - info.lower), info.lower, info.upper);
        const double there = distance(next);
        if (sign * there > sign * best) best = there, q = next;
      }
      EXPECT_LE(best, chain.reach.span[1]);
      EXPECT_GE(best, chain.reach.span[0]);
      if (sign > 0 && best > 0.99 * chain.reach.span[1]) ++near_far_end;
      if (sign < 0 && chain.reach.span[0] > 0.01 && best < 1.01 * chain.reach.span[0]) ++near_near_end;
    }
  }
  // The bounds are met, not just kept.
  EXPECT_GT(near_far_end, 50);
  EXPECT_GT(near_near_end, 5);
}

TEST(Reach, PlanarArm) {
  const Robot arm = load(Planar{}.text());
  EXPECT_NEAR(arm.chain().length, 0.8, 1e-15);
  EXPECT_NEAR(arm.chain().reach.radius, 0.8, 2e-6);
  Transform pose;
  for (const auto& [x, expected] : {std::pair{0.8, true}, {0.8 + 1e-9, true}, {0.81, false}, {10.0, false}}) {
    pose.position[0] = x;
    EXPECT_EQ(may_reach(arm, pose), expected) << x;
  }
  // The elbow's place is known from the pose, so a tool near enough may still be out of reach.
  pose.position[0] = 0.1;
  EXPECT_FALSE(may_reach(arm, pose));
}

TEST(Reach, LimitsOfTheElbowCount) {
  // Upper arm and forearm of 0.5 m, bent between 1 and 2 rad, with two crossing axes at either end.
  const std::string x = "<axis xyz=\"1 0 0\"/>", y = "<axis xyz=\"0 1 0\"/>";
  const std::string half = "<origin xyz=\"0.5 0 0\"/>";
  const Robot arm =
      load(robot(link("base") + link("a") + link("b") + link("c") + link("d") + link("tool") +
                 joint("j1", "continuous", "base", "a", x) + joint("j2", "continuous", "a", "b", y) +
                 joint("j3", "revolute", "b", "c", half + kZ + "<limit lower=\"1\" upper=\"2\"/>") +
                 joint("j4", "continuous", "c", "d", half + y) + joint("j5", "continuous", "d", "e", x) +
                 link("e") + joint("tip", "fixed", "e", "tool", "<origin xyz=\"0.1 0 0\"/>")));
  EXPECT_NEAR(arm.chain().reach.span[1], 2 * 0.5 * std::cos(0.5), 1e-5);
  EXPECT_NEAR(arm.chain().reach.span[0], 2 * 0.5 * std::cos(1.0), 1e-5);
}

TEST(Reach, SlidesCount) {
  const Robot arm =
      load(robot(link("base") + link("a") + link("tool") +
                 joint("s", "prismatic", "base", "a", kZ + "<limit lower=\"-2\" upper=\"10\"/>") +
                 joint("j", "continuous", "a", "tool", "<origin xyz=\"0 0 1\"/>" + kZ)));
  EXPECT_NEAR(arm.chain().length, 11, 1e-12);
  EXPECT_NEAR(arm.chain().reach.radius, 11, 1e-5);
}

// --- The generated text ---

TEST(ChainText, DependsOnTheChainAlone) {
  std::mt19937_64 random(19);
  const std::string xml = random_chain(7, random);
  const Robot arm = load(xml);
  std::string renamed = xml;
  renamed.replace(renamed.find("name=\"r\""), 8, "name=\"*/ #error\n\"");
  const Robot other = Robot::from_urdf_text(renamed, {"tip", {}}, "another/path.urdf");
  EXPECT_EQ(arm.header_text(), other.header_text());
  EXPECT_EQ(arm.header_text(), model::chain_text(arm.chain()));
  EXPECT_NE(arm.header_text(), load(random_chain(7, random)).header_text());
}

// Every literal of the text, read back, is the constant it stands for, bit for bit.
TEST(ChainText, LiteralsAreExact) {
  std::mt19937_64 random(23);
  const Robot arm = load(random_chain(5, random));
  const std::string text = arm.header_text().substr(arm.header_text().find("f64 = "));
  std::vector<double> found;
  for (std::size_t at = text.find("0x"); at != std::string::npos; at = text.find("0x", at)) {
    const bool negative = text[at - 1] == '-';
    char* end = nullptr;
    const double value = std::strtod(text.c_str() + at, &end);
    found.push_back(negative ? -value : value);
    at = static_cast<std::size_t>(end - text.c_str());
  }
  std::vector<double> expected;
  const auto append = [&](const auto& chain) {
    expected.insert(expected.end(), chain.start, chain.start + 12);
    for (int i = 0; i < chain.dof; ++i) {
      const auto& j = chain.joint[i];
      for (const double x : {double(j.cos_alpha), double(j.sin_alpha), double(j.translation[0]),
                             double(j.translation[1]), double(j.translation[2]), double(j.offset),
                             double(j.cos_offset), double(j.sin_offset), double(j.lower), double(j.upper)}) {
        expected.push_back(x);
      }
    }
    expected.push_back(chain.cos_end);
    expected.push_back(chain.sin_end);
  };
  append(arm.chain().constants);
  append(arm.chain().constants_f32);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(std::memcmp(&found[i], &expected[i], sizeof(double)), 0)
        << i << ": " << found[i] << " " << expected[i];
  }
}

}  // namespace
}  // namespace hjcdik
