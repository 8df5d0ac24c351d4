// The leaves for plain float and double: what a type must offer to be used as Real in this folder.
// Pack in cpu/pack.h offers the same for lanes.
#pragma once

#include "core/config.h"

namespace hjcdik::HJCDIK_CORE {

// Real -> the scalar it is made of, the mask its comparisons give, the integers of its width.
template <class Real>
struct Traits;

template <>
struct Traits<float> {
  using Scalar = float;
  using Mask = bool;
  using Int = int;
};

template <>
struct Traits<double> {
  using Scalar = double;
  using Mask = bool;
  using Int = long long;
};

template <class Real>
using ScalarOf = typename Traits<Real>::Scalar;
template <class Real>
using MaskOf = typename Traits<Real>::Mask;

// Constants of each precision. round_bias added to a number of moderate size rounds it to an
// integer, which then stands in the low bits.
template <class S>
struct Constants;

template <>
struct Constants<float> {
  static constexpr float pi = 3.14159274f, two_pi = 6.28318548f, round_bias = 12582912.0f;
  static constexpr float tiny = 1e-30f, noise = 4.8e-7f;  // four roundings of 1
  // pi/2 in parts that multiply a small integer exactly.
  static constexpr float half_pi_1 = 1.5703125f, half_pi_2 = 4.837512969970703125e-4f,
                         half_pi_3 = 7.549789948768648e-8f;
};

template <>
struct Constants<double> {
  static constexpr double pi = 3.14159265358979323846, two_pi = 6.28318530717958647693,
                          round_bias = 6755399441055744.0;
  static constexpr double tiny = 1e-300, noise = 8.9e-16;
  static constexpr double half_pi_1 = 1.57079632673412561417e+00, half_pi_2 = 6.07710050630396597660e-11,
                          half_pi_3 = 2.02226624879595063154e-21;
};

HJCDIK_FN float select(bool m, float a, float b) { return m ? a : b; }
HJCDIK_FN double select(bool m, double a, double b) { return m ? a : b; }
HJCDIK_FN bool any(bool m) { return m; }

#if defined(__CUDA_ARCH__)
HJCDIK_FN float sqrt(float x) { return ::sqrtf(x); }
HJCDIK_FN double sqrt(double x) { return ::sqrt(x); }
HJCDIK_FN int bits(float x) { return __float_as_int(x); }
HJCDIK_FN long long bits(double x) { return __double_as_longlong(x); }
HJCDIK_FN float abs(float x) { return ::fabsf(x); }
HJCDIK_FN double abs(double x) { return ::fabs(x); }
HJCDIK_FN float min(float a, float b) { return ::fminf(a, b); }
HJCDIK_FN float max(float a, float b) { return ::fmaxf(a, b); }
HJCDIK_FN double ceil(double x) { return ::ceil(x); }
HJCDIK_FN double floor(double x) { return ::floor(x); }
HJCDIK_FN double round(double x) { return ::round(x); }
#else
HJCDIK_FN double ceil(double x) { return __builtin_ceil(x); }
HJCDIK_FN double floor(double x) { return __builtin_floor(x); }
HJCDIK_FN double round(double x) { return __builtin_round(x); }
HJCDIK_FN float sqrt(float x) { return __builtin_sqrtf(x); }
HJCDIK_FN double sqrt(double x) { return __builtin_sqrt(x); }
HJCDIK_FN int bits(float x) { return __builtin_bit_cast(int, x); }
HJCDIK_FN long long bits(double x) { return __builtin_bit_cast(long long, x); }
HJCDIK_FN float abs(float x) { return __builtin_fabsf(x); }
HJCDIK_FN double abs(double x) { return __builtin_fabs(x); }
HJCDIK_FN float min(float a, float b) { return b < a ? b : a; }
HJCDIK_FN float max(float a, float b) { return a < b ? b : a; }
#endif
HJCDIK_FN double min(double a, double b) { return b < a ? b : a; }
HJCDIK_FN double max(double a, double b) { return a < b ? b : a; }

template <class Real>
HJCDIK_FN Real clamp(Real x, Real lower, Real upper) {
  return min(max(x, lower), upper);
}

}  // namespace hjcdik::HJCDIK_CORE
