// The 6 x 6 step against the n x n normal equations, solved densely in long double on a Jacobian and a
// residual taken from the chain in plain matrices.
#include "core/levenberg_marquardt.h"

#include <cmath>
#include <numbers>

#include "cpu/pack.h"
#include "support.hpp"

namespace hjcdik {
namespace {

using namespace test;
using Big = long double;

template <class S>
core::ChainConstants<S> constants(const Robot& robot) {
  if constexpr (sizeof(S) == 4) {
    return robot.chain().constants_f32;
  } else {
    return robot.chain().constants;
  }
}

// -log of a rotation, for angles below pi.
std::vector<Big> undoing_rotation(const double* r) {
  const Big w[3] = {Big(r[5]) - r[7], Big(r[6]) - r[2], Big(r[1]) - r[3]};
  const Big sine = std::sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]), cosine = Big(r[0]) + r[4] + r[8] - 1;
  const Big factor = sine > 0 ? std::atan2(sine, cosine) / sine : Big(0.5);
  return {factor * w[0], factor * w[1], factor * w[2]};
}

struct Reference {
  std::vector<double> q_next;
  std::vector<bool> held;
  double distance, angle, error;
  bool clear;  // no decision hangs on rounding
};

// The documented step: normal equations (JᵀJ + lambda I) dq = Jᵀr of the joints that are free to move.
template <class S>
Reference reference_step(const Robot& robot, const core::ChainConstants<S>& chain,
                         const model::Transform& base, const core::Weights<S>& weights,
                         const std::vector<S>& q_s) {
  const std::vector<double> q(q_s.begin(), q_s.end());
  const std::size_t n = q.size();
  const PlainChain plain(robot, q, base);
  const double* p = plain.tool.position;
  const std::vector<Big> rotation = undoing_rotation(plain.tool.rotation);
  Reference out{q, std::vector<bool>(n, false), 0, 0, 0, true};
  std::vector<Big> r(6);
  for (std::size_t k = 0; k < 3; k++) {
    r[k] = -Big(weights.factor[k]) * p[k];
    r[3 + k] = Big(weights.factor[3 + k]) * rotation[k];
    out.distance += p[k] * p[k];
    out.angle += double(rotation[k] * rotation[k]);
  }
  out.distance = std::sqrt(out.distance);
  out.angle = std::sqrt(out.angle);
  Big error = 0;
  for (const Big v : r) error += v * v;
  out.error = double(error);
  const Big lambda = Big(0.1) * error + weights.damping_floor;

  std::vector<Big> column(6 * n, 0), a(n * n, 0), b(n, 0);
  for (std::size_t i = 0; i < n; i++) {
    const double *z = plain.axis[i].data(), *o = plain.joint[i].position;
    for (std::size_t k = 0; k < 3; k++) {
      const std::size_t k1 = (k + 1) % 3, k2 = (k + 2) % 3;
      const bool slides = robot.joints()[i].type == JointType::prismatic;
      const Big linear = slides ? Big(z[k]) : Big(z[k1]) * (p[k2] - o[k2]) - Big(z[k2]) * (p[k1] - o[k1]);
      column[6 * i + k] = weights.factor[k] * linear;
      column[6 * i + 3 + k] = slides ? Big(0) : Big(weights.factor[3 + k]) * z[k];
    }
    Big gradient = 0;
    for (std::size_t k = 0; k < 6; k++) gradient += column[6 * i + k] * r[k];
    const bool at_lower = q_s[i] <= chain.joint[i].lower, at_upper = q_s[i] >= chain.joint[i].upper;
    if (!chain.joint[i].wraps && (at_lower || at_upper)) {
      out.held[i] = (at_lower && gradient < 0) || (at_upper && gradient > 0);
      out.clear = out.clear && std::abs(gradient) > 1e-4 * double(error);
      if (out.held[i]) std::fill_n(column.begin() + std::ptrdiff_t(6 * i), 6, Big(0));
    }
  }
  for (std::size_t i = 0; i < n; i++) {
    for (std::size_t j = 0; j < n; j++) {
      for (std::size_t k = 0; k < 6; k++) a[i * n + j] += column[6 * i + k] * column[6 * j + k];
    }
    a[i * n + i] += lambda;
    for (std::size_t k = 0; k < 6; k++) b[i] += column[6 * i + k] * r[k];
  }
  // Gauss; the matrix is positive definite.
  for (std::size_t c = 0; c < n; c++) {
    for (std::size_t i = c + 1; i < n; i++) {
      const Big f = a[i * n + c] / a[c * n + c];
      for (std::size_t k = c; k < n; k++) a[i * n + k] -= f * a[c * n + k];
      b[i] -= f * b[c];
    }
  }
  for (std::size_t c = n; c-- > 0;) {
    for (std::size_t k = c + 1; k < n; k++) b[c] -= a[c * n + k] * b[k];
    b[c] /= a[c * n + c];
    const double step = std::clamp(double(b[c]), -1.0, 1.0);
    const double lower = chain.joint[c].lower, upper = chain.joint[c].upper;
    double next = q[c] + step;
    if (chain.joint[c].wraps && next > upper) next -= 2 * std::numbers::pi;
    if (chain.joint[c].wraps && next < lower) next += 2 * std::numbers::pi;
    out.q_next[c] = std::clamp(next, lower, upper);
  }
  return out;
}

