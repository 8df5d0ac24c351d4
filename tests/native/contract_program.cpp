// A program that knows the native interface by its documents alone: any robot, any device. It checks itself
// and returns 0 where all is as documented. With an argument, that many joints are expected.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "hjcd_kernel.h"

namespace {

std::atomic<int> failures{0};

void expect(bool good, const char* what, int line) {
  if (good) return;
  failures++;
  std::printf("line %d: %s\n", line, what);
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

template <typename Error, typename Call>
bool throws(Call&& call) {
  try {
    call();
  } catch (const Error&) {
    return true;
  } catch (...) {
    std::printf("another exception than expected\n");
  }
  return false;
}

static_assert(!std::is_copy_constructible<Result<double>>::value, "");
static_assert(!std::is_copy_assignable<Result<double>>::value, "");
static_assert(std::is_nothrow_move_constructible<Result<double>>::value, "");
static_assert(std::is_nothrow_move_assignable<Result<float>>::value, "");
static_assert(std::is_same<decltype(Result<float>::elapsed_time), float>::value, "");

// Rows are finite, their poses are near the target, and their errors are those of their poses.
template <typename T>
void check_rows(const Result<T>& result, const std::array<T, 7>& target, int at_most, int line) {
  const int n = grid_num_joints();
  expect(result.count >= 0 && result.count <= at_most, "count", line);
  expect(result.elapsed_time > 0, "elapsed_time", line);
  for (int r = 0; r < result.count; r++) {
    for (int i = 0; i < n; i++) expect(std::isfinite(result.joint_config[r * n + i]), "finite joints", line);
    const T* pose = result.pose + 7 * r;
    double square = 0, norm = 0, dot = 0;
    for (int k = 0; k < 3; k++) square += std::pow(double(pose[k]) - double(target[k]), 2);
    for (int k = 3; k < 7; k++)
      norm += double(pose[k]) * double(pose[k]), dot += double(pose[k]) * double(target[k]);
    const double mm = 1000 * std::sqrt(square), rad = 2 * std::acos(std::fmin(1, std::fabs(dot)));
    expect(std::fabs(mm - double(result.pos_errors[r])) < 0.01, "pos_errors are those of pose, mm", line);
    expect(std::fabs(rad - double(result.ori_errors[r])) < 2e-3, "ori_errors are those of pose, rad", line);
    expect(std::fabs(norm - 1) < 1e-5, "unit quaternion", line);
  }
}

const char* kScene = R"({"problems": {"some": [
  {"obstacles": {"sphere": [{"position": [0, 0, 0], "radius": 100}]}},
  {"obstacles": {"cuboid": {"far": {"dims": [0.1, 0.1, 0.1], "pose": [9, 9, 9, 1, 0, 0, 0]}},
                 "cylinder": {"post": {"radius": 0.1, "height": 0.5, "pose": [9, 0, 0, 1, 0, 0, 0]}}}},
  {"obstacles": {}},
  {"valid": false, "obstacles": {}},
  {"obstacles": {"mesh": {}}},
  {"obstacles": {"cuboid": {"flat": {"dims": [0, 1, 1], "pose": [0, 0, 0, 1, 0, 0, 0]}}}}]}})";

void check_collision(std::array<double, 7> target) {
  const auto solve = [&](const char* json, const char* set, int index, int mode, bool stats = false) {
    return generate_ik_solutions<double>(target.data(), nullptr, 200, 4, true, json, set, index, stats, mode);
  };
  if (!grid_has_collision()) {
    EXPECT(throws<std::runtime_error>([&] { solve(kScene, "some", 1, 1); }));
    return;
  }
  for (const int mode : {1, 2, -1}) {
    EXPECT(solve(kScene, "some", 0, mode).count == 0);  // inside an obstacle
    check_rows(solve(kScene, "some", 1, mode), target, 4, __LINE__);
    check_rows(solve(kScene, "some", 2, mode), target, 4, __LINE__);
  }
  EXPECT(solve(kScene, "some", 0, 0).count > 0);  // ranks, and drops nothing
  EXPECT(solve(kScene, "some", 1, 0).count > 0);
  EXPECT(throws<std::exception>([&] { solve(kScene, "some", 2, 0); }));  // nothing to rank by
  for (const int index : {3, 4, 5, 6})
    EXPECT(throws<std::runtime_error>([&] { solve(kScene, "some", index, 1); }));
  EXPECT(throws<std::invalid_argument>([&] { solve(kScene, "some", -1, 1); }));
  EXPECT(throws<std::runtime_error>([&] { solve(kScene, "other", 0, 1); }));
  EXPECT(throws<std::runtime_error>([&] { solve("{", "some", 0, 1); }));
  EXPECT(throws<std::runtime_error>([&] { solve("", "some", 0, 1); }));
  EXPECT(throws<std::exception>([&] { solve(nullptr, "some", 0, 1); }));
  EXPECT(throws<std::exception>([&] { solve(kScene, nullptr, 0, 1); }));
  EXPECT(throws<std::invalid_argument>([&] { solve(kScene, "some", 1, 3); }));
  EXPECT(throws<std::invalid_argument>([&] { solve(kScene, "some", 1, -2); }));

  setenv("HJCD_CC_MODE", "soft", 1);
  EXPECT(solve(kScene, "some", 0, -1).count > 0);
  setenv("HJCD_CC_MODE", "both", 1);
  EXPECT(solve(kScene, "some", 0, -1).count == 0);
  EXPECT(solve(kScene, "some", 0, 0).count > 0);  // asked for, whatever the variable says
  unsetenv("HJCD_CC_MODE");
  // The scene is not looked at in open space.
  EXPECT(generate_ik_solutions<double>(target.data(), nullptr, 200, 1, false, "{", "no", 0, false, 2).count ==
         1);
}

