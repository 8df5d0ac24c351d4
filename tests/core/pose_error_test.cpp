// The rotation vector of a pose error against rotations built in long double from axis and angle.
#include "core/pose_error.h"

#include <array>
#include <cmath>
#include <limits>

#include "cpu/pack.h"
#include "support.hpp"

namespace hjcdik {
namespace {

using namespace test;
using Big = long double;
constexpr Big kPi = 3.14159265358979323846264338327950288L;

// Rodrigues' formula, rounded to S at the end; row-major in `exact` if asked for.
template <class S>
core::Frame<S> rotation(const std::vector<double>& axis, Big angle) {
  // The axis is unit in double only.
  const Big norm = std::sqrt(Big(axis[0]) * axis[0] + Big(axis[1]) * axis[1] + Big(axis[2]) * axis[2]);
  const Big x = axis[0] / norm, y = axis[1] / norm, z = axis[2] / norm;
  const Big half = std::sin(angle / 2), v = 2 * half * half, c = 1 - v, s = std::sin(angle);
  return {{S(c + v * x * x), S(v * x * y + s * z), S(v * x * z - s * y)},
          {S(v * x * y - s * z), S(c + v * y * y), S(v * y * z + s * x)},
          {S(v * x * z + s * y), S(v * y * z - s * x), S(c + v * z * z)},
          {S(0), S(0), S(0)}};
}

std::vector<std::vector<double>> sample_axes(Random& random, int count) {
  std::vector<std::vector<double>> axes = {{1, 0, 0},     {0, 1, 0},        {0, 0, 1},
                                           {-1, 0, 0},    {0, -1, 0},       {0, 0, -1},
                                           {0.6, 0.8, 0}, {0, -0.6, 0.8},   {0.8, 0, 0.6},
                                           {1, 1e-9, 0},  {-1e-9, 1e-9, 1}, {0.57735, 0.57735, 0.57735}};
  for (int k = 0; k < count; k++) axes.push_back(random.direction());
  for (auto& axis : axes) {
    const double norm = std::sqrt(axis[0] * axis[0] + axis[1] * axis[1] + axis[2] * axis[2]);
    for (double& v : axis) v /= norm;
  }
  return axes;
}

template <class S>
class PoseError : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(PoseError, Scalars);

template <class S>
constexpr double kEpsilon = std::numeric_limits<S>::epsilon();

// How far the rotation vector is from -angle axis, at pi from either sign of it.
template <class S>
double vector_error(const core::PoseError<S>& e, const std::vector<double>& axis, Big angle) {
  const core::Vec3<S>& r = e.rotation;
  const auto from = [&](double sign) {
    return std::sqrt(std::pow(r.x + sign * double(angle) * axis[0], 2) +
                     std::pow(r.y + sign * double(angle) * axis[1], 2) +
                     std::pow(r.z + sign * double(angle) * axis[2], 2));
  };
  // Nearer to pi than the matrix' own rounding both signs are right.
  return kPi - angle < 4 * kEpsilon<S> ? std::min(from(1), from(-1)) : from(1);
}

TYPED_TEST(PoseError, SmallAnglesKeepTheirDigits) {
  using S = TypeParam;
  Random random(1);
  for (const auto& axis : sample_axes(random, few(200))) {
    for (Big angle : {1e-9L, 1e-8L, 1e-7L, 1e-6L, 1e-5L, 1e-4L, 1e-3L}) {
      const auto e = core::pose_error(rotation<S>(axis, angle));
      // The matrix holds angle² / 2 beside the angle itself: nothing of that may leak in.
      ASSERT_NEAR(e.angle / angle, 1, 8 * kEpsilon<S>) << double(angle);
      ASSERT_LT(vector_error(e, axis, angle), double(angle) * 8 * kEpsilon<S> + double(angle) * 1e-15);
    }
  }
  const auto none = core::pose_error(rotation<S>({0, 0, 1}, 0));
  EXPECT_EQ(none.angle, S(0));
  EXPECT_EQ(none.rotation.x, S(0));
  EXPECT_EQ(none.rotation.y, S(0));
  EXPECT_EQ(none.rotation.z, S(0));
  EXPECT_EQ(none.distance, S(0));
}

TYPED_TEST(PoseError, AnyAngle) {
  using S = TypeParam;
  Random random(2);
  double worst_angle = 0, worst_vector = 0;
  for (const auto& axis : sample_axes(random, few(2000))) {
    for (int k = 0; k < 20; k++) {
      const Big angle = k < 18 ? Big(random.uniform(0, 3.14159)) : kPi - Big(random.uniform(0, 0.03));
      const auto e = core::pose_error(rotation<S>(axis, angle));
      worst_angle = std::max(worst_angle, std::abs(double(e.angle - angle)));
      worst_vector = std::max(worst_vector, vector_error(e, axis, angle));
    }
  }
  EXPECT_LT(worst_angle, 4 * kEpsilon<S>);
  // Just before the near-pi form takes over, the axis is taken from entries of 0.02: their rounding
  // counts fifty times.
  EXPECT_LT(worst_vector, 300 * kEpsilon<S>);
}

TYPED_TEST(PoseError, NearAndAtPi) {
  using S = TypeParam;
  Random random(3);
  for (const auto& axis : sample_axes(random, few(500))) {
    for (Big gap : {0.0L, 1e-15L, 1e-12L, 1e-9L, 1e-7L, 1e-5L, 1e-3L, 0.0099L, 0.01L, 0.0101L}) {
      const Big angle = kPi - gap;
      const auto e = core::pose_error(rotation<S>(axis, angle));
      ASSERT_NEAR(double(e.angle - angle), 0, 4 * kEpsilon<S>) << double(gap);
      ASSERT_LE(e.angle, S(kPi));
      const bool sign_known = gap > 4 * kEpsilon<S>;
      ASSERT_LT(vector_error(e, axis, sign_known ? angle : kPi),
                300 * kEpsilon<S> + (sign_known ? 0 : double(gap)))
          << double(gap) << " axis " << axis[0] << " " << axis[1] << " " << axis[2];
    }
  }
  // A half turn about x, y, z with exact entries.
  for (int k = 0; k < 3; k++) {
    core::Frame<S> f = {{S(-1), 0, 0}, {0, S(-1), 0}, {0, 0, S(-1)}, {0, 0, 0}};
    (k == 0 ? f.x.x : k == 1 ? f.y.y : f.z.z) = S(1);
    const auto e = core::pose_error(f);
    EXPECT_EQ(e.angle, S(kPi));
    EXPECT_EQ(std::abs(e.rotation.x), k == 0 ? S(kPi) : S(0));
    EXPECT_EQ(std::abs(e.rotation.y), k == 1 ? S(kPi) : S(0));
    EXPECT_EQ(std::abs(e.rotation.z), k == 2 ? S(kPi) : S(0));
  }
}

// The vector turns the frame back to the identity: exp(rotation) R = I.
TYPED_TEST(PoseError, VectorUndoesTheRotation) {
  using S = TypeParam;
  Random random(4);
  for (int k = 0; k < few(5000); k++) {
    const Big angle = k % 3 == 0 ? kPi - Big(random.magnitude(-9, -1)) : Big(random.uniform(0, 3.14));
    const core::Frame<S> f = rotation<S>(random.direction(), angle);
    const auto e = core::pose_error(f);
    const Big norm = std::sqrt(Big(e.rotation.x) * e.rotation.x + Big(e.rotation.y) * e.rotation.y +
                               Big(e.rotation.z) * e.rotation.z);
    ASSERT_NEAR(double(norm), double(e.angle), 8 * kEpsilon<S>);
    const std::vector<double> axis = {double(e.rotation.x / norm), double(e.rotation.y / norm),
                                      double(e.rotation.z / norm)};
    const core::Frame<double> back = rotation<double>(axis, norm);
    for (const core::Vec3<S>* column : {&f.x, &f.y, &f.z}) {
      const core::Vec3<double> v = {column->x, column->y, column->z};
      const core::Vec3<double> turned = core::transform(back, v);
      const double unit[3] = {column == &f.x ? 1.0 : 0.0, column == &f.y ? 1.0 : 0.0,
                              column == &f.z ? 1.0 : 0.0};
      ASSERT_NEAR(turned.x, unit[0], 300 * kEpsilon<S>);
      ASSERT_NEAR(turned.y, unit[1], 300 * kEpsilon<S>);
      ASSERT_NEAR(turned.z, unit[2], 300 * kEpsilon<S>);
    }
  }
}

// Frames come with rounding: slightly off orthonormal near 0 and pi, where naive forms take the
// arccosine of more than 1.
TYPED_TEST(PoseError, NeverNan) {
  using S = TypeParam;
  Random random(5);
  const double noise = 4 * kEpsilon<S>;
  for (const auto& axis : sample_axes(random, 50)) {
    for (Big angle : {0.0L, 1e-9L, 1.0L, 3.0L, kPi - 1e-9L, kPi}) {
      for (int k = 0; k < few(50); k++) {
        core::Frame<S> f = rotation<S>(axis, angle);
        for (S* v : {&f.x.x, &f.x.y, &f.x.z, &f.y.x, &f.y.y, &f.y.z, &f.z.x, &f.z.y, &f.z.z}) {
          *v += S(random.uniform(-noise, noise));
        }
        const auto e = core::pose_error(f);
        ASSERT_TRUE(std::isfinite(e.rotation.x) && std::isfinite(e.rotation.y) &&
                    std::isfinite(e.rotation.z));
        ASSERT_NEAR(double(e.angle - angle), 0, 20 * noise);
        ASSERT_GE(e.angle, S(0));
        ASSERT_LE(e.angle, S(kPi));
      }
    }
  }
}

TYPED_TEST(PoseError, Translation) {
  using S = TypeParam;
  core::Frame<S> f = rotation<S>({0, 0, 1}, 1);
  f.p = {S(3), S(-4), S(12)};
  const auto e = core::pose_error(f);
  EXPECT_EQ(e.translation.x, S(-3));
  EXPECT_EQ(e.translation.y, S(4));
  EXPECT_EQ(e.translation.z, S(-12));
  EXPECT_EQ(e.distance, S(13));
}

// One lane near pi must not spoil the others, nor the other way round.
TEST(PoseErrorOfPack, LanesAreScalars) {
  using Pack = core::Pack<double, 4>;
  Random random(6);
  for (int k = 0; k < few(2000); k++) {
    core::Frame<Pack> f;
    std::array<core::Frame<double>, 4> one;
    for (int lane = 0; lane < 4; lane++) {
      const Big angle = random.below(2) ? kPi - Big(random.magnitude(-12, -1)) : Big(random.magnitude(-9, 0));
      core::Frame<double>& g = one[std::size_t(lane)];
      g = rotation<double>(random.direction(), angle);
      g.p = {random.uniform(), random.uniform(), random.uniform()};
      f.x.x.set(lane, g.x.x), f.x.y.set(lane, g.x.y), f.x.z.set(lane, g.x.z);
      f.y.x.set(lane, g.y.x), f.y.y.set(lane, g.y.y), f.y.z.set(lane, g.y.z);
      f.z.x.set(lane, g.z.x), f.z.y.set(lane, g.z.y), f.z.z.set(lane, g.z.z);
      f.p.x.set(lane, g.p.x), f.p.y.set(lane, g.p.y), f.p.z.set(lane, g.p.z);
    }
    const auto e = core::pose_error(f);
    for (int lane = 0; lane < 4; lane++) {
      const auto single = core::pose_error(one[std::size_t(lane)]);
      ASSERT_DOUBLE_EQ(e.angle[lane], single.angle);
      ASSERT_NEAR(e.rotation.x[lane], single.rotation.x, 1e-13);
      ASSERT_NEAR(e.rotation.y[lane], single.rotation.y, 1e-13);
      ASSERT_NEAR(e.rotation.z[lane], single.rotation.z, 1e-13);
      ASSERT_DOUBLE_EQ(e.distance[lane], single.distance);
    }
  }
}

}  // namespace
}  // namespace hjcdik