template <class S>
class LevenbergMarquardt : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(LevenbergMarquardt, Scalars);

// Where the target is random the step may take the far branch at pi: such cases are left out.
TYPED_TEST(LevenbergMarquardt, EqualsTheNormalEquations) {
  using S = TypeParam;
  Random random(1);
  int compared = 0, held = 0;
  for (const Robot& robot : sample_robots(24)) {
    const core::ChainConstants<S> chain = constants<S>(robot);
    const double size = std::max(0.1, robot.chain().length);
    for (int k = 0; k < few(100); k++) {
      const std::vector<double> q_d = random_configuration(robot, random.engine);
      std::vector<S> q(q_d.begin(), q_d.end()), next(q.size());
      for (std::size_t i = 0; i < q.size(); i++) {
        // The corners of the range exactly, and often.
        if (random.below(8) == 0) q[i] = random.below(2) ? chain.joint[i].lower : chain.joint[i].upper;
        q[i] = std::clamp(q[i], chain.joint[i].lower, chain.joint[i].upper);
      }
      model::Transform base =
          model::inverse(PlainChain(robot, random_configuration(robot, random.engine)).tool);
      if (k % 3 == 0) base = random_transform(random, size);
      core::Weights<S> weights = {{S(1), S(1), S(1), S(0.3), S(0.3), S(0.3)}, S(1e-9)};
      if (k % 2 == 0) {
        for (S& w : weights.factor) w = S(random.uniform(0.05, 2));
      }
      const Reference exact = reference_step(robot, chain, base, weights, q);
      if (exact.angle > 3.1 || !exact.clear) continue;
      core::JointAxes<S> axes;
      const auto report = core::levenberg_marquardt_step(chain, start_frame<S>(robot, base), weights,
                                                         q.data(), next.data(), axes);
      const double bar = sizeof(S) == 4 ? 3e-3 : 1e-9;
      ASSERT_NEAR(report.distance, exact.distance, bar * size);
      ASSERT_NEAR(report.angle, exact.angle, bar);
      ASSERT_NEAR(report.error, exact.error, bar * (1 + exact.error));
      // Weak damping beside a long chain lets float's rounding through.
      const double trust = sizeof(S) == 4 ? std::max(1.0, size * size * 1e-2 / exact.error) : 1;
      for (std::size_t i = 0; i < q.size(); i++) {
        double off = std::abs(next[i] - exact.q_next[i]);
        if (chain.joint[i].wraps) off = std::abs(std::remainder(off, 2 * std::numbers::pi));
        ASSERT_LT(off, bar * trust) << robot.dof() << " joints, joint " << i << " step "
                                    << exact.q_next[i] - q[i];
        if (exact.held[i]) {
          ASSERT_EQ(next[i], q[i]);
        }
        ASSERT_GE(next[i], chain.joint[i].lower);
        ASSERT_LE(next[i], chain.joint[i].upper);
        held += exact.held[i];
      }
      compared++;
    }
  }
  EXPECT_GT(compared, few(1500));
  EXPECT_GT(held, few(500));
}

