// The small dense algebra against plain loops in long double, for every size from 1 to 32.
#include "core/linalg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "cpu/pack.h"
#include "support.hpp"

namespace hjcdik {
namespace {

using namespace test;
using Big = long double;

// Calls f with the sizes 1 to 32 as compile-time constants.
template <class F>
void for_sizes(F f) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (f(std::integral_constant<int, I + 1>{}), ...); }
  (std::make_integer_sequence<int, 32>{});
}

template <class S>
constexpr double kEpsilon = std::numeric_limits<S>::epsilon();

// Gaussian elimination with pivoting.
std::vector<Big> solve_dense(std::vector<Big> a, std::vector<Big> b) {
  const std::size_t n = b.size();
  for (std::size_t c = 0; c < n; c++) {
    std::size_t pivot = c;
    for (std::size_t r = c + 1; r < n; r++) {
      if (std::abs(a[r * n + c]) > std::abs(a[pivot * n + c])) pivot = r;
    }
    std::swap(b[c], b[pivot]);
    for (std::size_t k = 0; k < n; k++) std::swap(a[c * n + k], a[pivot * n + k]);
    for (std::size_t r = c + 1; r < n; r++) {
      const Big f = a[r * n + c] / a[c * n + c];
      for (std::size_t k = c; k < n; k++) a[r * n + k] -= f * a[c * n + k];
      b[r] -= f * b[c];
    }
  }
  for (std::size_t c = n; c-- > 0;) {
    for (std::size_t k = c + 1; k < n; k++) b[c] -= a[c * n + k] * b[k];
    b[c] /= a[c * n + c];
  }
  return b;
}

template <class S>
class Linalg : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(Linalg, Scalars);

TYPED_TEST(Linalg, DotAndGemv) {
  using S = TypeParam;
  Random random(1);
  for_sizes([&](auto size) {
    constexpr int n = size, rows = 1 + n % 7;
    std::array<S, n> x;
    std::array<S, rows * n> a;
    for (S& v : x) v = S(random.uniform(-1, 1));
    for (S& v : a) v = S(random.uniform(-1, 1));
    std::array<S, rows> y;
    core::gemv<rows, n>(a.data(), x.data(), y.data());
    for (int r = 0; r < rows; r++) {
      Big exact = 0;
      for (int c = 0; c < n; c++) exact += Big(a[r * n + c]) * x[c];
      EXPECT_NEAR(y[r], double(exact), n * kEpsilon<S>) << n;
      EXPECT_NEAR(core::dot<n>(a.data() + r * n, x.data()), double(exact), n * kEpsilon<S>) << n;
    }
  });
}

TYPED_TEST(Linalg, RankOneUpdateTouchesTheLowerTriangle) {
  using S = TypeParam;
  Random random(2);
  for_sizes([&](auto size) {
    constexpr int n = size, packed = n * (n + 1) / 2;
    std::array<S, n> left, right;
    std::array<S, packed> a, before;
    for (int i = 0; i < n; i++) {
      left[i] = S(random.uniform(-1, 1));
      right[i] = S(random.uniform(-1, 1));
    }
    for (S& v : a) v = S(random.uniform(-1, 1));
    before = a;
    core::rank_one_update<n>(a.data(), left.data(), right.data());
    int k = 0;
    for (int i = 0; i < n; i++) {
      for (int j = 0; j <= i; j++, k++) {
        ASSERT_EQ(core::packed_index(i, j), k);
        EXPECT_NEAR(a[k], double(Big(before[k]) + Big(left[i]) * right[j]), 2 * kEpsilon<S>);
      }
    }
    EXPECT_EQ(k, packed);
  });
}

// A = B Bᵀ + I: condition of some tens, so a backward stable solver loses two digits at most.
TYPED_TEST(Linalg, CholeskySolves) {
  using S = TypeParam;
  Random random(3);
  for_sizes([&](auto size) {
    constexpr int n = size;
    for (int repeat = 0; repeat < 20; repeat++) {
      std::array<S, n*(n + 1) / 2> a{};
      std::array<S, n> x, column;
      for (int k = 0; k < n; k++) {
        for (S& v : column) v = S(random.uniform(-1, 1));
        core::rank_one_update<n>(a.data(), column.data(), column.data());
      }
      for (int i = 0; i < n; i++) a[core::packed_index(i, i)] += S(1);
      for (S& v : x) v = S(random.uniform(-1, 1));

      std::vector<Big> dense(n * n), b(x.begin(), x.end());
      for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
          dense[std::size_t(i * n + j)] = a[core::packed_index(std::max(i, j), std::min(i, j))];
        }
      }
      const std::vector<Big> exact = solve_dense(dense, b);
      core::cholesky_factor<n>(a.data(), S(1e-30));
      core::cholesky_solve<n>(a.data(), x.data());
      for (int i = 0; i < n; i++) ASSERT_NEAR(x[i], double(exact[i]), 100 * kEpsilon<S>) << "size " << n;
    }
  });
}

