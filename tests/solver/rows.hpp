// Looking at the rows of a result, with float64 forward kinematics of the test's own choice.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <tuple>

#include "support.hpp"

namespace hjcdik::test {

inline TargetView view(const std::vector<Pose>& targets) {
  return {targets.empty() ? nullptr : targets[0].data(), std::int64_t(targets.size())};
}

struct Error {
  double distance, angle;
};

// Between two poses; quaternions of any norm.
inline Error error_between(const Pose& a, const Pose& b) {
  const double distance =
      std::sqrt(std::pow(a[0] - b[0], 2) + std::pow(a[1] - b[1], 2) + std::pow(a[2] - b[2], 2));
  // The rotation from a to b: its vector part has length sin, its scalar cos of half the angle.
  const double w = a[3] * b[3] + a[4] * b[4] + a[5] * b[5] + a[6] * b[6];
  const double x = a[3] * b[4] - a[4] * b[3] - a[5] * b[6] + a[6] * b[5];
  const double y = a[3] * b[5] - a[5] * b[3] - a[6] * b[4] + a[4] * b[6];
  const double z = a[3] * b[6] - a[6] * b[3] - a[4] * b[5] + a[5] * b[4];
  return {distance, 2 * std::atan2(std::sqrt(x * x + y * y + z * z), std::abs(w))};
}

// Row r of target t.
struct Row {
  std::span<const double> q, pose;
  double pos_err_m, ori_err_rad;
};
inline Row row(const Result& result, std::int64_t t, std::int64_t r) {
  const std::size_t k = std::size_t(t * result.capacity + r), dof = std::size_t(result.dof);
  return {std::span(result.q).subspan(k * dof, dof), std::span(result.pose).subspan(k * 7, 7),
          result.pos_err_m[k], result.ori_err_rad[k]};
}
inline std::vector<double> joints_of(const Row& r) { return {r.q.begin(), r.q.end()}; }

inline bool inside_limits(const Robot& robot, std::span<const double> q) {
  for (std::size_t i = 0; i < q.size(); i++) {
    if (!(q[i] >= robot.joints()[i].lower && q[i] <= robot.joints()[i].upper)) return false;
  }
  return true;
}

// The largest joint difference, rad or m, of turning joints modulo a turn.
inline double largest_difference(const Robot& robot, std::span<const double> a, std::span<const double> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); i++) {
    double d = std::abs(a[i] - b[i]);
    if (robot.joints()[i].type != JointType::prismatic) d = std::abs(std::remainder(d, 2 * std::numbers::pi));
    largest = std::max(largest, d);
  }
  return largest;
}

// What of collision was measured, and that it adds up.
inline void expect_sound_statistics(const Robot& robot, const SolveOptions& options, const TargetStats& s) {
  const bool spheres = !robot.collision_links().empty();
  const bool judges =
      options.collision == Collision::automatic ? spheres : options.collision != Collision::none;
  const bool costs = options.collision == Collision::soft || options.collision == Collision::both;
  if (judges) {
    ASSERT_EQ(s.n_coll_in_refined + s.n_coll_free_refined, s.n_refined);
    ASSERT_EQ(s.n_ik_lost + s.n_feasible, s.n_ik_accurate);
    ASSERT_LE(s.n_ik_lost, s.n_coll_in_refined);
    ASSERT_LE(s.n_feasible, s.n_coll_free_refined);
    for (const std::int64_t v : {s.n_coll_in_refined, s.n_coll_free_refined, s.n_ik_lost, s.n_feasible,
                                 s.n_coll_in_coarse, s.n_returned_coll_free, s.n_returned_feasible}) {
      ASSERT_GE(v, 0);
    }
    ASSERT_LE(s.n_coll_in_coarse, s.n_refined);
    ASSERT_LE(s.n_returned_coll_free, s.n_returned);
    ASSERT_LE(s.n_returned_feasible, std::min(s.n_returned_coll_free, s.n_returned_ik_accurate));
    const double part = s.n_returned > 0 ? 100.0 * double(s.n_returned_coll_free) / double(s.n_returned) : 0;
    ASSERT_DOUBLE_EQ(s.pct_returned_coll_free, part);
  } else {
    for (const std::int64_t v : {s.n_coll_free_refined, s.n_feasible, s.n_ik_lost, s.n_coll_in_refined,
                                 s.n_coll_in_coarse, s.n_returned_coll_free, s.n_returned_feasible}) {
      ASSERT_EQ(v, -1);
    }
    ASSERT_EQ(s.pct_returned_coll_free, -1);
  }
  if (costs) {
    ASSERT_GE(s.env_cost_min_mm, 0);
    ASSERT_LE(s.env_cost_min_mm, s.env_cost_mean_mm * (1 + 1e-12));
    ASSERT_LE(s.env_cost_mean_mm, s.env_cost_max_mm * (1 + 1e-12));
  } else {
    for (const double v : {s.env_cost_min_mm, s.env_cost_max_mm, s.env_cost_mean_mm}) ASSERT_EQ(v, -1);
  }
}