// The same joint at the same limit stays when pushed outwards and leaves when pulled inwards.
TYPED_TEST(LevenbergMarquardt, JointAtALimit) {
  using S = TypeParam;
  const Robot robot = load(Planar{}.text());
  const core::ChainConstants<S> chain = constants<S>(robot);
  const core::Weights<S> weights = {{S(1), S(1), S(1), S(0.3), S(0.3), S(0.3)}, S(1e-9)};
  for (const double side : {-1.0, 1.0}) {
    const std::vector<S> q = {S(0.2), side < 0 ? chain.joint[1].lower : chain.joint[1].upper};
    for (const double push : {-0.1, 0.1}) {
      const model::Transform base = model::inverse(PlainChain(robot, {0.2, double(q[1]) + push}).tool);
      S next[2];
      core::JointAxes<S> axes;
      core::levenberg_marquardt_step(chain, start_frame<S>(robot, base), weights, q.data(), next, axes);
      if (push * side > 0) {
        EXPECT_EQ(next[1], q[1]);
      } else {
        EXPECT_NEAR(next[1], double(q[1]) + push, 0.03);
      }
    }
  }
}

TYPED_TEST(LevenbergMarquardt, EqualLimitsHoldAJoint) {
  using S = TypeParam;
  const Robot robot = Robot::preset("panda");
  core::ChainConstants<S> chain = constants<S>(robot);
  Random random(2);
  const core::Weights<S> weights = {{S(1), S(1), S(1), S(0.3), S(0.3), S(0.3)}, S(1e-9)};
  for (int k = 0; k < 100; k++) {
    std::vector<S> q(7), next(7);
    for (int i = 0; i < 7; i++) q[i] = S(random.uniform(chain.joint[i].lower, chain.joint[i].upper));
    core::ChainConstants<S> locked = chain;
    const int lock = random.below(7);
    locked.joint[lock].lower = locked.joint[lock].upper = q[lock];
    const model::Transform base =
        model::inverse(PlainChain(robot, random_configuration(robot, random.engine)).tool);
    core::JointAxes<S> axes;
    core::levenberg_marquardt_step(locked, start_frame<S>(robot, base), weights, q.data(), next.data(), axes);
    EXPECT_EQ(next[lock], q[lock]);
    int moved = 0;
    for (int i = 0; i < 7; i++) moved += next[i] != q[i];
    EXPECT_GE(moved, 5);
  }
}

// Weights of zero take their rows out of the problem: position only, then orientation only.
TEST(Weights, ZeroFreesADirection) {
  Random random(3);
  for (const std::string& name : preset_names()) {
    const Robot robot = Robot::preset(name);
    const core::ChainConstants<double>& chain = robot.chain().constants;
    for (const bool position_only : {true, false}) {
      const double p = position_only, o = !position_only;
      const core::Weights<double> weights = {{p, p, p, o, o, o}, 1e-10};
      int solved = 0, other_off = 0;
      for (int k = 0; k < few(100); k++) {
        std::vector<double> q = random_configuration(robot, random.engine), next = q;
        const model::Transform base =
            model::inverse(PlainChain(robot, random_configuration(robot, random.engine)).tool);
        core::JointAxes<double> axes;
        core::StepReport<double> report{};
        for (int i = 0; i < 60; i++) {
          report = core::levenberg_marquardt_step(chain, start_frame<double>(robot, base), weights, q.data(),
                                                  next.data(), axes);
          q = next;
        }
        const double wanted = position_only ? report.distance : report.angle;
        solved += wanted < 1e-9;
        other_off += (position_only ? report.angle : report.distance) > 0.05;
        EXPECT_NEAR(report.error, wanted * wanted, 1e-12 + 1e-9 * report.error);
      }
      EXPECT_GT(solved, few(70)) << name << position_only;
      EXPECT_GT(other_off, few(80)) << name << position_only;
    }
  }
}

