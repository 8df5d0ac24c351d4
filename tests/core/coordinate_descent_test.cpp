// Coordinate descent against brute force: a fine grid of the joint's range on the chain in plain
// matrices.
#include "core/coordinate_descent.h"

#include <cmath>
#include <numbers>

#include "support.hpp"

namespace hjcdik {
namespace {

using namespace test;

constexpr double kWeight = 0.05;  // m²

// The misfit that best_move lowers, as documented: |p|² + 2 w (3 - trace R), in the target's frame.
double misfit(const Robot& robot, const std::vector<double>& q, const model::Transform& base) {
  const model::Transform tool = PlainChain(robot, q, base).tool;
  const double *p = tool.position, *r = tool.rotation;
  return p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + 2 * kWeight * (3 - r[0] - r[4] - r[8]);
}

struct Case {
  Robot robot;
  core::ChainConstants<double> chain;
  model::Transform base;
  std::vector<double> q;

  core::Frame<double> start() const { return start_frame<double>(robot, base); }
  int dof() const { return robot.dof(); }

  // Every joint's move from here.
  std::vector<core::JointMove<double>> moves() const {
    core::JointAxes<double> axes;
    const auto tool = core::forward_kinematics(chain, q.data(), start(), axes);
    std::vector<core::JointMove<double>> result;
    for (int i = 0; i < dof(); i++) {
      result.push_back(
          core::best_move(chain.joint[i], axes.axis[i], axes.origin[i], tool, q[std::size_t(i)], kWeight));
    }
    return result;
  }
  double misfit_with(std::size_t i, double value) const {
    std::vector<double> moved = q;
    moved[i] = value;
    return misfit(robot, moved, base);
  }
};

// Chains of all joint types under targets within and out of reach; limits narrowed at random, so that
// the best turn is often outside or on the other side.
std::vector<Case> sample_cases(Random& random, int per_robot) {
  std::vector<Case> cases;
  for (const Robot& robot : sample_robots(20)) {
    for (int k = 0; k < per_robot; k++) {
      Case c{robot, robot.chain().constants,
             random_transform(random, std::max(0.2, robot.chain().length / 2)),
             random_configuration(robot, random.engine)};
      if (k % 2) c.base = model::inverse(PlainChain(robot, random_configuration(robot, random.engine)).tool);
      for (int i = 0; i < c.dof(); i++) {
        auto& joint = c.chain.joint[i];
        if (random.below(2)) continue;
        const double a = random.uniform(joint.lower, joint.upper),
                     b = random.uniform(joint.lower, joint.upper);
        joint.lower = std::min(a, b);
        joint.upper = std::max(a, b);
        joint.wraps = false;
        double& q = c.q[std::size_t(i)];
        q = random.below(4)   ? random.uniform(joint.lower, joint.upper)
            : random.below(2) ? joint.lower
                              : joint.upper;
      }
      cases.push_back(c);
    }
  }
  return cases;
}

TEST(BestMove, IsTheGlobalOptimum) {
  Random random(1);
  int at_limit = 0, inside = 0;
  for (const Case& c : sample_cases(random, few(30))) {
    const auto moves = c.moves();
    for (std::size_t i = 0; i < c.q.size(); i++) {
      const auto& joint = c.chain.joint[i];
      ASSERT_GE(moves[i].q, joint.lower);
      ASSERT_LE(moves[i].q, joint.upper);
      const double here = c.misfit_with(i, c.q[i]), reached = c.misfit_with(i, moves[i].q);
      const double rounding = 1e-11 * (1 + here);
      // The gain is half of what the misfit falls by.
      ASSERT_NEAR(2 * moves[i].gain, here - reached, rounding);
      ASSERT_NEAR(moves[i].change, moves[i].q - c.q[i], 1e-14);
      constexpr int kGrid = 300;
      for (int g = 0; g <= kGrid; g++) {
        const double value = joint.lower + (joint.upper - joint.lower) * g / kGrid;
        ASSERT_GE(c.misfit_with(i, value), reached - rounding)
            << to_string(c.robot.joints()[i].type) << " [" << joint.lower << ", " << joint.upper << "] at "
            << c.q[i] << " went to " << moves[i].q << ", but " << value << " is better";
      }
      (moves[i].q == joint.lower || moves[i].q == joint.upper ? at_limit : inside)++;
    }
  }
  // Both kinds were there.
  EXPECT_GT(at_limit, few(500));
  EXPECT_GT(inside, few(500));
}

// A range of almost a turn whose optimum is only inside the other way round.
TEST(BestMove, GoesTheOtherWayRound) {
  const Robot robot = load(Planar{.first = kZ + "<limit lower=\"-3\" upper=\"3\"/>"}.text());
  for (const double side : {-1.0, 1.0}) {
    Case c{robot, robot.chain().constants, {}, {2.9 * side, 0.0}};
    c.base = model::inverse(PlainChain(robot, {-2.9 * side, 0.0}).tool);
    EXPECT_NEAR(c.moves()[0].q, -2.9 * side, 1e-12);
  }
}

TEST(BestMove, SlideGoesAllTheWay) {
  const Robot robot =
      load(Planar{.first_type = "prismatic", .first = kZ + "<limit lower=\"0\" upper=\"10\"/>"}.text());
  Case c{robot, robot.chain().constants, {}, {1.0, 0.0}};
  c.base = model::inverse(PlainChain(robot, {7.5, 0.0}).tool);
  EXPECT_NEAR(c.moves()[0].q, 7.5, 1e-12);
  c.base = model::inverse(PlainChain(robot, {25, 0.0}).tool);
  EXPECT_EQ(c.moves()[0].q, 10.0);
}

TEST(DescentSweep, VisitsEveryJointOnceFromTheTool) {
  Random random(2);
  for (const Case& c : sample_cases(random, few(30))) {
    core::JointAxes<double> axes;
    Case swept = c;
    core::descent_sweep(c.chain, c.start(), kWeight, swept.q.data(), axes);
    // The same by single moves, each with a forward kinematics of its own.
    Case step = c;
    for (std::size_t i = c.q.size(); i-- > 0;) step.q[i] = step.moves()[i].q;
    const double a = misfit(c.robot, swept.q, c.base), b = misfit(c.robot, step.q, c.base);
    ASSERT_NEAR(a, b, 1e-9 * (1 + a));
    ASSERT_LE(a, misfit(c.robot, c.q, c.base) * (1 + 1e-12) + 1e-12);
    for (std::size_t i = 0; i < c.q.size(); i++) {
      ASSERT_GE(swept.q[i], c.chain.joint[i].lower);
      ASSERT_LE(swept.q[i], c.chain.joint[i].upper);
    }
  }
}

TEST(DescentGreedyStep, MovesTheJointOfTheLargestGain) {
  Random random(3);
  int moved_cases = 0;
  for (const Case& c : sample_cases(random, few(30))) {
    core::JointAxes<double> axes;
    Case moved = c;
    core::descent_greedy_step(c.chain, c.start(), kWeight, moved.q.data(), axes);
    std::size_t changed = 0, which = 0;
    for (std::size_t i = 0; i < c.q.size(); i++) {
      if (moved.q[i] != c.q[i]) changed++, which = i;
    }
    ASSERT_LE(changed, 1u);
    const double before = misfit(c.robot, c.q, c.base), after = misfit(c.robot, moved.q, c.base);
    ASSERT_LE(after, before * (1 + 1e-12));
    if (changed == 0) continue;
    moved_cases++;
    // No joint does better by a move of its own, on a grid of its range.
    for (std::size_t i = 0; i < c.q.size(); i++) {
      const auto& joint = c.chain.joint[i];
      for (int g = 0; g <= 200; g++) {
        const double value = joint.lower + (joint.upper - joint.lower) * g / 200;
        ASSERT_GE(c.misfit_with(i, value), after - 1e-11 * (1 + before))
            << "joint " << i << ", not " << which;
      }
    }
  }
  EXPECT_GT(moved_cases, few(500));
}

// Descent alone comes to a standstill: repeated, both orders fall monotonically.
TEST(Descent, NeverClimbs) {
  Random random(4);
  for (const Case& c : sample_cases(random, few(10))) {
    for (const bool greedy : {false, true}) {
      std::vector<double> q = c.q;
      core::JointAxes<double> axes;
      double last = misfit(c.robot, q, c.base);
      const double first = last;
      for (int k = 0; k < 20; k++) {
        if (greedy) {
          core::descent_greedy_step(c.chain, c.start(), kWeight, q.data(), axes);
        } else {
          core::descent_sweep(c.chain, c.start(), kWeight, q.data(), axes);
        }
        const double now = misfit(c.robot, q, c.base);
        ASSERT_LE(now, last + 1e-12 * (1 + first));
        last = now;
      }
    }
  }
}

}  // namespace
}  // namespace hjcdik
