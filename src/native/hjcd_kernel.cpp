// The functions of hjcd_kernel.h on the public API.
#include <hjcd_kernel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include <hjcdik/hjcdik.hpp>

#include "cuda/device.hpp"
#include "native/linked_robot.hpp"
#include "native/scene.hpp"
#include "native/stats_file.hpp"

namespace hjcdik::native {
namespace {

constexpr const char* kStatsFile = "ik_stats.csv";

// The program's robot on the GPU that is current on this thread, else on the CPU. Kept for the life of the
// process; only copies of it get worlds.
const Solver& program_solver() {
  static std::mutex mutex;
  static auto& solvers = *new std::map<int, Solver>;
  const int device = cuda::current_device();
  std::lock_guard lock(mutex);
  auto found = solvers.find(device);
  if (found == solvers.end()) found = solvers.emplace(device, Solver(program_robot())).first;
  return found->second;
}

// What a number was given as.
void require(bool good, const char* name, int value, const char* expected) {
  if (!good) {
    throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) + "; " + expected +
                                " is expected");
  }
}

Collision collision_of(int mode) {
  require(mode >= -1 && mode <= 2, "collision_mode", mode, "0 (soft), 1 (hard), 2 (both) or -1");
  if (mode >= 0) return mode == 0 ? Collision::soft : mode == 1 ? Collision::hard : Collision::both;
  const char* variable = std::getenv("HJCD_CC_MODE");
  const std::string name = variable != nullptr ? variable : "";
  if (name.empty() || name == "hard" || name == "1") return Collision::hard;
  if (name == "soft" || name == "0") return Collision::soft;
  if (name == "both" || name == "2") return Collision::both;
  throw std::runtime_error("HJCD_CC_MODE is '" + name + "'; soft, hard or both is expected");
}

World scene_of(const Robot& robot, const char* text, const char* set_name, int index, Collision collision) {
  if (robot.collision_links().empty()) {
    throw std::runtime_error("robot '" + robot.name() +
                             "' has no collision spheres, so collision_free cannot be met");
  }
  if (text == nullptr || set_name == nullptr)
    throw std::runtime_error("collision_free wants problems_json_text and problem_set_name");
  World world = scene(text, set_name, index);
  if (collision == Collision::soft && world.empty())
    throw std::runtime_error("the scene is empty: soft has no obstacles to rank rows by");
  return world;
}

// The nearest float, or its neighbour where that lies outside a limit.
float inside(double value, const JointInfo& joint) {
  const auto limit = std::numeric_limits<float>::infinity();
  auto rounded = static_cast<float>(value);
  if (double(rounded) < joint.lower) rounded = std::nextafterf(rounded, limit);
  if (double(rounded) > joint.upper) rounded = std::nextafterf(rounded, -limit);
  return rounded;
}

double distance(const Pose& a, const Pose& b) { return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]); }

// Between unit quaternions: 4 atan2(|a - b|, |a + b|) of the nearer sign, exact for small angles too.
double angle(const Pose& a, const Pose& b) {
  double minus = 0, plus = 0;
  for (std::size_t k = 3; k < 7; k++) {
    minus += (a[k] - b[k]) * (a[k] - b[k]);
    plus += (a[k] + b[k]) * (a[k] + b[k]);
  }
  return 4 * std::atan2(std::sqrt(std::min(minus, plus)), std::sqrt(std::max(minus, plus)));
}

template <typename T>
::Result<T> empty_result(std::size_t rows, int dof) {
  ::Result<T> result;
  // Never a null pointer from a solve, so that a program need not tell "no rows" from "not solved".
  rows = std::max<std::size_t>(rows, 1);
  result.joint_config = new T[rows * std::size_t(dof)]();
  result.pose = new T[rows * 7]();
  result.pos_errors = new T[rows]();
  result.ori_errors = new T[rows]();
  return result;
}