// Scaling the weight of one direction by k is the same as measuring it in units k times smaller: with
// all factors scaled, damping of 0.1 |r|² scales along, and the step stays.
TEST(Weights, CommonFactorCancels) {
  const Robot robot = Robot::preset("ur5e");
  Random random(4);
  for (int k = 0; k < 50; k++) {
    const std::vector<double> q = random_configuration(robot, random.engine);
    const model::Transform base = random_transform(random);
    double next[2][6];
    for (int scaled = 0; scaled < 2; scaled++) {
      const double s = scaled ? 8 : 1;
      const core::Weights<double> weights = {{s, s, s, 0.3 * s, 0.3 * s, 0.3 * s}, 1e-9 * s * s};
      core::JointAxes<double> axes;
      core::levenberg_marquardt_step(robot.chain().constants, start_frame<double>(robot, base), weights,
                                     q.data(), next[scaled], axes);
    }
    for (int i = 0; i < 6; i++) EXPECT_NEAR(next[0][i], next[1][i], 1e-11);
  }
}

TEST(Convergence, IsQuadraticAtRegularSolutions) {
  // Away from limits and singularities: elbow bent, wrist bent.
  const Robot robot = Robot::preset("ur5e");
  const std::vector<double> solution = {0.3, -1.2, 1.5, -0.8, -1.1, 0.4};
  const model::Transform base = model::inverse(PlainChain(robot, solution).tool);
  const core::Weights<double> weights = {{1, 1, 1, 0.3, 0.3, 0.3}, 1e-14};
  Random random(5);
  for (int k = 0; k < 200; k++) {
    std::vector<double> q = solution, next(6);
    for (double& v : q) v += random.uniform(-0.1, 0.1);
    core::JointAxes<double> axes;
    double previous = 1;
    int steps = 0;
    for (; steps < 8; steps++) {
      double error = 0;
      for (std::size_t i = 0; i < 6; i++) error = std::max(error, std::abs(q[i] - solution[i]));
      // e' <= C e²; C holds the curvature over the smallest singular value.
      if (steps > 0) {
        ASSERT_LT(error, 40 * previous * previous + 1e-13) << "step " << steps;
      }
      previous = error;
      if (error < 1e-13) break;
      core::levenberg_marquardt_step(robot.chain().constants, start_frame<double>(robot, base), weights,
                                     q.data(), next.data(), axes);
      q = next;
    }
    EXPECT_LE(steps, 6);
  }
}

// Chains of one to five joints leave C Cᵀ singular; near a target just out of their reach lambda sinks
// below float's rounding of it.
TEST(Convergence, FewJointsStayFinite) {
  Random random(6);
  for (int n = 1; n <= 5; n++) {
    for (int chain_number = 0; chain_number < few(100); chain_number++) {
      const Robot robot = load(random_chain(n, random.engine));
      const core::ChainConstants<float>& chain = robot.chain().constants_f32;
      const float length = float(std::max(robot.chain().length, 1e-3));
      const core::Weights<float> weights = {{1, 1, 1, 0.28f * length, 0.28f * length, 0.28f * length},
                                            1e-9f * length * length};
      for (int k = 0; k < 10; k++) {
        const std::vector<double> goal = random_configuration(robot, random.engine);
        model::Transform target = PlainChain(robot, goal).tool;
        for (double& p : target.position) p += random.magnitude(-7, -2);
        std::vector<float> q(goal.begin(), goal.end()), next(q.size());
        for (float& v : q) v += float(random.uniform(-0.3, 0.3));
        core::JointAxes<float> axes;
        for (int i = 0; i < 20; i++) {
          core::levenberg_marquardt_step(chain, start_frame<float>(robot, model::inverse(target)), weights,
                                         q.data(), next.data(), axes);
          q = next;
          for (const float v : q) ASSERT_TRUE(std::isfinite(v)) << n << " joints, chain " << chain_number;
        }
      }
    }
  }
}

