// Which rows count as the same, against brute force.
#include "solver/select.hpp"

#include <cmath>
#include <numbers>

#include "rows.hpp"

namespace hjcdik {
namespace {

using namespace test;
constexpr double kTurn = 2 * std::numbers::pi;

// Joints of the given kinds: r (limits of +-2), w (+-2 pi), c (continuous), p (0 to 30 m).
Robot chain_of(const std::string& kinds) {
  std::string text = link("l0");
  for (std::size_t i = 0; i < kinds.size(); i++) {
    const char kind = kinds[i];
    const std::string type = kind == 'c' ? "continuous" : kind == 'p' ? "prismatic" : "revolute";
    const std::string limit = kind == 'r' ? "<limit lower=\"-2\" upper=\"2\"/>"
                              : kind == 'w'
                                  ? "<limit lower=\"-6.283185307179586\" upper=\"6.283185307179586\"/>"
                              : kind == 'p' ? "<limit lower=\"0\" upper=\"30\"/>"
                                            : "";
    const std::string child = "l" + std::to_string(i + 1);
    text += link(child) + joint("j" + child, type, "l" + std::to_string(i), child,
                                "<origin xyz=\"0.1 0 0.2\"/><axis xyz=\"" +
                                    std::string(i % 2 ? "0 1 0" : "0 0 1") + "\"/>" + limit);
  }
  return load(robot(text), "l" + std::to_string(kinds.size()));
}

// Rows in clusters, so that many lie just within or just beyond the threshold, across the seam at half
// a turn too.
std::vector<std::vector<double>> clustered_rows(const Robot& robot, int count, double threshold,
                                                Random& random) {
  std::vector<std::vector<double>> rows;
  while (int(rows.size()) < count) {
    std::vector<double> q;
    const bool near_another = !rows.empty() && random.below(3) > 0;
    const std::vector<double>& other = near_another ? rows[std::size_t(random.below(int(rows.size())))] : q;
    for (std::size_t i = 0; i < robot.joints().size(); i++) {
      const JointInfo& info = robot.joints()[i];
      double v = random.uniform(info.lower, info.upper);
      if (near_another) {
        v = other[i] + threshold * random.uniform(-1.1, 1.1);
        if (random.below(3) == 0) v = other[i];
        if (info.type != JointType::prismatic && random.below(3) == 0)
          v += kTurn * (random.below(2) ? 1 : -1);
      } else if (random.below(4) == 0) {
        v = random.below(2) ? info.lower : info.upper;
      }
      if (info.type == JointType::continuous) v = std::remainder(v, kTurn);
      q.push_back(std::clamp(v, info.lower, info.upper));
    }
    rows.push_back(q);
  }
  return rows;
}

TEST(DistinctSet, EqualsBruteForce) {
  Random random(1);
  for (const char* kinds : {"r", "p", "c", "rr", "wc", "pp", "pr", "ccw", "wwwwww", "rprcprw"}) {
    const Robot robot = chain_of(kinds);
    DistinctSet set;
    for (const double threshold : {0.05, 1e-7, 0.3, 1.0, 3.0, 10.0}) {
      const auto rows = clustered_rows(robot, few(1000), threshold, random);
      set.reset(robot.chain(), threshold);
      std::vector<std::size_t> kept;
      for (std::size_t r = 0; r < rows.size(); r++) {
        bool is_new = true;
        for (const std::size_t k : kept) {
          // Values at the threshold itself are a matter of rounding.
          if (std::abs(largest_difference(robot, rows[r], rows[k]) - threshold) < 1e-9 * threshold) goto next;
          is_new = is_new && largest_difference(robot, rows[r], rows[k]) >= threshold;
        }
        if (kept.size() % 97 == 0) {
          bool far = true;
          for (const std::size_t k : kept)
            far = far && largest_difference(robot, rows[r], rows[k]) >= 0.5 * threshold;
          ASSERT_EQ(set.differs(rows[r].data(), 0.5 * threshold), far);
        }
        ASSERT_EQ(set.insert(rows[r].data()), is_new) << kinds << " threshold " << threshold << " row " << r;
        if (is_new) kept.push_back(r);
        ASSERT_EQ(set.size(), std::int64_t(kept.size()));
      next:;
      }
    }
  }
}

// Cleared and filled again, it has forgotten everything, small and large.
TEST(DistinctSet, ClearForgets) {
  const Robot robot = chain_of("wc");
  Random random(2);
  DistinctSet set;
  set.reset(robot.chain(), 0.01);
  const auto rows = clustered_rows(robot, 3000, 5, random);
  std::int64_t first = -1;
  for (const int count : {3000, 10, 65, 3000, 200}) {
    set.clear();
    EXPECT_EQ(set.size(), 0);
    EXPECT_TRUE(set.differs(rows[0].data(), 0.01));
    for (int r = 0; r < count; r++) set.insert(rows[std::size_t(r)].data());
    if (first < 0) first = set.size();
    if (count == 3000) {
      EXPECT_EQ(set.size(), first);
    }
    EXPECT_FALSE(set.insert(rows[0].data()));
  }
}

TEST(Differ, IsModuloATurnForTurningJoints) {
  const Robot robot = chain_of("wcp");
  const auto differ_by = [&](const std::vector<double>& a, const std::vector<double>& b, double threshold) {
    const bool forth = differ(robot.chain(), a.data(), b.data(), threshold);
    EXPECT_EQ(forth, differ(robot.chain(), b.data(), a.data(), threshold));
    return forth;
  };
  EXPECT_FALSE(differ_by({-6.2, 3.1, 5}, {-6.2 + kTurn, 3.1, 5}, 0.05));
  EXPECT_FALSE(differ_by({-6.2, 3.1, 5}, {-6.2 + 2 * kTurn, 3.1, 5}, 0.05));
  EXPECT_FALSE(differ_by({0, 3.14, 5}, {0, -3.14, 5}, 0.05));
  EXPECT_TRUE(differ_by({0, 3.14, 5}, {0, -3.14, 5}, 0.003));
  EXPECT_TRUE(differ_by({0, 0, 5}, {0, 0, 5 + kTurn}, 0.05)) << "a slide does not wrap";
  EXPECT_TRUE(differ_by({0, 0, 5}, {0.05, 0, 5}, 0.05));
  EXPECT_FALSE(differ_by({0, 0, 5}, {0.049, 0.049, 5.049}, 0.05));
}

// All equivalents inside the limits, tried one by one.
TEST(NearestEquivalent, EqualsBruteForce) {
  Random random(3);
  for (const char* kinds : {"w", "rwcp", "wwwwww"}) {
    const Robot robot = chain_of(kinds);
    const std::size_t n = robot.joints().size();
    for (int k = 0; k < few(5000); k++) {
      std::vector<double> q, reference;
      for (const JointInfo& info : robot.joints()) {
        q.push_back(random.uniform(info.lower, info.upper));
        reference.push_back(random.uniform(info.lower, info.upper));
      }
      const bool to_middle = k % 3 == 0;
      std::vector<double> moved = q;
      const bool changed =
          nearest_equivalent(robot.chain(), to_middle ? nullptr : reference.data(), moved.data());
      ASSERT_EQ(changed, moved != q);
      for (std::size_t i = 0; i < n; i++) {
        const JointInfo& info = robot.joints()[i];
        double best = q[i];
        const double middle = to_middle ? 0.5 * (info.lower + info.upper) : reference[i];
        for (int turns = -3; turns <= 3; turns++) {
          const double value = q[i] + turns * kTurn;
          if (info.type != JointType::revolute || value < info.lower || value > info.upper) continue;
          if (std::abs(value - middle) < std::abs(best - middle)) best = value;
        }
        ASSERT_NEAR(std::abs(moved[i] - middle), std::abs(best - middle), 1e-12) << kinds << " joint " << i;
        ASSERT_GE(moved[i], info.lower);
        ASSERT_LE(moved[i], info.upper);
        ASSERT_NEAR(std::remainder(moved[i] - q[i], kTurn), 0, 1e-12);
      }
    }
  }
}

TEST(JointDistance, IsEuclideanModuloATurnForContinuousJoints) {
  const Robot robot = chain_of("rcpw");
  Random random(4);
  for (int k = 0; k < 1000; k++) {
    std::vector<double> a, b;
    double sum = 0;
    for (const JointInfo& info : robot.joints()) {
      a.push_back(random.uniform(info.lower, info.upper));
      b.push_back(random.uniform(info.lower, info.upper));
      double d = a.back() - b.back();
      if (info.type == JointType::continuous)
        d = std::min({std::abs(d), std::abs(d + kTurn), std::abs(d - kTurn)});
      sum += d * d;
    }
    EXPECT_NEAR(joint_distance(robot.chain(), a.data(), b.data()), std::sqrt(sum), 1e-13);
  }
}

}  // namespace
}  // namespace hjcdik
