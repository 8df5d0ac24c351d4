// Pack against the scalar operations it stands for, lane by lane.
#include "cpu/pack.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "support.hpp"

namespace hjcdik {
namespace {

using namespace test;

template <class P>
class Pack : public testing::Test {
 protected:
  using S = core::ScalarOf<P>;
  static constexpr int kWidth = int(sizeof(P) / sizeof(S));

  // Numbers of all sizes and signs, with zeros, equal ones and infinities among them.
  P numbers() {
    P p(S(0));
    for (int lane = 0; lane < kWidth; lane++) {
      switch (random_.below(8)) {
        case 0: p.set(lane, S(0)); break;
        case 1: p.set(lane, S(-0.0)); break;
        case 2: p.set(lane, S(random_.below(3) - 1)); break;
        case 3: p.set(lane, std::numeric_limits<S>::infinity() * (random_.below(2) ? 1 : -1)); break;
        default: p.set(lane, S(random_.uniform(-1, 1) * random_.magnitude(-20, 20))); break;
      }
    }
    return p;
  }
  static bool same(S a, S b) {
    return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(S)) == 0;
  }

  Random random_{11};
};
using Packs = testing::Types<core::Pack<float, 4>, core::Pack<float, 8>, core::Pack<float, 16>,
                             core::Pack<double, 2>, core::Pack<double, 4>, core::Pack<double, 8>>;
TYPED_TEST_SUITE(Pack, Packs);

TYPED_TEST(Pack, Arithmetic) {
  using S = core::ScalarOf<TypeParam>;
  for (int k = 0; k < 2000; k++) {
    const TypeParam a = this->numbers(), b = this->numbers();
    const TypeParam sum = a + b, difference = a - b, product = a * b, quotient = a / b, negative = -a;
    const TypeParam absolute = core::abs(a), smaller = core::min(a, b), larger = core::max(a, b);
    const TypeParam root = core::sqrt(absolute);
    for (int i = 0; i < this->kWidth; i++) {
      const S x = a[i], y = b[i];
      ASSERT_TRUE(this->same(sum[i], x + y));
      ASSERT_TRUE(this->same(difference[i], x - y));
      ASSERT_TRUE(this->same(product[i], x * y));
      ASSERT_TRUE(this->same(quotient[i], x / y));
      ASSERT_TRUE(this->same(negative[i], -x));
      ASSERT_TRUE(this->same(absolute[i], std::abs(x)));
      ASSERT_TRUE(this->same(root[i], std::sqrt(std::abs(x))));
      ASSERT_TRUE(this->same(smaller[i], core::min(x, y)));
      ASSERT_TRUE(this->same(larger[i], core::max(x, y)));
    }
  }
}

TYPED_TEST(Pack, ComparisonsSelectAndBits) {
  using S = core::ScalarOf<TypeParam>;
  for (int k = 0; k < 2000; k++) {
    const TypeParam a = this->numbers(), b = this->numbers();
    const auto less = a<b, more = a> b, at_most = a <= b, at_least = a >= b, equal = a == b;
    const TypeParam chosen = core::select(less, a, b);
    for (int i = 0; i < this->kWidth; i++) {
      const S x = a[i], y = b[i];
      const auto bit = [&](unsigned bits) { return (bits >> i & 1) != 0; };
      ASSERT_EQ(bit(core::mask_bits(less)), x < y);
      ASSERT_EQ(bit(core::mask_bits(more)), x > y);
      ASSERT_EQ(bit(core::mask_bits(at_most)), x <= y);
      ASSERT_EQ(bit(core::mask_bits(at_least)), x >= y);
      ASSERT_EQ(bit(core::mask_bits(equal)), x == y);
      ASSERT_EQ(bit(core::mask_bits(less | equal)), x <= y);
      ASSERT_EQ(bit(core::mask_bits(at_most & at_least)), x == y);
      ASSERT_EQ(bit(core::mask_bits(!less)), !(x < y));
      ASSERT_TRUE(this->same(chosen[i], x < y ? x : y));
    }
    // No bits beyond the lanes.
    ASSERT_EQ(core::mask_bits(equal | !equal), (1u << this->kWidth) - 1);
    ASSERT_EQ(core::any(less), core::mask_bits(less) != 0);
  }
}

// Every pattern of a mask, and the lane order of its bits.
TYPED_TEST(Pack, MaskBits) {
  using S = core::ScalarOf<TypeParam>;
  for (unsigned pattern = 0; pattern<1u << this->kWidth; pattern += this->kWidth> 8 ? 37 : 1) {
    TypeParam p(S(0));
    for (int i = 0; i < this->kWidth; i++) p.set(i, pattern >> i & 1 ? S(1) : S(-1));
    ASSERT_EQ(core::mask_bits(p > TypeParam(S(0))), pattern);
    ASSERT_EQ(core::any(p > TypeParam(S(0))), pattern != 0);
  }
}

TYPED_TEST(Pack, LanesAreSetOneByOne) {
  using S = core::ScalarOf<TypeParam>;
  TypeParam p(S(7));
  for (int i = 0; i < this->kWidth; i++) EXPECT_EQ(p[i], S(7));
  p.set(this->kWidth - 1, S(2));
  EXPECT_EQ(p[this->kWidth - 1], S(2));
  EXPECT_EQ(p[0], S(7));
  // A broadcast keeps the sign of zero out of nothing else's way, and infinities.
  EXPECT_EQ(TypeParam(std::numeric_limits<S>::infinity())[0], std::numeric_limits<S>::infinity());
}

TYPED_TEST(Pack, IntegerBits) {
  using S = core::ScalarOf<TypeParam>;
  TypeParam p(S(0));
  for (int i = 0; i < this->kWidth; i++) p.set(i, core::Constants<S>::round_bias + S(i - 2));
  const auto whole = core::bits(p);
  const auto odd = (whole & 1) != 0, third = ((whole + 1) & 2) != 0;
  for (int i = 0; i < this->kWidth; i++) {
    EXPECT_EQ((core::mask_bits(odd) >> i & 1) != 0, (core::bits(p[i]) & 1) != 0);
    EXPECT_EQ((core::mask_bits(odd) >> i & 1) != 0, (i & 1) != 0);
    EXPECT_EQ((core::mask_bits(third) >> i & 1) != 0, ((i - 2 + 1) & 2) != 0);
  }
}

}  // namespace
}  // namespace hjcdik