// The rows as they are.
void take_rows(const Result& from, const Solver&, const Pose&, const SolveOptions&, ::Result<double>& to) {
  to.count = int(from.count[0]);
  const std::size_t rows = std::size_t(to.count), dof = std::size_t(from.dof);
  std::copy_n(from.q.data(), rows * dof, to.joint_config);
  std::copy_n(from.pose.data(), rows * 7, to.pose);
  for (std::size_t r = 0; r < rows; r++) {
    to.pos_errors[r] = 1e3 * from.pos_err_m[r];
    to.ori_errors[r] = from.ori_err_rad[r];
  }
}

// In float a row is another one, about 1e-7 rad off: its pose and errors are computed again, and it must be
// free by itself.
void take_rows(const Result& from, const Solver& solver, const Pose& target, const SolveOptions& options,
               ::Result<float>& to) {
  const Robot& robot = solver.robot();
  const std::size_t dof = std::size_t(from.dof);
  const bool must_be_free = options.collision == Collision::hard || options.collision == Collision::both;
  std::vector<double> q(dof);
  for (std::size_t r = 0; r < std::size_t(from.count[0]); r++) {
    const auto row = std::size_t(to.count);
    for (std::size_t i = 0; i < dof; i++) {
      to.joint_config[row * dof + i] = inside(from.q[r * dof + i], robot.joints()[i]);
      q[i] = double(to.joint_config[row * dof + i]);
    }
    if (must_be_free && !solver.check(q)[0].free) continue;
    const Pose pose = robot.forward_kinematics(q);
    for (std::size_t k = 0; k < 7; k++) to.pose[row * 7 + k] = float(pose[k]);
    to.pos_errors[row] = float(1e3 * distance(pose, target));
    to.ori_errors[row] = float(angle(pose, target));
    to.count++;
  }
}

template <typename T>
std::array<double, 7> unit_pose(const T* pose) {
  if (pose == nullptr)
    throw std::invalid_argument("target_pose is null; 7 numbers x y z qw qx qy qz are expected");
  constexpr const char* names[] = {"x", "y", "z", "qw", "qx", "qy", "qz"};
  std::array<double, 7> unit;
  double largest = 0;
  for (std::size_t k = 0; k < 7; k++) {
    unit[k] = double(pose[k]);
    if (!std::isfinite(unit[k]))
      throw std::invalid_argument(std::string("target_pose: ") + names[k] + " is not finite");
    if (k >= 3) largest = std::max(largest, std::abs(unit[k]));
  }
  if (largest == 0) throw std::invalid_argument("target_pose: the quaternion is zero");
  // The components divided by a power of 2 near the largest: no square over- or underflows.
  const int exponent = std::ilogb(largest);
  double square = 0;
  for (std::size_t k = 3; k < 7; k++) {
    unit[k] = std::scalbn(unit[k], -exponent);
    square += unit[k] * unit[k];
  }
  for (std::size_t k = 3; k < 7; k++) unit[k] /= std::sqrt(square);
  return unit;
}

// Rows that were found, but not returned.
void leave_out(std::int64_t rows, TargetStats& stats) {
  for (std::int64_t* n : {&stats.n_returned, &stats.n_returned_ik_accurate, &stats.n_returned_coll_free,
                          &stats.n_returned_feasible}) {
    *n = std::max(*n - rows, std::min<std::int64_t>(*n, 0));
  }
  if (stats.n_returned == 0 && stats.pct_returned_coll_free > 0) stats.pct_returned_coll_free = 0;
}

