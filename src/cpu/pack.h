// Pack<T, W>: W lanes of float or double that behave like one number, on the compiler's vector
// extension. Only the lane file includes this, once per instruction set.
#pragma once

#include "core/scalar.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hjcdik::HJCDIK_CORE {

template <class T>
struct IntegerOf;
template <>
struct IntegerOf<float> {
  using type = int;
};
template <>
struct IntegerOf<double> {
  using type = long long;
};

template <class T, int W>
struct VectorOf {
  using type [[gnu::vector_size(sizeof(T) * W)]] = T;
};

template <class T, int W>
struct PackMask {
  using Vector = typename VectorOf<typename IntegerOf<T>::type, W>::type;
  Vector v;
};

template <class T, int W>
struct PackInt {
  using Vector = typename PackMask<T, W>::Vector;
  Vector v;
};

template <class T, int W>
struct Pack {
  using Vector = typename VectorOf<T, W>::type;
  Vector v;

  Pack() = default;
  HJCDIK_FN Pack(Vector x) : v(x) {}
  HJCDIK_FN explicit Pack(T x) : v(x - Vector{}) {}

  HJCDIK_FN T operator[](int lane) const { return v[lane]; }
  HJCDIK_FN void set(int lane, T x) { reinterpret_cast<T __attribute__((may_alias))*>(this)[lane] = x; }

  HJCDIK_FN Pack operator-() const { return -v; }
  friend HJCDIK_FN Pack operator+(Pack a, Pack b) { return a.v + b.v; }
  friend HJCDIK_FN Pack operator-(Pack a, Pack b) { return a.v - b.v; }
  friend HJCDIK_FN Pack operator*(Pack a, Pack b) { return a.v * b.v; }
  friend HJCDIK_FN Pack operator/(Pack a, Pack b) { return a.v / b.v; }
  friend HJCDIK_FN PackMask<T, W> operator<(Pack a, Pack b) { return {a.v < b.v}; }
  friend HJCDIK_FN PackMask<T, W> operator>(Pack a, Pack b) { return {a.v > b.v}; }
  friend HJCDIK_FN PackMask<T, W> operator<=(Pack a, Pack b) { return {a.v <= b.v}; }
  friend HJCDIK_FN PackMask<T, W> operator>=(Pack a, Pack b) { return {a.v >= b.v}; }
  friend HJCDIK_FN PackMask<T, W> operator==(Pack a, Pack b) { return {a.v == b.v}; }
};

template <class T, int W>
struct Traits<Pack<T, W>> {
  using Scalar = T;
  using Mask = PackMask<T, W>;
  using Int = PackInt<T, W>;
};

template <class T, int W>
HJCDIK_FN PackMask<T, W> operator&(PackMask<T, W> a, PackMask<T, W> b) {
  return {a.v & b.v};
}
template <class T, int W>
HJCDIK_FN PackMask<T, W> operator|(PackMask<T, W> a, PackMask<T, W> b) {
  return {a.v | b.v};
}
template <class T, int W>
HJCDIK_FN PackMask<T, W> operator!(PackMask<T, W> a) {
  return {~a.v};
}
template <class T, int W>
HJCDIK_FN PackInt<T, W> operator&(PackInt<T, W> a, int b) {
  return {a.v & b};
}
template <class T, int W>
HJCDIK_FN PackInt<T, W> operator+(PackInt<T, W> a, int b) {
  return {a.v + b};
}
template <class T, int W>
HJCDIK_FN PackMask<T, W> operator>=(PackInt<T, W> a, int b) {
  return {a.v >= b};
}
template <class T, int W>
HJCDIK_FN PackMask<T, W> operator!=(PackInt<T, W> a, int b) {
  return {a.v != b};
}