TYPED_TEST(LevenbergMarquardt, IntoLimits) {
  using S = TypeParam;
  const S pi = S(std::numbers::pi), tolerance = sizeof(S) == 4 ? S(1e-5) : S(1e-14);
  core::JointConstants<S> joint{};
  Random random(7);
  const auto expect_inside = [&](S q) {
    const S inside = core::into_limits(joint, q);
    EXPECT_GE(inside, joint.lower);
    EXPECT_LE(inside, joint.upper);
    return inside;
  };
  // Wrapping: the same angle, from up to a turn outside.
  joint.wraps = true;
  for (const auto& [lower, upper] :
       {std::pair{-pi, pi}, std::pair{-2 * pi, 2 * pi}, std::pair{S(-1), S(6)}}) {
    joint.lower = lower;
    joint.upper = upper;
    for (int k = 0; k < 1000; k++) {
      const S q = S(random.uniform(double(lower) - 6.2, double(upper) + 6.2)), inside = expect_inside(q);
      EXPECT_NEAR(std::remainder(double(inside) - double(q), 2 * std::numbers::pi), 0, tolerance);
      if (q >= lower && q <= upper) {
        EXPECT_EQ(inside, q);
      }
    }
    expect_inside(lower);
    expect_inside(upper);
  }
  // Clamping, for every other joint; slides of more than 2 pi metres above all.
  joint.wraps = false;
  joint.prismatic = true;
  joint.lower = S(0);
  joint.upper = S(10);
  EXPECT_EQ(core::into_limits(joint, S(12)), S(10));
  EXPECT_EQ(core::into_limits(joint, S(-3)), S(0));
  EXPECT_EQ(core::into_limits(joint, S(7)), S(7));
}

TEST(LevenbergMarquardtOfPack, LanesAreScalars) {
  using Pack = core::Pack<double, 4>;
  Random random(8);
  const core::Weights<double> weights = {{1, 1, 1, 0.3, 0.3, 0.3}, 1e-9};
  for (const Robot& robot : sample_robots()) {
    const core::ChainConstants<double>& chain = robot.chain().constants;
    const std::size_t n = std::size_t(robot.dof());
    std::vector<Pack> q(n, Pack(0.0)), next(n, Pack(0.0));
    std::vector<std::vector<double>> lanes;
    const auto start = start_frame<double>(robot, random_transform(random));
    const auto wide = [](const core::Vec3<double>& v) {
      return core::Vec3<Pack>{Pack(v.x), Pack(v.y), Pack(v.z)};
    };
    for (int lane = 0; lane < 4; lane++) {
      lanes.push_back(random_configuration(robot, random.engine));
      for (std::size_t i = 0; i < n; i++) q[i].set(lane, lanes.back()[i]);
    }
    core::JointAxes<Pack> axes;
    const core::Frame<Pack> start_p = {wide(start.x), wide(start.y), wide(start.z), wide(start.p)};
    const auto report = core::levenberg_marquardt_step(chain, start_p, weights, q.data(), next.data(), axes);
    for (int lane = 0; lane < 4; lane++) {
      std::vector<double> one(n);
      core::JointAxes<double> axes_1;
      const auto single = core::levenberg_marquardt_step(chain, start, weights,
                                                         lanes[std::size_t(lane)].data(), one.data(), axes_1);
      EXPECT_NEAR(report.error[lane], single.error, 1e-12 * (1 + single.error));
      for (std::size_t i = 0; i < n; i++) EXPECT_NEAR(next[i][lane], one[i], 1e-9);
    }
  }
}

}  // namespace
}  // namespace hjcdik