std::vector<std::vector<std::string>> stats_rows() {
  std::vector<std::vector<std::string>> rows;
  std::ifstream file("ik_stats.csv");
  for (std::string line; std::getline(file, line);) {
    rows.emplace_back();
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find(',', begin), line.size());
      rows.back().push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return rows;
}

void check_stats(std::array<double, 7> target) {
  std::remove("ik_stats.csv");
  const auto solve = [&](bool collision) {
    return generate_ik_solutions<double>(target.data(), nullptr, 64, 2, collision, kScene, "some", 0, true,
                                         1);
  };
  const Result<double> open = solve(false);
  if (grid_has_collision()) solve(true);
  const auto rows = stats_rows();
  EXPECT(rows.size() == (grid_has_collision() ? 3u : 2u));
  const auto value = [&](std::size_t row, const char* name) {
    for (std::size_t c = 0; c < rows[0].size(); c++)
      if (rows[0][c] == name) return std::atof(rows[row].at(c).c_str());
    EXPECT(!"a column of this name");
    return std::nan("");
  };
  EXPECT(value(1, "b_size") == 64);
  EXPECT(value(1, "krep") >= 1);
  EXPECT(value(1, "n_returned") == open.count);
  for (const char* name : {"n_coll_free_refined", "n_feasible", "n_ik_lost", "n_coll_in_refined",
                           "n_coll_in_coarse", "env_cost_min_mm", "env_cost_max_mm", "env_cost_mean_mm",
                           "n_returned_coll_free", "pct_returned_coll_free", "n_returned_feasible"}) {
    EXPECT(value(1, name) == -1);
  }
  if (grid_has_collision()) {
    EXPECT(value(2, "n_coll_in_refined") + value(2, "n_coll_free_refined") == value(2, "krep"));
    EXPECT(value(2, "n_ik_lost") + value(2, "n_feasible") == value(2, "n_ik_accurate"));
    EXPECT(value(2, "n_returned") == 0 && value(2, "pct_returned_coll_free") == 0);
    EXPECT(value(2, "env_cost_min_mm") == -1);
  }
  std::remove("ik_stats.csv");
}

}  // namespace

