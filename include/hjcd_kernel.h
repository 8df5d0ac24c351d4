// The native interface of HJCD-IK's contract: one robot a program, one target a call, results that own their
// memory. A thin layer on hjcdik/solver.hpp, which does more: many targets, several robots, device memory.
//
// The robot is that of the header of `hjcdik codegen` that the program includes somewhere; without one the
// robot that the environment variable HJCDIK_NATIVE_ROBOT names; without that the packaged panda. It stays
// the same for the life of the process. Solves run on the GPU that is current on the calling thread, else on
// the CPU. Any number of threads may call at once. docs/native.md has the rest.
//
// Poses are x y z qw qx qy qz: metres, scalar first. A returned row is no certificate of success: read both
// of its errors.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#ifndef PI
#define PI 3.14159265358979323846
#endif

namespace grid {

// Stands for the robot where the contract wants a pointer to one. It has nothing to read, and the library
// owns it: do not delete it.
template <typename T>
struct robotModel;

// T: float or double. The same pointer every time, never null. Throws std::runtime_error where the robot
// cannot be loaded.
template <typename T>
robotModel<T>* init_robotModel();

}  // namespace grid

// The rows of one solve, best first. Owns its arrays until it is reset, destroyed or moved from.
template <typename T>
struct Result {
  T* joint_config = nullptr;  // count x grid_num_joints(), rad (m for prismatic joints)
  T* pose = nullptr;          // count x 7, the pose that is reached
  T* pos_errors = nullptr;    // count, mm
  T* ori_errors = nullptr;    // count, rad
  T elapsed_time = {};        // of the whole call, ms, observed on the host
  int count = 0;              // rows; fewer than were asked for, or none, where no more were found

  Result() = default;
  ~Result() { reset(); }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  Result(Result&& other) noexcept { take(other); }
  Result& operator=(Result&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }

  // Frees the arrays and leaves an empty result. May be called any number of times.
  void reset() noexcept {
    delete[] std::exchange(joint_config, nullptr);
    delete[] std::exchange(pose, nullptr);
    delete[] std::exchange(pos_errors, nullptr);
    delete[] std::exchange(ori_errors, nullptr);
    elapsed_time = {};
    count = 0;
  }

 private:
  void take(Result& other) noexcept {
    joint_config = std::exchange(other.joint_config, nullptr);
    pose = std::exchange(other.pose, nullptr);
    pos_errors = std::exchange(other.pos_errors, nullptr);
    ori_errors = std::exchange(other.ori_errors, nullptr);
    elapsed_time = std::exchange(other.elapsed_time, T{});
    count = std::exchange(other.count, 0);
  }
};

// The pose with its quaternion at unit length, whatever finite length but 0 it has. Throws
// std::invalid_argument for a null pointer, a value that is not finite, and a zero quaternion. T: float,
// double.
template <typename T>
std::array<T, 7> normalized_target_pose(const T* pose);

// Configurations that reach a pose.
//
// T, of the arguments and the result, and RT, of the last refinement, are <double, double>, <double, float>
// or <float, double>. RT = float leaves rows as the float32 search finds them.
//   target_pose         7 numbers; not changed
//   d_robotModel        ignored
//   b_size              candidates (searches) for this target, at least 1
//   num_solutions       rows at most, at least 1
//   collision_free      judges collision: with the robot itself and with the obstacles of the scene
//   problems_json_text  the scene: MotionBenchMaker's problems as JSON; wanted with collision_free
//   problem_set_name    of the sets in it
//   problem_idx         of the problems in the set, from 0
//   write_stats         appends a row to ik_stats.csv in the current folder (docs/native.md)
//   collision_mode      with collision_free: 0 soft (rows in order of their penetration of the obstacles,
//   none
//                       dropped), 1 hard (only rows free of collision), 2 both; -1: what HJCD_CC_MODE says
//                       ("soft", "hard", "both"), else hard
// Throws std::invalid_argument for a number or a pose that cannot be used, std::runtime_error for an unusable
// scene, a robot without collision spheres where they are wanted, ik_stats.csv that cannot be written, and
// what fails on the device.
template <typename T, typename RT = double>
Result<T> generate_ik_solutions(T* target_pose, const grid::robotModel<T>* d_robotModel, int b_size,
                                int num_solutions = 1, bool collision_free = false,
                                const char* problems_json_text = nullptr,
                                const char* problem_set_name = nullptr, int problem_idx = 0,
                                bool write_stats = false, int collision_mode = -1);

