// Reachable targets: a Halton sequence shifted modulo 1 (Cranley and Patterson 1976), scaled to the
// joint limits. The shift's hash is the one of the public HJCD-IK sampler, so that the same seed
// gives the same targets.
#pragma once

#include "core/chain.h"
#include "core/scalar.h"

namespace hjcdik::HJCDIK_CORE {

HJCDIK_FN constexpr u32 prime(int i) {
  constexpr unsigned char primes[kMaxDof] = {2,  3,  5,  7,   11,  13,  17,  19,  23,  29, 31,
                                             37, 41, 43, 47,  53,  59,  61,  67,  71,  73, 79,
                                             83, 89, 97, 101, 103, 107, 109, 113, 127, 131};
  return primes[i];
}

// Thomas Wang's 32-bit integer hash.
HJCDIK_FN u32 wang_hash(u32 x) {
  x = (x ^ 61u) ^ (x >> 16);
  x *= 9u;
  x ^= x >> 4;
  x *= 0x27d4eb2du;
  x ^= x >> 15;
  return x;
}

HJCDIK_FN double radical_inverse(u64 n, u32 base) {
  double value = 0, digit = 1.0 / base;
  for (; n > 0; n /= base, digit /= base) value += double(n % base) * digit;
  return value;
}

// Joint j of point `index` = 1, 2, ...
HJCDIK_FN double halton_value(const JointConstants<double>& joint, u64 index, u64 seed, int j) {
  const u32 h = u32(seed ^ 0x9e3779b97f4a7c15ull);
  const double shift = double(wang_hash(h + u32(j) * 0x9e3779b9u) & 0xffffffu) / 16777216.0;
  double u = radical_inverse(index, prime(j)) + shift;
  u -= double(u64(u));
  return clamp(joint.lower + u * (joint.upper - joint.lower), joint.lower, joint.upper);
}

}  // namespace hjcdik::HJCDIK_CORE