// Everything that holds for every result, whatever was asked for.
inline void expect_sound(const Robot& robot, const std::vector<Pose>& targets, const SolveOptions& options,
                         const Result& result) {
  ASSERT_EQ(result.targets, std::int64_t(targets.size()));
  ASSERT_EQ(result.capacity, options.num_solutions);
  ASSERT_EQ(result.dof, robot.dof());
  const std::size_t rows = targets.size() * std::size_t(options.num_solutions);
  ASSERT_EQ(result.q.size(), rows * std::size_t(result.dof));
  ASSERT_EQ(result.pose.size(), rows * 7);
  ASSERT_EQ(result.pos_err_m.size(), rows);
  ASSERT_EQ(result.ori_err_rad.size(), rows);
  ASSERT_EQ(result.count.size(), targets.size());
  ASSERT_EQ(result.outcome.size(), targets.size());
  ASSERT_EQ(result.stats.size(), options.stats ? targets.size() : 0);
  for (std::int64_t t = 0; t < result.targets; t++) {
    const Pose& target = targets[std::size_t(t)];
    const std::int64_t count = result.count[std::size_t(t)];
    const Outcome outcome = result.outcome[std::size_t(t)];
    ASSERT_GE(count, 0);
    ASSERT_LE(count, result.capacity);
    const bool found_any = outcome == Outcome::solved || outcome == Outcome::approximate;
    ASSERT_EQ(count > 0, found_any) << "target " << t;
    if (options.collision == Collision::none) {
      ASSERT_TRUE(found_any || outcome == Outcome::no_accurate) << "target " << t;
    }
    const double far = std::hypot(target[0], target[1], target[2]);
    const double rounding = 1e-13 * std::max(1.0, robot.chain().length) + 2e-15 * far;
    double last_score = 0;
    bool last_converged = true;
    for (std::int64_t r = 0; r < result.capacity; r++) {
      const Row found = row(result, t, r);
      if (r >= count) {
        ASSERT_TRUE(std::all_of(found.q.begin(), found.q.end(), [](double v) { return std::isnan(v); }));
        ASSERT_TRUE(
            std::all_of(found.pose.begin(), found.pose.end(), [](double v) { return std::isnan(v); }));
        ASSERT_TRUE(std::isnan(found.pos_err_m) && std::isnan(found.ori_err_rad));
        continue;
      }
      ASSERT_TRUE(inside_limits(robot, found.q)) << "target " << t << " row " << r;
      // Pose and errors are those of the returned joints.
      Pose pose;
      std::copy_n(found.pose.begin(), 7, pose.begin());
      const Pose exact = robot.forward_kinematics(found.q);
      const Error off = error_between(pose, exact), error = error_between(exact, target);
      ASSERT_LT(off.distance, rounding);
      ASSERT_LT(off.angle, 1e-13 * std::max(1, robot.dof()));
      ASSERT_NEAR(std::hypot(std::hypot(pose[3], pose[4]), std::hypot(pose[5], pose[6])), 1, 1e-14);
      ASSERT_NEAR(found.pos_err_m, error.distance, rounding);
      ASSERT_NEAR(found.ori_err_rad, error.angle, 1e-13 * std::max(1, robot.dof()));
      const bool converged = found.pos_err_m < 1e-6 && found.ori_err_rad < 1e-6;
      // Without a polish rows of both kinds stand together.
      if (r == 0 || options.precision != Precision::fp32) {
        ASSERT_EQ(converged, outcome == Outcome::solved) << "target " << t << " row " << r;
      }
      ASSERT_LE(converged, last_converged) << "target " << t << " row " << r;
      last_converged = converged;
      if (!converged) {
        const double score = found.pos_err_m + 0.3 * found.ori_err_rad;
        ASSERT_GE(score, last_score) << "target " << t << " row " << r;
        last_score = score;
      }
      for (std::int64_t other = 0; other < r; other++) {
        if (r > 100) break;  // a sample is enough of a long list
        ASSERT_GE(largest_difference(robot, found.q, row(result, t, other).q),
                  std::max(options.distinct_rad, 1e-7) * (1 - 1e-12))
            << "target " << t << " rows " << r << " " << other;
      }
    }
    if (!options.stats) continue;
    const TargetStats& s = result.stats[std::size_t(t)];
    ASSERT_EQ(s.batch_size, options.batch_size);
    ASSERT_EQ(s.n_returned, count);
    ASSERT_GE(s.n_refined, 1);
    ASSERT_LE(s.n_refined, s.batch_size);
    ASSERT_LE(s.n_ik_accurate, s.n_refined);
    ASSERT_GE(s.n_ik_accurate, 0);
    ASSERT_LE(s.n_returned_ik_accurate, s.n_returned);
    if (outcome == Outcome::solved) {
      ASSERT_EQ(s.n_returned_ik_accurate, count);
    }
    expect_sound_statistics(robot, options, s);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Targets first .. first + count - 1.
inline Result part_of(const Result& all, std::int64_t first, std::int64_t count) {
  Result part;
  part.targets = count;
  part.capacity = all.capacity;
  part.dof = all.dof;
  const auto cut = [&](const auto& from, auto& to, std::int64_t width) {
    to = std::decay_t<decltype(to)>(std::size_t(count * width));
    std::copy_n(from.begin() + first * width, count * width, to.begin());
  };
  cut(all.q, part.q, all.capacity * all.dof);
  cut(all.pose, part.pose, all.capacity * 7);
  cut(all.pos_err_m, part.pos_err_m, all.capacity);
  cut(all.ori_err_rad, part.ori_err_rad, all.capacity);
  cut(all.count, part.count, 1);
  cut(all.outcome, part.outcome, 1);
  if (!all.stats.empty()) cut(all.stats, part.stats, 1);
  return part;
}

inline std::int64_t solved(const Result& result) {
  return std::count(result.outcome.begin(), result.outcome.end(), Outcome::solved);
}

// Two results with the same bits in all they hold.
inline bool same_result(const Result& a, const Result& b) {
  return same_bits(a.q, b.q) && same_bits(a.pose, b.pose) && same_bits(a.pos_err_m, b.pos_err_m) &&
         same_bits(a.ori_err_rad, b.ori_err_rad) && a.count == b.count && a.outcome == b.outcome &&
         a.stats.size() == b.stats.size() &&
         std::equal(a.stats.begin(), a.stats.end(), b.stats.begin(),
                    [](const TargetStats& x, const TargetStats& y) {
                      const auto all = [](const TargetStats& s) {
                        return std::tuple(s.batch_size, s.n_refined, s.n_ik_accurate, s.n_coll_free_refined,
                                          s.n_feasible, s.n_ik_lost, s.n_coll_in_refined, s.n_coll_in_coarse,
                                          s.env_cost_min_mm, s.env_cost_max_mm, s.env_cost_mean_mm,
                                          s.n_returned, s.n_returned_ik_accurate, s.n_returned_coll_free,
                                          s.pct_returned_coll_free, s.n_returned_feasible);
                      };
                      return all(x) == all(y);
                    });
}

}  // namespace hjcdik::test