int main(int count, char** arguments) {
  const int n = grid_num_joints();
  EXPECT(n >= 1);
  if (count > 1) EXPECT(n == std::atoi(arguments[1]));
  init_joint_limits_from_grid();
  const grid::robotModel<double>* model = grid::init_robotModel<double>();
  EXPECT(model != nullptr && grid::init_robotModel<float>() != nullptr);

  const auto targets = sample_random_target_poses<double>(nullptr, 20, 7);
  EXPECT(targets.size() == 20 && targets == sample_random_target_poses<double>(model, 20, 7));
  EXPECT(targets != sample_random_target_poses<double>(model, 20, 8));
  EXPECT(sample_random_target_poses<float>(nullptr, 3, 7).size() == 3);
  EXPECT(throws<std::invalid_argument>([] { sample_random_target_poses<double>(nullptr, 0, 0); }));
  EXPECT(throws<std::invalid_argument>([] { sample_random_target_poses<float>(nullptr, -1, 0); }));

  int exact = 0;
  for (std::array<double, 7> target : targets) {
    const std::array<double, 7> before = target;
    const Result<double> result = generate_ik_solutions<double, double>(target.data(), model, 2000, 4);
    EXPECT(target == before);
    check_rows(result, target, 4, __LINE__);
    exact += result.count > 0 && result.pos_errors[0] < 1e-3 && result.ori_errors[0] < 1e-6;
    // Both call forms, with the defaults of the document.
    const Result<double> same = generate_ik_solutions<double>(target.data(), 2000, 4);
    EXPECT(same.count == result.count && std::memcmp(same.joint_config, result.joint_config,
                                                     sizeof(double) * std::size_t(n * same.count)) == 0);
    EXPECT(generate_ik_solutions<double>(target.data(), NULL, 2000).count == 1);
    EXPECT(generate_ik_solutions<double>(target.data(), 0, 2000).count == 1);  // a null pointer too
    EXPECT(generate_ik_solutions<double>(target.data(), std::size_t{2000}).count == 1);
  }
  EXPECT(exact == 20);

  std::array<double, 7> target = targets[0];
  check_rows(generate_ik_solutions<double, float>(target.data(), nullptr, 500, 3), target, 3, __LINE__);
  std::array<float, 7> narrow = sample_random_target_poses<float>(nullptr, 1, 3)[0];
  const Result<float> in_float = generate_ik_solutions<float>(narrow.data(), nullptr, 500, 3);
  check_rows(in_float, narrow, 3, __LINE__);
  EXPECT(in_float.count >= 1 && in_float.pos_errors[0] < 0.01f);

  // A quaternion of any length is the unit one, and the caller's stays.
  const std::array<double, 7> unit = normalized_target_pose(target.data());
  for (const double scale : {3.0, -2.0, 1e-300, 1e300}) {
    std::array<double, 7> scaled = target;
    for (int k = 3; k < 7; k++) scaled[k] *= scale;
    const std::array<double, 7> again = normalized_target_pose(scaled.data());
    for (int k = 0; k < 7; k++) EXPECT(std::fabs(again[k] - (k < 3 || scale > 0 ? 1 : -1) * unit[k]) < 1e-15);
    const Result<double> result = generate_ik_solutions<double>(scaled.data(), nullptr, 100);
    EXPECT(result.count == 1 && result.pos_errors[0] < 1e-3);
  }
  const std::array<float, 7> in_floats = normalized_target_pose(narrow.data());
  EXPECT(std::fabs(in_floats[0] - narrow[0]) == 0);

  // What cannot be used.
  const auto solve = [&](double* pose, int b, int s) {
    return generate_ik_solutions<double>(pose, nullptr, b, s);
  };
  EXPECT(throws<std::invalid_argument>([&] { solve(nullptr, 10, 1); }));
  EXPECT(throws<std::invalid_argument>([&] { solve(target.data(), 0, 1); }));
  EXPECT(throws<std::invalid_argument>([&] { solve(target.data(), -5, 1); }));
  EXPECT(throws<std::invalid_argument>([&] { solve(target.data(), std::numeric_limits<int>::max(), 1); }));
  EXPECT(throws<std::invalid_argument>([&] { solve(target.data(), 10, 0); }));
  for (const long candidates : {0L, -1L, std::numeric_limits<long>::max(), std::numeric_limits<long>::min()})
    EXPECT(throws<std::invalid_argument>([&] { generate_ik_solutions<double>(target.data(), candidates); }));
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    for (int k = 0; k < 7; k++) {
      std::array<double, 7> pose = target;
      pose[k] = bad;
      EXPECT(throws<std::invalid_argument>([&] { solve(pose.data(), 10, 1); }));
      EXPECT(throws<std::invalid_argument>([&] { normalized_target_pose(pose.data()); }));
    }
  }
  std::array<double, 7> zero = target;
  for (int k = 3; k < 7; k++) zero[k] = 0;
  EXPECT(throws<std::invalid_argument>([&] { solve(zero.data(), 10, 1); }));
  EXPECT(throws<std::invalid_argument>([&] { normalized_target_pose(zero.data()); }));
  EXPECT(throws<std::invalid_argument>([&] { normalized_target_pose<float>(nullptr); }));

  // Ownership.
  Result<double> first = generate_ik_solutions<double>(target.data(), nullptr, 100, 2);
  const double* rows = first.joint_config;
  Result<double> second = std::move(first);
  EXPECT(second.joint_config == rows && first.joint_config == nullptr && first.pose == nullptr &&
         first.count == 0);
  first = std::move(second);
  EXPECT(first.joint_config == rows && second.joint_config == nullptr && second.elapsed_time == 0);
  first = generate_ik_solutions<double>(target.data(), nullptr, 100);
  first.reset();
  first.reset();
  EXPECT(first.joint_config == nullptr && first.pos_errors == nullptr && first.ori_errors == nullptr);
  EXPECT(first.count == 0 && first.elapsed_time == 0);

  // Several threads at once.
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; k++) {
    threads.emplace_back([&, k] {
      std::array<double, 7> pose = targets[std::size_t(k)];
      for (int repeat = 0; repeat < 5; repeat++) {
        const auto result = k % 2 ? generate_ik_solutions<double, float>(pose.data(), nullptr, 200, 2)
                                  : generate_ik_solutions<double, double>(pose.data(), nullptr, 200, 2);
        check_rows(result, pose, 2, __LINE__);
        EXPECT(result.count >= 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  check_collision(target);
  check_stats(target);
  EXPECT(std::fabs(PI - std::acos(-1.0)) < 1e-15);
  std::printf("%d joints, %s collision spheres: %d failures\n", n, grid_has_collision() ? "with" : "without",
              failures.load());
  return failures == 0 ? 0 : 1;
}
