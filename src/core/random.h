// Random numbers without state: a value is a function of its counters alone.
#pragma once

#include "core/chain.h"
#include "core/scalar.h"

namespace hjcdik::HJCDIK_CORE {

// A bijection of 32-bit words with little bias; the constants are those of "lowbias32" from Chris
// Wellons' search for integer hashes (2018, public domain).
HJCDIK_FN u32 mix(u32 x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

// In (0, 1], 24 bits.
HJCDIK_FN float uniform(u32 hash) { return (float(hash >> 8) + 0.5f) * 5.9604644775390625e-8f; }

// The stream of one start: a function of seed, candidate and start, never of the target.
HJCDIK_FN u32 start_stream(u32 seed, u32 candidate, u32 start) {
  return mix(mix(seed + 0x9e3779b9u * (candidate + 1u)) + 0x85ebca6bu * (start + 1u));
}

// Configurations whose tool poses are known before the search: the first random start of a target is
// the one that is nearest to it.
constexpr int kSeedTable = 64;
constexpr float kSeedTableSpread = 0.5f;
// In place of a start's number, for the streams of the table.
constexpr u32 kSeedTableStart = 0x80000000u;

// The first starts are given up, from kStallIteration on, as soon as two iterations together gain less
// than a tenth of |r|: most such starts would fail, and the next is cheaper. Later starts meet hard
// targets and run on. The factor is one of |r|².
constexpr int kStallIteration = 6;
// Ends this near, m and rad, are judged for collision too: the best that are free are returned where none
// converged.
constexpr float kAccurateDistance = 5e-3f, kAccurateAngle = 0.05f;
// Clearances beyond it need not be known, m: more than the polish moves any point.
constexpr float kInterest = 2e-3f;

// A start that ends within this many tolerances is left to the polish.
constexpr float kNearEnough = 10.0f;
// What ranks ends that are off target: metres, a radian counting as 0.3.
template <class Real>
HJCDIK_FN Real end_score(Real distance, Real angle) {
  return distance + Real(0.3) * angle;
}
HJCDIK_FN float stall_ratio(int candidate, int start) { return candidate + start < 8 ? 0.81f : 1e30f; }

// The part of every joint's range, about its middle, that a random start is drawn from: a fifth for the
// first start of the first candidate, all of it from the fifth start on. Starts near mid-range converge
// far more often (Panda: 81 against 46 of 100), since the limits are not in the way; what they cannot
// reach is left to the wide ones.
HJCDIK_FN float start_spread(u32 candidate, u32 start) {
  return min(1.0f, 0.2f + 0.2f * (float(candidate) + float(start)));
}

// Joint i of a random start.
template <class S>
HJCDIK_FN S start_value(const JointConstants<S>& joint, u32 stream, S spread, int i) {
  const S u = S(uniform(mix(stream + 0x9e3779b9u * u32(i + 1)))) - S(0.5);
  const S middle = S(0.5) * (joint.lower + joint.upper);
  return clamp(middle + spread * u * (joint.upper - joint.lower), joint.lower, joint.upper);
}

}  // namespace hjcdik::HJCDIK_CORE
