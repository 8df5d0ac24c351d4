// Random starts and the Halton targets.
#include <array>
#include <cmath>
#include <set>

#include "core/halton.h"
#include "core/jobs.h"
#include "core/random.h"
#include "support.hpp"

namespace hjcdik {
namespace {

using namespace test;
using core::u32;

// Of counts that should be equal. With k bins it is k - 1 on average, and above k + 5 sqrt(2 k) in one
// of a million cases.
double chi_square(const std::vector<int>& counts) {
  double total = 0, sum = 0;
  for (const int c : counts) total += c;
  const double expected = total / double(counts.size());
  for (const int c : counts) sum += (c - expected) * (c - expected) / expected;
  return sum;
}
double chi_square_bar(const std::vector<int>& counts) {
  return double(counts.size()) + 5 * std::sqrt(2.0 * double(counts.size()));
}
std::size_t bin(float u, int bins) { return std::size_t(std::min(int(u * float(bins)), bins - 1)); }

TEST(Uniform, EndsAndSteps) {
  EXPECT_GT(core::uniform(0), 0.0f);
  EXPECT_LE(core::uniform(0xffffffffu), 1.0f);
  EXPECT_NEAR(core::uniform(0x80000000u), 0.5f, 1e-7f);
  float last = 0;
  for (u32 h = 0; h < 0xffff0000u; h += 0x10000u) {
    ASSERT_GT(core::uniform(h), last);
    last = core::uniform(h);
  }
}

TEST(Mix, IsABijectionOfWhatWasTried) {
  std::set<u32> seen;
  for (u32 k = 0; k < 100'000; k++) seen.insert(core::mix(k * 0x10001u));
  EXPECT_EQ(seen.size(), 100'000u);
  // Flipping one bit flips half of the result, whichever it is.
  for (int bit = 0; bit < 32; bit++) {
    int flipped = 0;
    for (u32 k = 1; k <= 2000; k++)
      flipped += __builtin_popcount(core::mix(k * 7919u) ^ core::mix(k * 7919u ^ 1u << bit));
    EXPECT_NEAR(flipped / 2000.0, 16, 1) << "bit " << bit;
  }
}

// One joint from -1 to 1 at full spread, by its counters.
float value(u32 seed, u32 candidate, u32 start, int joint) {
  core::JointConstants<float> limits{};
  limits.lower = 0;
  limits.upper = 1;
  return core::start_value(limits, core::start_stream(seed, candidate, start), 1.0f, joint);
}

TEST(RandomStarts, EveryCounterIsUniform) {
  for (const u32 seed : {0u, 1u, 1337u, 0xffffffffu}) {
    std::vector<int> candidates(64), starts(64), joints(64), seeds(64);
    for (u32 k = 0; k < 20'000; k++) {
      candidates[bin(value(seed, k, 0, 3), 64)]++;
      starts[bin(value(seed, 5, k, 2), 64)]++;
      joints[bin(value(seed, k / 32, 1, int(k % 32)), 64)]++;
      seeds[bin(value(seed + k, 0, 0, 0), 64)]++;
    }
    for (const auto* counts : {&candidates, &starts, &joints, &seeds}) {
      EXPECT_LT(chi_square(*counts), chi_square_bar(*counts)) << "seed " << seed;
    }
  }
}

// Pairs of neighbouring counters fill the square.
TEST(RandomStarts, NeighboursAreIndependent) {
  constexpr int n = 16;
  std::array<std::vector<int>, 5> pairs;
  pairs.fill(std::vector<int>(n * n));
  for (u32 k = 0; k < 60'000; k++) {
    const auto count = [&](std::size_t which, float a, float b) {
      pairs[which][bin(a, n) * n + bin(b, n)]++;
    };
    count(0, value(1337, k, 0, 0), value(1337, k, 0, 1));
    count(1, value(1337, k, 0, 0), value(1337, k + 1, 0, 0));
    count(2, value(1337, k, 0, 0), value(1337, k, 1, 0));
    count(3, value(k, 0, 0, 0), value(k + 1, 0, 0, 0));
    // Candidate c of one seed against candidate c + 1 of the seed before.
    count(4, value(k, 1, 0, 0), value(k + 1, 0, 0, 0));
  }
  for (std::size_t which = 0; which < pairs.size(); which++) {
    EXPECT_LT(chi_square(pairs[which]), chi_square_bar(pairs[which])) << "pair " << which;
  }
}

TEST(RandomStarts, CountersNeverShareAStream) {
  // 10,000 streams of 2^32 collide by chance in one of 86 draws; more would be a flaw.
  std::set<u32> streams;
  for (u32 candidate = 0; candidate < 100; candidate++) {
    for (u32 start = 0; start < 100; start++) streams.insert(core::start_stream(1337, candidate, start));
  }
  EXPECT_GE(streams.size(), 9998u);
}

TEST(RandomStarts, SpreadGrowsToTheWholeRange) {
  EXPECT_FLOAT_EQ(core::start_spread(0, 0), 0.2f);
  EXPECT_FLOAT_EQ(core::start_spread(0, 1), 0.4f);
  EXPECT_FLOAT_EQ(core::start_spread(1, 0), 0.4f);
  EXPECT_FLOAT_EQ(core::start_spread(1, 2), 0.8f);
  EXPECT_EQ(core::start_spread(0, 4), 1.0f);
  EXPECT_EQ(core::start_spread(4, 0), 1.0f);
  EXPECT_EQ(core::start_spread(1'000'000, 63), 1.0f);
}

TEST(RandomStarts, StayInTheLimitsAndAroundMidRange) {
  for (const Robot& robot : sample_robots(20)) {
    const auto& chain = robot.chain().constants_f32;
    for (int i = 0; i < chain.dof; i++) {
      const auto& joint = chain.joint[i];
      // Rounded inwards, so that a float in the limits is in the real ones too.
      if (robot.joints()[std::size_t(i)].lower < robot.joints()[std::size_t(i)].upper - 1e-5) {
        ASSERT_GE(double(joint.lower), robot.joints()[std::size_t(i)].lower);
        ASSERT_LE(double(joint.upper), robot.joints()[std::size_t(i)].upper);
      }
      const float middle = 0.5f * (joint.lower + joint.upper), range = joint.upper - joint.lower;
      float lowest = joint.upper, highest = joint.lower;
      for (u32 k = 0; k < 1000; k++) {
        const u32 stream = core::start_stream(1337, k, 7);
        const float wide = core::start_value(joint, stream, 1.0f, i);
        ASSERT_GE(wide, joint.lower);
        ASSERT_LE(wide, joint.upper);
        lowest = std::min(lowest, wide);
        highest = std::max(highest, wide);
        const float narrow = core::start_value(joint, stream, 0.2f, i);
        ASSERT_LE(std::abs(narrow - middle), 0.1001f * range + 1e-6f);
      }
      EXPECT_LE(lowest, joint.lower + 0.02f * range);
      EXPECT_GE(highest, joint.upper - 0.02f * range);
    }
  }
}

// Every start of every candidate runs exactly once, warm starts first.
TEST(StartOfJob, EnumeratesAllStarts) {
  for (const int starts : {1, 2, 7, 64}) {
    for (const int candidates : {1, 3, 10}) {
      for (int warm = 0; warm <= candidates; warm++) {
        std::set<std::pair<int, int>> seen;
        int last_candidate = 0;
        for (int job = 0; job < candidates * starts; job++) {
          const core::JobPlan plan{candidates * starts, starts, warm, 0};
          const auto [candidate, start, is_warm, is_first, walk] = core::start_of_job(plan, job);
          ASSERT_EQ(is_warm, job < warm);
          ASSERT_EQ(is_first, job == warm);
          ASSERT_FALSE(walk);
          ASSERT_GE(candidate, 0);
          ASSERT_LT(candidate, candidates);
          ASSERT_GE(start, 0);
          ASSERT_LT(start, starts);
          ASSERT_TRUE(seen.emplace(candidate, start).second) << "job " << job;
          if (job < warm) {
            ASSERT_EQ(candidate, job);
            ASSERT_EQ(start, 0);
          } else {
            ASSERT_TRUE(job == warm || candidate >= last_candidate);
            last_candidate = candidate;
          }
        }
        EXPECT_EQ(seen.size(), std::size_t(candidates * starts));
      }
    }
  }
}

TEST(Halton, Primes) {
  int n = 0;
  for (u32 p = 2; n < core::kMaxDof; p++) {
    bool prime = true;
    for (u32 d = 2; d * d <= p; d++) prime = prime && p % d != 0;
    if (prime) {
      EXPECT_EQ(core::prime(n++), p);
    }
  }
}

TEST(Halton, RadicalInverse) {
  EXPECT_EQ(core::radical_inverse(0, 2), 0.0);
  EXPECT_EQ(core::radical_inverse(1, 2), 0.5);
  EXPECT_EQ(core::radical_inverse(2, 2), 0.25);
  EXPECT_EQ(core::radical_inverse(3, 2), 0.75);
  EXPECT_EQ(core::radical_inverse(6, 2), 0.375);
  EXPECT_NEAR(core::radical_inverse(5, 3), 2.0 / 3 + 1.0 / 9, 1e-16);
  // Digits read backwards, as one fraction.
  for (const u32 base : {2u, 3u, 7u, 131u}) {
    for (const core::u64 n : {1ull, 10ull, 12345ull, 987654321ull, 1ull << 40}) {
      long double numerator = 0, denominator = 1;
      for (core::u64 rest = n; rest > 0; rest /= base) {
        numerator = numerator * base + rest % base;
        denominator *= base;
      }
      EXPECT_NEAR(core::radical_inverse(n, base), double(numerator / denominator), 4e-16)
          << n << " in base " << base;
    }
  }
}

// First points of the sequence of seed 0: the q0 of open_targets_cp_seed0.json.gz (generated for this
// project, no licence restriction), which has been made by a program of its own. tests/python compares
// the whole file.
TEST(Halton, FirstPointsOfSeedZero) {
  const std::vector<double> panda = {-0.46190798262357724, -1.603090015602112, -2.3190144474077226,
                                     -2.112777909394673,   -1.236619720215147, 1.9769135499000547,
                                     1.194045958713223};
  const std::vector<double> ur5e = {-1.0017096778688517, -5.713927633377288,  -2.51454759657084,
                                    -2.268719278563969,  -2.6815913223897643, 0.3647032409222195};
  const std::vector<double> iiwa14 = {-0.47302957010467805, -1.9046425444561903, -2.3748505078721722,
                                      -0.7562397595201693,  -1.2663070133505685, 0.12156774697388784,
                                      1.2587601715195391};
  for (const auto& [name, q0] :
       {std::pair{"panda", panda}, std::pair{"ur5e", ur5e}, std::pair{"iiwa14", iiwa14}}) {
    const Robot robot = Robot::preset(name);
    ASSERT_EQ(robot.dof(), int(q0.size()));
    for (int j = 0; j < robot.dof(); j++) {
      EXPECT_NEAR(core::halton_value(robot.chain().constants.joint[j], 1, 0, j), q0[std::size_t(j)], 1e-15)
          << name;
    }
  }
}

// The rule of the data's README by another route: whole-number arithmetic, the hash with shifts.
TEST(Halton, ShiftedPoints) {
  core::JointConstants<double> joint{};
  joint.lower = 0;
  joint.upper = 1;
  for (const core::u64 seed : {0ull, 1ull, 0x123456789abcdefull}) {
    for (int j = 0; j < 32; j++) {
      u32 h = u32(seed ^ 0x9E3779B97F4A7C15ull) + u32(j) * 0x9E3779B9u;
      h = (h ^ 61) ^ (h >> 16);
      h = h + (h << 3);
      h = h ^ (h >> 4);
      h = h * 0x27d4eb2d;
      h = h ^ (h >> 15);
      for (core::u64 n = 1; n < 200; n++) {
        long double numerator = 0, denominator = 1;
        for (core::u64 rest = n; rest > 0; rest /= core::prime(j)) {
          numerator = numerator * core::prime(j) + rest % core::prime(j);
          denominator *= core::prime(j);
        }
        const long double sum = numerator / denominator + (h & 0xFFFFFF) / 16777216.0L;
        ASSERT_NEAR(core::halton_value(joint, n, seed, j), double(sum - std::floor(sum)), 1e-15)
            << seed << " " << j;
      }
    }
  }
}

// 2^16 points in each of 64 bins: a low-discrepancy sequence is far more even than random numbers.
TEST(Halton, FillsTheRangeEvenly) {
  core::JointConstants<double> joint{};
  joint.lower = -2;
  joint.upper = 5;
  for (int j = 0; j < 6; j++) {
    std::vector<int> counts(64);
    for (core::u64 n = 1; n <= 6400; n++) {
      const double v = core::halton_value(joint, n, 3, j);
      ASSERT_GE(v, joint.lower);
      ASSERT_LE(v, joint.upper);
      counts[std::min<std::size_t>(63, std::size_t((v + 2) / 7 * 64))]++;
    }
    for (const int c : counts) EXPECT_NEAR(c, 100, 12) << "joint " << j;
  }
}

}  // namespace
}  // namespace hjcdik
