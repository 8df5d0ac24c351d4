// Forward kinematics and Jacobian against the chain in plain matrices (support.hpp) and against
// Robot::forward_kinematics, which share no code with core/.
#include "core/kinematics.h"

#include <cmath>

#include "cpu/pack.h"
#include "support.hpp"

namespace hjcdik {
namespace {

using namespace test;

template <class S>
const core::ChainConstants<S>& constants(const Robot& robot) {
  if constexpr (sizeof(S) == 4) {
    return robot.chain().constants_f32;
  } else {
    return robot.chain().constants;
  }
}

template <class S>
double distance(const core::Vec3<S>& a, const double* b) {
  return std::sqrt(std::pow(a.x - b[0], 2) + std::pow(a.y - b[1], 2) + std::pow(a.z - b[2], 2));
}

template <class S>
double difference(const core::Frame<S>& a, const model::Transform& b) {
  const core::Frame<double> f = to_frame<double>(b);
  const auto far = [](const core::Vec3<S>& u, const core::Vec3<double>& v) {
    const double w[3] = {v.x, v.y, v.z};
    return distance(u, w);
  };
  return std::max({far(a.x, f.x), far(a.y, f.y), far(a.z, f.z), far(a.p, f.p)});
}

template <class S>
std::vector<S> to_scalars(const std::vector<double>& q) {
  return {q.begin(), q.end()};
}

template <class S>
class Kinematics : public testing::Test {
 protected:
  // Rounding grows with the number of joints and with the reach.
  static double bar(const Robot& robot) {
    const double size = std::max(1.0, robot.chain().length) * std::max(7, robot.dof()) / 7;
    return size * (sizeof(S) == 4 ? 2e-6 : 4e-15);
  }
};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(Kinematics, Scalars);

TYPED_TEST(Kinematics, EveryJointAndTheTool) {
  using S = TypeParam;
  Random random(1);
  for (const Robot& robot : sample_robots(33)) {
    const core::ChainConstants<S>& chain = constants<S>(robot);
    for (int k = 0; k < few(50); k++) {
      std::vector<double> q = random_configuration(robot, random.engine);
      const std::vector<S> q_s = to_scalars<S>(q);
      q.assign(q_s.begin(), q_s.end());  // what the float path is given
      core::JointAxes<S> axes;
      const auto tool = core::forward_kinematics(chain, q_s.data(), core::frame_of<S>(chain.start), axes);
      const PlainChain plain(robot, q);
      for (int i = 0; i < robot.dof(); i++) {
        ASSERT_LT(distance(axes.axis[i], plain.axis[i].data()), this->bar(robot))
            << robot.dof() << " joint " << i;
        ASSERT_LT(distance(axes.origin[i], plain.joint[i].position), this->bar(robot))
            << robot.dof() << " joint " << i;
      }
      ASSERT_LT(difference(tool, plain.tool), this->bar(robot)) << robot.dof();
      const Pose pose = robot.forward_kinematics(q);
      ASSERT_LT(distance(tool.p, pose.data()), this->bar(robot));

      // Without axes: the same numbers.
      const auto again = core::forward_kinematics(chain, q_s.data(), core::frame_of<S>(chain.start));
      ASSERT_EQ(tool.p.x, again.p.x);
      ASSERT_EQ(tool.y.z, again.y.z);
    }
  }
}

// Hung at target^-1 . base, the chain's tool comes out in the target's frame.
TYPED_TEST(Kinematics, StartFrameMovesTheWholeChain) {
  using S = TypeParam;
  Random random(2);
  for (const Robot& robot : sample_robots()) {
    for (int k = 0; k < few(20); k++) {
      const model::Transform base = random_transform(random);
      std::vector<double> q = random_configuration(robot, random.engine);
      const std::vector<S> q_s = to_scalars<S>(q);
      q.assign(q_s.begin(), q_s.end());
      const auto tool =
          core::forward_kinematics(constants<S>(robot), q_s.data(), start_frame<S>(robot, base));
      ASSERT_LT(difference(tool, base * PlainChain(robot, q).tool), 3 * this->bar(robot));
    }
  }
}

TYPED_TEST(Kinematics, SizeKnownWhenCompiling) {
  using S = TypeParam;
  const Robot robot = Robot::preset("panda");
  const core::ChainConstants<S>& chain = constants<S>(robot);
  Random random(3);
  const std::vector<S> q = to_scalars<S>(random_configuration(robot, random.engine));
  core::JointAxes<S, 7> axes;
  core::JointAxes<S> plain;
  const auto a = core::forward_kinematics<7>(chain, q.data(), core::frame_of<S>(chain.start), axes);
  const auto b = core::forward_kinematics(chain, q.data(), core::frame_of<S>(chain.start), plain);
  EXPECT_EQ(a.p.x, b.p.x);
  EXPECT_EQ(a.z.y, b.z.y);
  for (int i = 0; i < 7; i++) EXPECT_EQ(axes.origin[i].z, plain.origin[i].z);
}

// Central differences of the plain chain: error about h² + rounding / h.
TEST(Jacobian, ColumnsAreDerivatives) {
  Random random(4);
  constexpr double h = 1e-5;
  for (const Robot& robot : sample_robots()) {
    const double bar = 1e-9 * std::max(1.0, robot.chain().length);
    for (int k = 0; k < few(20); k++) {
      const std::vector<double> q = random_configuration(robot, random.engine);
      core::JointAxes<double> axes;
      const auto tool =
          core::forward_kinematics(robot.chain().constants, q.data(), start_frame<double>(robot, {}), axes);
      const std::vector<double> geometric = robot.jacobian(q);
      for (int i = 0; i < robot.dof(); i++) {
        const core::Twist<double> t =
            core::jacobian_column(axes, i, robot.chain().constants.joint[i].prismatic, tool.p);
        std::vector<double> plus = q, minus = q;
        plus[std::size_t(i)] += h;
        minus[std::size_t(i)] -= h;
        const model::Transform a = PlainChain(robot, minus).tool, b = PlainChain(robot, plus).tool;
        const core::Vec3<double> linear = {(b.position[0] - a.position[0]) / (2 * h),
                                           (b.position[1] - a.position[1]) / (2 * h),
                                           (b.position[2] - a.position[2]) / (2 * h)};
        // R(+h) R(-h)ᵀ = I + 2h [angular] to third order.
        const model::Transform turn = b * model::inverse(a);
        const double* r = turn.rotation;
        const core::Vec3<double> angular = {(r[7] - r[5]) / (4 * h), (r[2] - r[6]) / (4 * h),
                                            (r[3] - r[1]) / (4 * h)};
        const auto far = [](const core::Vec3<double>& u, const core::Vec3<double>& v) {
          return std::sqrt(core::dot(u - v, u - v));
        };
        ASSERT_LT(far(t.linear, linear), bar) << "joint " << i;
        ASSERT_LT(far(t.angular, angular), bar) << "joint " << i;
        ASSERT_NEAR(t.linear.x, geometric[std::size_t(i)], 1e-13 * std::max(1.0, robot.chain().length));
        ASSERT_NEAR(t.angular.z, geometric[std::size_t(5 * robot.dof() + i)], 1e-13);
      }
    }
  }
}

TEST(KinematicsOfPack, LanesAreScalars) {
  using Pack = core::Pack<float, 8>;
  Random random(5);
  for (const Robot& robot : sample_robots()) {
    const core::ChainConstants<float>& chain = robot.chain().constants_f32;
    std::vector<Pack> q(std::size_t(robot.dof()), Pack(0.0f));
    std::vector<std::vector<float>> lanes;
    for (int lane = 0; lane < 8; lane++) {
      lanes.push_back(to_scalars<float>(random_configuration(robot, random.engine)));
      for (std::size_t i = 0; i < q.size(); i++) q[i].set(lane, lanes.back()[i]);
    }
    core::JointAxes<Pack> axes;
    core::JointAxes<float> axes_1;
    const auto tool = core::forward_kinematics(chain, q.data(), core::frame_of<Pack>(chain.start), axes);
    const float bar = 2e-6f * float(std::max(1.0, robot.chain().length));
    for (int lane = 0; lane < 8; lane++) {
      const auto one = core::forward_kinematics(chain, lanes[std::size_t(lane)].data(),
                                                core::frame_of<float>(chain.start), axes_1);
      EXPECT_NEAR(tool.p.x[lane], one.p.x, bar);
      EXPECT_NEAR(tool.p.z[lane], one.p.z, bar);
      EXPECT_NEAR(tool.x.y[lane], one.x.y, bar);
      const int last = robot.dof() - 1;
      EXPECT_NEAR(axes.axis[last].y[lane], axes_1.axis[last].y, bar);
    }
  }
}

}  // namespace
}  // namespace hjcdik