template <typename T>
::Result<T> solve(const T* target_pose, int b_size, int num_solutions, bool single_precision,
                  bool collision_free, const char* problems_json_text, const char* problem_set_name,
                  int problem_idx, bool write_stats, int collision_mode) {
  const auto begin = std::chrono::steady_clock::now();
  const Pose target = unit_pose(target_pose);
  Pose as_given;  // the solver normalises it itself: not twice, for the sake of the last bit
  std::copy_n(target_pose, 7, as_given.begin());
  require(b_size > 0, "b_size", b_size, "a positive number of candidates");
  require(b_size <= Solver::max_batch_size(), "b_size", b_size,
          ("at most " + std::to_string(Solver::max_batch_size()) + ", the indexing limit,").c_str());
  require(num_solutions > 0, "num_solutions", num_solutions, "a positive number of rows");
  require(problem_idx >= 0, "problem_idx", problem_idx, "an index from 0");
  SolveOptions options;
  options.batch_size = b_size;
  // A start gives one row at most: more need no room.
  const std::int64_t starts = b_size * budget(b_size).starts_per_candidate;
  options.num_solutions = std::min<std::int64_t>(num_solutions, starts);
  options.stats = write_stats;
  options.precision = single_precision ? Precision::fp32 : Precision::fp64;
  options.collision = Collision::none;

  std::optional<World> world;
  if (collision_free) {
    options.collision = collision_of(collision_mode);
    world = scene_of(program_robot(), problems_json_text, problem_set_name, problem_idx, options.collision);
  }
  const Solver* solver = &program_solver();
  std::optional<Solver> in_world;
  if (world) {
    in_world.emplace(*solver);
    in_world->set_world(*world);
    solver = &*in_world;
  }
  Result found = solver->solve(as_given, options);
  ::Result<T> result = empty_result<T>(std::size_t(found.count[0]), found.dof);
  take_rows(found, *solver, target, options, result);
  if (write_stats) {
    leave_out(found.count[0] - result.count, found.stats[0]);
    append_stats(kStatsFile, found.stats[0]);
  }
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
  result.elapsed_time = T(elapsed.count());
  return result;
}

}  // namespace
}  // namespace hjcdik::native

namespace grid {

template <typename T>
struct robotModel {};

template <typename T>
robotModel<T>* init_robotModel() {
  hjcdik::native::program_robot();
  static robotModel<T> model;
  return &model;
}

}  // namespace grid

template <typename T>
std::array<T, 7> normalized_target_pose(const T* pose) {
  const std::array<double, 7> unit = hjcdik::native::unit_pose(pose);
  std::array<T, 7> rounded;
  std::transform(unit.begin(), unit.end(), rounded.begin(), [](double x) { return T(x); });
  return rounded;
}

template <typename T, typename RT>
Result<T> generate_ik_solutions(T* target_pose, const grid::robotModel<T>*, int b_size, int num_solutions,
                                bool collision_free, const char* problems_json_text,
                                const char* problem_set_name, int problem_idx, bool write_stats,
                                int collision_mode) {
  return hjcdik::native::solve(target_pose, b_size, num_solutions, sizeof(RT) == sizeof(float),
                               collision_free, problems_json_text, problem_set_name, problem_idx, write_stats,
                               collision_mode);
}

template <typename T>
std::vector<std::array<T, 7>> sample_random_target_poses(const grid::robotModel<T>*, int num_configs,
                                                         std::uint64_t seed) {
  hjcdik::native::require(num_configs > 0, "num_configs", num_configs, "a positive number of poses");
  std::vector<std::array<T, 7>> poses;
  poses.reserve(std::size_t(num_configs));
  for (const hjcdik::Pose& pose : hjcdik::native::program_solver().sample_targets(num_configs, seed)) {
    std::array<T, 7>& rounded = poses.emplace_back();
    std::transform(pose.begin(), pose.end(), rounded.begin(), [](double x) { return T(x); });
  }
  return poses;
}

void init_joint_limits_from_grid() { hjcdik::native::program_robot(); }
int grid_num_joints() { return hjcdik::native::program_robot().dof(); }
bool grid_has_collision() { return !hjcdik::native::program_robot().collision_links().empty(); }

#define INSTANCES(T)                                                                                    \
  template std::array<T, 7> normalized_target_pose<T>(const T*);                                        \
  template std::vector<std::array<T, 7>> sample_random_target_poses<T>(const grid::robotModel<T>*, int, \
                                                                       std::uint64_t);                  \
  template grid::robotModel<T>* grid::init_robotModel<T>();
#define SOLVE(T, RT)                                                                              \
  template Result<T> generate_ik_solutions<T, RT>(T*, const grid::robotModel<T>*, int, int, bool, \
                                                  const char*, const char*, int, bool, int);
INSTANCES(float)
INSTANCES(double)
SOLVE(double, double)
SOLVE(double, float)
SOLVE(float, double)
