// Sine, cosine and arctangent against long double, and lanes against scalars.
#include "core/trig.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/pack.h"
#include "support.hpp"

namespace hjcdik {
namespace {

using namespace test;

template <class S>
struct Bars;
// A little above what was measured (float 1.02e-7 and 1.58e-7, double 1.50e-16 and 3.57e-16): the
// results' own rounding is half of it.
template <>
struct Bars<float> {
  static constexpr double sincos_range = 100, sincos = 1.1e-7, atan2_relative = 1.8e-7;
};
template <>
struct Bars<double> {
  static constexpr double sincos_range = 100, sincos = 1.7e-16, atan2_relative = 4e-16;
};

template <class S>
class Trig : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(Trig, Scalars);

TYPED_TEST(Trig, SincosIsAccurate) {
  using S = TypeParam;
  Random random(1);
  long double worst = 0;
  const auto check = [&](S x) {
    S sine, cosine;
    core::sincos(x, sine, cosine);
    worst = std::max(worst, std::abs(sine - std::sin(static_cast<long double>(x))));
    worst = std::max(worst, std::abs(cosine - std::cos(static_cast<long double>(x))));
  };
  for (int k = 0; k < few(300'000); k++)
    check(S(random.uniform(-Bars<S>::sincos_range, Bars<S>::sincos_range)));
  for (int k = 0; k < few(100'000); k++) check(S(random.magnitude(-30, 0) * (k % 2 ? 1 : -1)));
  // Around the quadrants' borders, where the reduction cancels.
  for (int quarter = -60; quarter <= 60; quarter++) {
    const S at = S(quarter * 0.78539816339744830962);
    check(at);
    check(std::nextafter(at, S(1000)));
    check(std::nextafter(at, S(-1000)));
  }
  EXPECT_LT(worst, Bars<S>::sincos);
}

TYPED_TEST(Trig, SincosKeepsSmallAnglesRelatively) {
  using S = TypeParam;
  Random random(2);
  for (int k = 0; k < 10'000; k++) {
    const S x = S(random.magnitude(-30, -4));
    S sine, cosine;
    core::sincos(x, sine, cosine);
    ASSERT_NEAR(sine / x, 1, 2e-8);  // sin x = x - x³/6
    ASSERT_EQ(std::signbit(sine), std::signbit(x));
  }
  S sine, cosine;
  core::sincos(S(0), sine, cosine);
  EXPECT_EQ(sine, S(0));
  EXPECT_EQ(cosine, S(1));
}

// As many turns as joint values may ever have.
TYPED_TEST(Trig, SincosHoldsForThousandsOfTurns) {
  using S = TypeParam;
  const double range = sizeof(S) == 4 ? 300 : 30'000, bar = sizeof(S) == 4 ? 2e-7 : 3e-16;
  Random random(3);
  for (int k = 0; k < 20'000; k++) {
    const S x = S(random.uniform(-range, range));
    S sine, cosine;
    core::sincos(x, sine, cosine);
    ASSERT_NEAR(double(sine), double(std::sin(static_cast<long double>(x))), bar) << double(x);
    ASSERT_NEAR(double(cosine), double(std::cos(static_cast<long double>(x))), bar) << double(x);
  }
}

TYPED_TEST(Trig, Atan2IsAccurate) {
  using S = TypeParam;
  Random random(4);
  long double worst = 0;
  const auto check = [&](S y, S x) {
    const long double exact = std::atan2(static_cast<long double>(y), static_cast<long double>(x));
    worst = std::max(worst, std::abs(core::atan2(y, x) - exact) / std::abs(exact));
  };
  for (int k = 0; k < few(300'000); k++) {
    const double angle = random.uniform(-3.14159, 3.14159), size = random.magnitude(-8, 8);
    check(S(size * std::sin(angle)), S(size * std::cos(angle)));
  }
  for (int k = 0; k < few(100'000); k++) {
    const S y = S(random.magnitude(-12, 12) * (k & 1 ? 1 : -1)),
            x = S(random.magnitude(-12, 12) * (k & 2 ? 1 : -1));
    check(y, x);
  }
  // Where one formula hands over to another: pi/8, pi/4 and their mirror images.
  for (const double slope : {0.41421356237309504880, 1.0, 2.41421356237309504880}) {
    for (int k = -50; k <= 50; k++) {
      const S y = S(slope * (1 + k * 1e-7));
      for (const S x : {S(1), S(-1)}) {
        check(y, x);
        check(-y, x);
      }
    }
  }
  EXPECT_LT(worst, Bars<S>::atan2_relative);
}

TYPED_TEST(Trig, Atan2OfSpecialValues) {
  using S = TypeParam;
  const S pi = S(3.14159265358979323846), tolerance = std::numeric_limits<S>::epsilon() * 2;
  EXPECT_EQ(core::atan2(S(0), S(0)), S(0));
  EXPECT_EQ(core::atan2(S(0), S(1)), S(0));
  EXPECT_EQ(core::atan2(S(-0.0), S(1)), S(0));
  EXPECT_NEAR(std::abs(core::atan2(S(0), S(-1))), pi, tolerance);
  EXPECT_NEAR(std::abs(core::atan2(S(-0.0), S(-1))), pi, tolerance);
  EXPECT_NEAR(core::atan2(S(1), S(0)), pi / 2, tolerance);
  EXPECT_NEAR(core::atan2(S(1), S(-0.0)), pi / 2, tolerance);
  EXPECT_NEAR(core::atan2(S(-1), S(0)), -pi / 2, tolerance);
  for (const S size : {S(1e-20), S(3), S(1e15)}) {
    EXPECT_NEAR(core::atan2(size, size), pi / 4, tolerance);
    EXPECT_NEAR(core::atan2(size, -size), 3 * pi / 4, tolerance);
    EXPECT_NEAR(core::atan2(-size, size), -pi / 4, tolerance);
    EXPECT_NEAR(core::atan2(-size, -size), -3 * pi / 4, tolerance);
  }
}

template <class P>
class TrigOfPack : public testing::Test {};
using Packs = testing::Types<core::Pack<float, 4>, core::Pack<float, 8>, core::Pack<float, 16>,
                             core::Pack<double, 2>, core::Pack<double, 4>, core::Pack<double, 8>>;
TYPED_TEST_SUITE(TrigOfPack, Packs);

// The compiler may contract a product and a sum in one form and not in the other where the processor
// has such an instruction; otherwise the lanes are the scalar's bits.
template <class S>
bool equal_enough(S a, S b) {
#if defined(__FP_FAST_FMA)
  return std::abs(a - b) <= 2 * std::numeric_limits<S>::epsilon() * std::abs(b);
#else
  return std::memcmp(&a, &b, sizeof(S)) == 0;
#endif
}

TYPED_TEST(TrigOfPack, LanesAreScalars) {
  using S = core::ScalarOf<TypeParam>;
  constexpr int width = sizeof(TypeParam) / sizeof(S);
  Random random(5);
  for (int k = 0; k < few(5000); k++) {
    TypeParam x(S(0)), y(S(0)), sine, cosine;
    for (int lane = 0; lane < width; lane++) {
      x.set(lane, S(random.uniform(-10, 10)));
      y.set(lane, S(random.below(5) == 0 ? 0.0 : random.uniform(-10, 10)));
    }
    core::sincos(x, sine, cosine);
    const TypeParam angle = core::atan2(y, x);
    for (int lane = 0; lane < width; lane++) {
      S s, c;
      core::sincos(x[lane], s, c);
      ASSERT_TRUE(equal_enough(sine[lane], s) && equal_enough(cosine[lane], c)) << "at " << x[lane];
      ASSERT_TRUE(equal_enough(angle[lane], core::atan2(y[lane], x[lane]))) << y[lane] << " " << x[lane];
    }
  }
}

}  // namespace
}  // namespace hjcdik