namespace hjcdik_native {

// b_size of the call form without a model: whatever an int parameter takes; beyond int it is the nearest int.
// Being converted to this, it never outdoes a null pointer, so that 0 and NULL stay models.
struct CandidateCount {
  template <typename Number,
            std::enable_if_t<std::is_arithmetic<Number>::value || std::is_enum<Number>::value, int> = 0,
            typename = std::enable_if_t<std::is_convertible<Number, int>::value>>
  CandidateCount(Number number) {
    const auto n = static_cast<long double>(number);
    value = n >= 2147483647.0L ? 0x7fffffff : n > -2147483648.0L ? static_cast<int>(n) : -0x7fffffff - 1;
  }
  template <typename Object, std::enable_if_t<std::is_class<std::remove_reference_t<Object>>::value, int> = 0,
            typename = std::enable_if_t<std::is_convertible<Object, int>::value>>
  CandidateCount(Object&& object) : value(static_cast<int>(object)) {}
  CandidateCount(const CandidateCount&) = default;

  int value;
};

}  // namespace hjcdik_native

// The same without the argument that is ignored.
template <typename T, typename RT = double>
Result<T> generate_ik_solutions(T* target_pose, hjcdik_native::CandidateCount b_size, int num_solutions = 1,
                                bool collision_free = false, const char* problems_json_text = nullptr,
                                const char* problem_set_name = nullptr, int problem_idx = 0,
                                bool write_stats = false, int collision_mode = -1) {
  return generate_ik_solutions<T, RT>(target_pose, static_cast<const grid::robotModel<T>*>(nullptr),
                                      b_size.value, num_solutions, collision_free, problems_json_text,
                                      problem_set_name, problem_idx, write_stats, collision_mode);
}

// Poses that the arm reaches inside its joint limits, perhaps in collision: those of a Halton sequence that
// the seed shifts. num_configs: at least 1, else std::invalid_argument. The model may be null. T: float,
// double.
template <typename T>
std::vector<std::array<T, 7>> sample_random_target_poses(const grid::robotModel<T>* d_robotModel,
                                                         int num_configs, std::uint64_t seed);

// Loads the robot with its limits, which the other functions do when they need it. Throws std::runtime_error.
void init_joint_limits_from_grid();

// The number of joints, and whether there are collision spheres. Neither touches a device.
int grid_num_joints();
bool grid_has_collision();

#define HJCDIK_NATIVE_INSTANCES(T)                                                                        \
  extern template std::array<T, 7> normalized_target_pose<T>(const T*);                                   \
  extern template std::vector<std::array<T, 7>> sample_random_target_poses<T>(const grid::robotModel<T>*, \
                                                                              int, std::uint64_t);        \
  extern template grid::robotModel<T>* grid::init_robotModel<T>();
#define HJCDIK_NATIVE_SOLVE(T, RT)                                                                       \
  extern template Result<T> generate_ik_solutions<T, RT>(T*, const grid::robotModel<T>*, int, int, bool, \
                                                         const char*, const char*, int, bool, int);
HJCDIK_NATIVE_INSTANCES(float)
HJCDIK_NATIVE_INSTANCES(double)
HJCDIK_NATIVE_SOLVE(double, double)
HJCDIK_NATIVE_SOLVE(double, float)
HJCDIK_NATIVE_SOLVE(float, double)
#undef HJCDIK_NATIVE_INSTANCES
#undef HJCDIK_NATIVE_SOLVE