template <class T, int W>
HJCDIK_FN Pack<T, W> select(PackMask<T, W> m, Pack<T, W> a, Pack<T, W> b) {
  return m.v ? a.v : b.v;
}
template <class T, int W>
HJCDIK_FN PackInt<T, W> bits(Pack<T, W> x) {
  return {reinterpret_cast<typename PackInt<T, W>::Vector>(x.v)};
}
template <class T, int W>
HJCDIK_FN Pack<T, W> abs(Pack<T, W> x) {
  using Int = typename PackInt<T, W>::Vector;
  constexpr typename IntegerOf<T>::type sign = typename IntegerOf<T>::type(1) << (8 * sizeof(T) - 1);
  return reinterpret_cast<typename Pack<T, W>::Vector>(reinterpret_cast<Int>(x.v) & ~sign);
}
template <class T, int W>
HJCDIK_FN Pack<T, W> min(Pack<T, W> a, Pack<T, W> b) {
  return b.v < a.v ? b.v : a.v;
}
template <class T, int W>
HJCDIK_FN Pack<T, W> max(Pack<T, W> a, Pack<T, W> b) {
  return a.v < b.v ? b.v : a.v;
}

// Bit l: lane l of the mask. The generic form is for processors without one of their own.
template <class T, int W>
HJCDIK_FN unsigned mask_bits(PackMask<T, W> m) {
#if defined(__AVX512DQ__)
  if constexpr (sizeof(m.v) == 64 && sizeof(T) == 4) return _mm512_movepi32_mask((__m512i)m.v);
  if constexpr (sizeof(m.v) == 64 && sizeof(T) == 8) return _mm512_movepi64_mask((__m512i)m.v);
#endif
#if defined(__AVX__)
  if constexpr (sizeof(m.v) == 32 && sizeof(T) == 4) return unsigned(_mm256_movemask_ps((__m256)m.v));
  if constexpr (sizeof(m.v) == 32 && sizeof(T) == 8) return unsigned(_mm256_movemask_pd((__m256d)m.v));
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(m.v) == 16 && sizeof(T) == 4) return unsigned(_mm_movemask_ps((__m128)m.v));
  if constexpr (sizeof(m.v) == 16 && sizeof(T) == 8) return unsigned(_mm_movemask_pd((__m128d)m.v));
#endif
  unsigned bits = 0;
  for (int l = 0; l < W; l++) bits |= unsigned(m.v[l] != 0) << l;
  return bits;
}
template <class T, int W>
HJCDIK_FN bool any(PackMask<T, W> m) {
  return mask_bits(m) != 0;
}

// maskz: the plain intrinsics make g++ warn of an uninitialised value in its own header.
template <class T, int W>
HJCDIK_FN Pack<T, W> sqrt(Pack<T, W> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(x) == 64 && sizeof(T) == 4)
    return (typename Pack<T, W>::Vector)_mm512_maskz_sqrt_ps(0xffff, (__m512)x.v);
  if constexpr (sizeof(x) == 64 && sizeof(T) == 8)
    return (typename Pack<T, W>::Vector)_mm512_maskz_sqrt_pd(0xff, (__m512d)x.v);
#endif
#if defined(__AVX__)
  if constexpr (sizeof(x) == 32 && sizeof(T) == 4)
    return (typename Pack<T, W>::Vector)_mm256_sqrt_ps((__m256)x.v);
  if constexpr (sizeof(x) == 32 && sizeof(T) == 8)
    return (typename Pack<T, W>::Vector)_mm256_sqrt_pd((__m256d)x.v);
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(x) == 16 && sizeof(T) == 4)
    return (typename Pack<T, W>::Vector)_mm_sqrt_ps((__m128)x.v);
  if constexpr (sizeof(x) == 16 && sizeof(T) == 8)
    return (typename Pack<T, W>::Vector)_mm_sqrt_pd((__m128d)x.v);
#endif
  Pack<T, W> r;
  for (int l = 0; l < W; l++) r.set(l, sqrt(x[l]));
  return r;
}

// Lane l gets lane `from[l]` of x, modulo W.
template <class T, int W>
HJCDIK_FN Pack<T, W> shuffle(Pack<T, W> x, PackInt<T, W> from) {
  return __builtin_shuffle(x.v, from.v);
}

// The smallest of the lanes.
template <class T, int W>
HJCDIK_FN T least(Pack<T, W> x) {
  using Int = typename PackInt<T, W>::Vector;
  Int lane{};
  for (int l = 0; l < W; l++) lane[l] = l;
#pragma GCC unroll 4
  for (int away = W / 2; away > 0; away /= 2) x = min(x, Pack<T, W>(__builtin_shuffle(x.v, lane ^ away)));
  return x[0];
}

}  // namespace hjcdik::HJCDIK_CORE