// The factor itself: L D Lᵀ is the matrix, and the diagonal holds 1 / D.
TYPED_TEST(Linalg, CholeskyFactorReproducesTheMatrix) {
  using S = TypeParam;
  constexpr int n = 6;
  Random random(4);
  for (int repeat = 0; repeat < 200; repeat++) {
    std::array<S, 21> a{}, f;
    std::array<S, n> column;
    for (int k = 0; k < n + 1; k++) {
      for (S& v : column) v = S(random.uniform(-1, 1));
      core::rank_one_update<n>(a.data(), column.data(), column.data());
    }
    f = a;
    core::cholesky_factor<n>(f.data(), S(1e-30));
    for (int i = 0; i < n; i++) {
      for (int j = 0; j <= i; j++) {
        Big sum = 0;
        for (int k = 0; k <= j; k++) {
          const Big lik = k == i ? 1 : f[core::packed_index(i, k)],
                    ljk = k == j ? 1 : f[core::packed_index(j, k)];
          sum += lik * ljk / f[core::packed_index(k, k)];
        }
        ASSERT_NEAR(double(sum), a[core::packed_index(i, j)], 20 * kEpsilon<S>);
      }
    }
  }
}

// A matrix of any rank, damped by no more than the solver damps: some roundings of its trace. No
// pivot is lost, and the solution is at most b over the damping.
template <int n, class S>
void expect_bounded(int rank, Random& random) {
  std::array<S, n*(n + 1) / 2> a{};
  std::array<S, n> x, column;
  for (int k = 0; k < rank; k++) {
    for (S& v : column) v = S(random.uniform(-1, 1));
    core::rank_one_update<n>(a.data(), column.data(), column.data());
  }
  S trace = 0, norm = 0;
  for (int i = 0; i < n; i++) trace += a[core::packed_index(i, i)];
  const S damping = core::Constants<S>::noise * trace * S(std::max(1, n / 6)) + S(1e-12);
  for (int i = 0; i < n; i++) a[core::packed_index(i, i)] += damping;
  for (S& v : x) {
    v = S(random.uniform(-1, 1));
    norm += v * v;
  }
  norm = std::sqrt(norm);
  core::cholesky_factor<n>(a.data(), S(1e-12));
  core::cholesky_solve<n>(a.data(), x.data());
  // Rounding may eat half of the damping.
  for (const S v : x) ASSERT_LT(std::abs(v), 2 * norm / damping) << "size " << n << " rank " << rank;
}

TYPED_TEST(Linalg, DampedSingularMatricesStayBounded) {
  using S = TypeParam;
  Random random(5);
  for_sizes([&](auto size) {
    for (int repeat = 0; repeat < (size == 6 ? few(20'000) : few(100)); repeat++) {
      for (int rank = 0; rank < size; rank += 1 + size / 8) expect_bounded<size, S>(rank, random);
    }
  });
}

// Without damping the floor alone keeps exact zeros harmless.
TYPED_TEST(Linalg, FloorReplacesZeroPivots) {
  using S = TypeParam;
  for_sizes([&](auto size) {
    constexpr int n = size;
    std::array<S, n*(n + 1) / 2> a{};
    std::array<S, n> x;
    x.fill(S(1e-9));
    a[0] = S(4);
    core::cholesky_factor<n>(a.data(), S(1e-9));
    core::cholesky_solve<n>(a.data(), x.data());
    EXPECT_EQ(x[0], S(1e-9) / 4);
    for (int i = 1; i < n; i++) EXPECT_NEAR(x[i], 1, 4 * kEpsilon<S>);
  });
}

TEST(LinalgOfPack, LanesAreScalars) {
  using Pack = core::Pack<float, 8>;
  Random random(6);
  std::array<Pack, 21> a;
  std::array<Pack, 6> x;
  std::array<std::array<float, 21>, 8> a1{};
  std::array<std::array<float, 6>, 8> x1{};
  for (int lane = 0; lane < 8; lane++) {
    for (int k = 0; k < 7; k++) {
      std::array<float, 6> column;
      for (float& v : column) v = float(random.uniform(-1, 1));
      core::rank_one_update<6>(a1[lane].data(), column.data(), column.data());
    }
    for (float& v : x1[lane]) v = float(random.uniform(-1, 1));
    for (int k = 0; k < 21; k++) a[k].set(lane, a1[lane][k]);
    for (int k = 0; k < 6; k++) x[k].set(lane, x1[lane][k]);
  }
  core::cholesky_factor<6>(a.data(), Pack(1e-9f));
  core::cholesky_solve<6>(a.data(), x.data());
  for (int lane = 0; lane < 8; lane++) {
    core::cholesky_factor<6>(a1[lane].data(), 1e-9f);
    core::cholesky_solve<6>(a1[lane].data(), x1[lane].data());
    for (int k = 0; k < 6; k++) EXPECT_NEAR(x[k][lane], x1[lane][k], 1e-5f * (1 + std::abs(x1[lane][k])));
  }
}

}  // namespace
}  // namespace hjcdik
