// Small dense linear algebra of a size fixed when compiling; everything stays in registers.
// Symmetric matrices are packed lower triangles by rows: a[i (i + 1) / 2 + j], j <= i.
#pragma once

#include "core/scalar.h"

namespace hjcdik::HJCDIK_CORE {

HJCDIK_FN constexpr int packed_index(int i, int j) { return i * (i + 1) / 2 + j; }

template <int N, class Real>
HJCDIK_FN Real dot(const Real* a, const Real* b) {
  Real s = a[0] * b[0];
  HJCDIK_UNROLL
  for (int i = 1; i < N; i++) s = s + a[i] * b[i];
  return s;
}

// y = A x, A of Rows x Columns, row-major.
template <int Rows, int Columns, class Real>
HJCDIK_FN void gemv(const Real* a, const Real* x, Real* y) {
  HJCDIK_UNROLL
  for (int i = 0; i < Rows; i++) y[i] = dot<Columns>(a + i * Columns, x);
}

// A += left rightᵀ on the lower triangle; symmetric when one is a masked copy of the other.
template <int N, class Real>
HJCDIK_FN void rank_one_update(Real* a, const Real* left, const Real* right) {
  HJCDIK_UNROLL
  for (int i = 0; i < N; i++) {
    HJCDIK_UNROLL
    for (int j = 0; j <= i; j++) a[packed_index(i, j)] = a[packed_index(i, j)] + left[i] * right[j];
  }
}

// Cholesky's factorisation without square roots, A = L D Lᵀ, L unit lower triangular, in place; the
// diagonal becomes 1 / D. A pivot below `floor` is raised to it, so that the result stays finite.
template <int N, class Real>
HJCDIK_FN void cholesky_factor(Real* a, Real floor) {
  using S = ScalarOf<Real>;
  HJCDIK_UNROLL
  for (int j = 0; j < N; j++) {
    // Row j of the factor times D, kept until column j is done.
    Real scaled[N];
    Real pivot = a[packed_index(j, j)];
    HJCDIK_UNROLL
    for (int k = 0; k < j; k++) {
      scaled[k] = a[packed_index(j, k)];
      a[packed_index(j, k)] = scaled[k] * a[packed_index(k, k)];
      pivot = pivot - scaled[k] * a[packed_index(j, k)];
    }
    a[packed_index(j, j)] = Real(S(1)) / max(pivot, floor);
    HJCDIK_UNROLL
    for (int i = j + 1; i < N; i++) {
      Real v = a[packed_index(i, j)];
      HJCDIK_UNROLL
      for (int k = 0; k < j; k++) v = v - a[packed_index(i, k)] * a[packed_index(j, k)];
      a[packed_index(i, j)] = v;
    }
  }
}

// x = A^-1 x with the factor of cholesky_factor.
template <int N, class Real>
HJCDIK_FN void cholesky_solve(const Real* a, Real* x) {
  HJCDIK_UNROLL
  for (int i = 1; i < N; i++) {
    HJCDIK_UNROLL
    for (int k = 0; k < i; k++) x[i] = x[i] - a[packed_index(i, k)] * x[k];
  }
  HJCDIK_UNROLL
  for (int i = 0; i < N; i++) x[i] = x[i] * a[packed_index(i, i)];
  HJCDIK_UNROLL
  for (int i = N - 2; i >= 0; i--) {
    HJCDIK_UNROLL
    for (int k = i + 1; k < N; k++) x[i] = x[i] - a[packed_index(k, i)] * x[k];
  }
}

}  // namespace hjcdik::HJCDIK_CORE
