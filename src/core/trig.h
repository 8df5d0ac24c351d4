// Sine, cosine and arctangent without branches, to the rounding of the scalar.
#pragma once

#include "core/scalar.h"

namespace hjcdik::HJCDIK_CORE {

// Taylor's polynomials on [-pi/4, pi/4]: the first term left out is below half an ulp there.
template <class Real>
HJCDIK_FN Real sin_kernel(Real x, Real s, float) {
  return x +
         x * s *
             (Real(-1.0f / 6) + s * (Real(1.0f / 120) + s * (Real(-1.0f / 5040) + s * Real(1.0f / 362880))));
}
template <class Real>
HJCDIK_FN Real cos_kernel(Real s, float) {
  return Real(1.0f) +
         s * (Real(-0.5f) + s * (Real(1.0f / 24) + s * (Real(-1.0f / 720) + s * Real(1.0f / 40320))));
}
template <class Real>
HJCDIK_FN Real sin_kernel(Real x, Real s, double) {
  Real p = Real(1.0 / 355687428096000.0);
  p = Real(-1.0 / 1307674368000.0) + s * p;
  p = Real(1.0 / 6227020800.0) + s * p;
  p = Real(-1.0 / 39916800.0) + s * p;
  p = Real(1.0 / 362880.0) + s * p;
  p = Real(-1.0 / 5040.0) + s * p;
  p = Real(1.0 / 120.0) + s * p;
  p = Real(-1.0 / 6.0) + s * p;
  return x + x * s * p;
}
template <class Real>
HJCDIK_FN Real cos_kernel(Real s, double) {
  Real p = Real(-1.0 / 6402373705728000.0);
  p = Real(1.0 / 20922789888000.0) + s * p;
  p = Real(-1.0 / 87178291200.0) + s * p;
  p = Real(1.0 / 479001600.0) + s * p;
  p = Real(-1.0 / 3628800.0) + s * p;
  p = Real(1.0 / 40320.0) + s * p;
  p = Real(-1.0 / 720.0) + s * p;
  p = Real(1.0 / 24.0) + s * p;
  p = Real(-0.5) + s * p;
  return Real(1.0) + s * p;
}

// For |x| up to some thousands of turns (float: some tens).
template <class Real>
HJCDIK_FN void sincos(Real x, Real& sine, Real& cosine) {
  using S = ScalarOf<Real>;
  using C = Constants<S>;
  const Real biased = x * Real(S(2.0 / 3.14159265358979323846)) + Real(C::round_bias);
  const auto quadrant = bits(biased);
  const Real k = biased - Real(C::round_bias);
  Real r = x - k * Real(C::half_pi_1);
  r = r - k * Real(C::half_pi_2);
  r = r - k * Real(C::half_pi_3);
  const Real s = r * r;
  const Real sp = sin_kernel(r, s, S(0));
  const Real cp = cos_kernel(s, S(0));
  const auto odd = (quadrant & 1) != 0;
  const Real ss = select(odd, cp, sp);
  const Real cc = select(odd, sp, cp);
  sine = select((quadrant & 2) != 0, -ss, ss);
  cosine = select(((quadrant + 1) & 2) != 0, -cc, cc);
}

#if defined(__CUDA_ARCH__)
// The GPU's own units: 5e-7 off at most in a few turns, which moves the tool of an arm of a metre by less
// than the search's tolerance.
HJCDIK_FN void sincos(float x, float& sine, float& cosine) {
  sine = __sinf(x);
  cosine = __cosf(x);
}
#endif

// Minimax polynomials for atan(a) / a in s = a * a, computed with Remez' algorithm.
template <class Real>
HJCDIK_FN Real atan_kernel(Real s, float) {  // a <= 1
  Real p = Real(0.00284989504f);
  p = Real(-0.01606864981f) + s * p;
  p = Real(0.04269155223f) + s * p;
  p = Real(-0.07504297312f) + s * p;
  p = Real(0.10640935362f) + s * p;
  p = Real(-0.14203644833f) + s * p;
  p = Real(0.19992619444f) + s * p;
  p = Real(-0.33333073348f) + s * p;
  return Real(0.99999998477f) + s * p;
}
template <class Real>
HJCDIK_FN Real atan_kernel(Real s, double) {  // a <= tan(pi/8)
  Real p = Real(-0.017834169512468708207);
  p = Real(0.037992516356691120167) + s * p;
  p = Real(-0.050362177993644250171) + s * p;
  p = Real(0.058471362310372057447) + s * p;
  p = Real(-0.066629888587507509283) + s * p;
  p = Real(0.076920487494098034664) + s * p;
  p = Real(-0.090908970117034424493) + s * p;
  p = Real(0.11111110752410363399) + s * p;
  p = Real(-0.1428571427941184357) + s * p;
  p = Real(0.19999999999942680303) + s * p;
  p = Real(-0.33333333333333128892) + s * p;
  return Real(1.0) + s * p;
}

// arctan(smaller / larger) for 0 <= smaller <= larger, 0 / 0 = 0.
template <class Real>
HJCDIK_FN Real atan_octant(Real smaller, Real larger, float) {
  const Real a = smaller / max(larger, Real(Constants<float>::tiny));
  return a * atan_kernel(a * a, 0.0f);
}
template <class Real>
HJCDIK_FN Real atan_octant(Real smaller, Real larger, double) {
  // Above tan(pi/8): pi/4 + atan((a - 1) / (a + 1)).
  const auto high = smaller > larger * Real(0.41421356237309504880);
  const Real n = select(high, smaller - larger, smaller);
  const Real d = select(high, smaller + larger, max(larger, Real(Constants<double>::tiny)));
  const Real a = n / d;
  return a * atan_kernel(a * a, 0.0) + select(high, Real(0.78539816339744830962), Real(0.0));
}

template <class Real>
HJCDIK_FN Real atan2(Real y, Real x) {
  using S = ScalarOf<Real>;
  const Real ax = abs(x), ay = abs(y);
  const auto steep = ay > ax;
  Real t = atan_octant(select(steep, ax, ay), select(steep, ay, ax), S(0));
  t = select(steep, Real(S(1.57079632679489661923)) - t, t);
  t = select(x < Real(S(0)), Real(S(3.14159265358979323846)) - t, t);
  return select(y < Real(S(0)), -t, t);
}

}  // namespace hjcdik::HJCDIK_CORE
