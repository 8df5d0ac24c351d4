// Inverse kinematics of one robot.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <hjcdik/result.hpp>
#include <hjcdik/robot.hpp>
#include <hjcdik/world.hpp>

namespace hjcdik {

// Target poses where they lie: `rows` rows of x y z qw qx qy qz in the base frame, `stride`
// doubles apart. Quaternions of any finite nonzero norm are normalised.
struct TargetView {
  const double* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t stride = 7;
  MemoryKind memory = MemoryKind::host;
  // For memory of the solver's device: the CUstream (cudaStream_t) whose earlier work the solve waits
  // for and in which it runs; null for the default stream. Device values are not validated: a row that
  // is not finite, or has a zero quaternion, ends as a row of NaN with outcome no_accurate.
  void* stream = nullptr;
};

enum class Precision {
  automatic,  // float64 polish of every returned row
  fp32,       // no polish: rows are as accurate as the float32 search leaves them
  fp64,       // as automatic
};

enum class CoarseOrder {
  sweep,   // every joint once, from tool to base
  greedy,  // dof moves, each of the joint with the largest gain
};

enum class Collision {
  automatic,  // hard for a robot with collision spheres, else none
  none,       // open world: a row says nothing about safety
  hard,       // rows are free of collision with the robot itself and with the world
  soft,       // rows in order of their penetration of the world, which must not be empty
  both,       // as hard, in order of penetration
};

struct SolveOptions {
  std::int64_t num_solutions = 1;  // S: rows per target, at most
  std::int64_t batch_size = 2000;  // candidates per target (not targets)
  Precision precision = Precision::automatic;
  bool stats = false;
  // Warm starts: q_init_rows rows of dof values, shared by all targets, or that many for each
  // target one after the other. At most batch_size. Null for none.
  const double* q_init = nullptr;
  std::int64_t q_init_rows = 0;
  bool q_init_per_target = false;
  std::uint32_t seed = 1337;
  // Rows of one target differ by at least this in some joint (rad or m, modulo a turn). 0: 1e-7.
  double distinct_rad = 0.05;
  // Coordinate-descent sweeps before the refinement; -1: the measured default.
  int coarse_sweeps = -1;
  CoarseOrder coarse_order = CoarseOrder::sweep;

  Collision collision = Collision::automatic;
  // With hard and both: the clearance below which an obstacle counts as hit, m (self pairs: always 0), and
  // whether self pairs are checked.
  double collision_margin_m = 0;
  bool self_collision = true;
  // Whether starts that end in collision are followed along the arm's self-motion, where it has one.
  bool self_motion = true;
  // Per target the world it is solved in, of those of set_worlds; -1: the empty one. Null where there is
  // one world for all. Host memory.
  const std::int32_t* world_index = nullptr;
};

struct SolverOptions {
  // "" (the current GPU where there is a usable one, else the CPU), "cpu", "cuda", "cuda:N".
  std::string device;
  // CPU threads at most; 0: HJCDIK_NUM_THREADS, else what affinity and cgroup quota allow.
  int threads = 0;
  // "" (HJCDIK_ISA, else the best the CPU has), "x86-64", "avx2", "avx512".
  std::string isa;
  // Folder of compiled GPU programs; "": HJCDIK_CACHE_DIR, else ~/.cache/hjcdik (docs/builds.md).
  std::string cache_dir;
  // Whether a GPU program that is not stored is compiled, now or by the first solve that needs it. If not,
  // BuildError is thrown for it. The CPU needs none.
  bool allow_build = true;
};

// What the search costs at most, per target: candidates x starts x iterations.
struct Budget {
  std::int64_t candidates;
  std::int64_t starts_per_candidate;
  std::int64_t iterations_per_start;
};
Budget budget(std::int64_t batch_size) noexcept;

// Any number of threads may solve on it at once. Only its worlds change: a solve takes those in force when
// it begins. A copy has worlds of its own.
class Solver {
 public:
  // Throws DeviceError, BuildError or InvalidArgument.
  explicit Solver(Robot robot, const SolverOptions& options = {});
  Solver(const Solver& other);
  Solver& operator=(const Solver& other);
  Solver(Solver&&) noexcept = default;
  Solver& operator=(Solver&&) noexcept = default;

  const Robot& robot() const noexcept { return robot_; }
  // "cpu" or "cuda:N".
  const std::string& device() const noexcept;
  // The instruction set of the CPU lanes: "x86-64", "avx2", "avx512".
  const std::string& isa() const noexcept;
  // Version of the NVRTC that made the GPU program; empty on the CPU.
  const std::string& compiler() const noexcept;
  // File of the GPU program; empty on the CPU, and where the program comes with the package or is not stored.
  const std::string& program_path() const noexcept;
  // Why a solver that was left the choice of its device (SolverOptions::device "") is on the CPU.
  const std::string& gpu_refusal() const noexcept;
  int threads() const noexcept;
  static std::int64_t max_batch_size() noexcept;

  // Replaces all worlds. Nothing is compiled or uploaded here.
  void set_world(World world);
  void set_worlds(std::vector<World> worlds);
  void clear_world();
  std::vector<World> worlds() const;

  // Judges rows of dof values, in float64 and on the CPU. world: as SolveOptions::world_index, one for all
  // rows; -1: none. Throws InvalidArgument for a robot without collision spheres.
  std::vector<Check> check(std::span<const double> q, int world = 0, double collision_margin_m = 0,
                           bool self_collision = true) const;
  // The same with a world for each row, all of them in force at one moment; none where there is one for all.
  std::vector<Check> check(std::span<const double> q, std::span<const std::int32_t> world_index,
                           double collision_margin_m = 0, bool self_collision = true) const;
  // Obstacles that the base's own spheres touch, a sentence each; only with RobotOptions::check_base.
  std::vector<std::string> base_contacts() const;

  // Validates everything first (InvalidArgument names row and field). Deterministic: a row depends
  // on robot, target, options and instruction set only, never on T, threads or earlier solves.
  Result solve(const TargetView& targets, const SolveOptions& options = {}) const;
  // One target.
  Result solve(const Pose& target, const SolveOptions& options = {}) const;
  // The same into the caller's memory, sized for targets.rows x options.num_solutions.
  // `progress`, if given, is called from the calling thread with the number of targets done.
  void solve_into(const TargetView& targets, const SolveOptions& options, const ResultView& out,
                  const std::function<void(std::int64_t)>& progress = {}) const;

  // Reachable poses: forward kinematics of n points of a shifted Halton sequence over the limits.
  std::vector<Pose> sample_targets(std::int64_t n, std::uint64_t seed = 0) const;
  // The points themselves, n x dof.
  std::vector<double> sample_configurations(std::int64_t n, std::uint64_t seed = 0) const;

 private:
  struct Impl;
  class Worlds;
  Robot robot_;
  std::shared_ptr<const Impl> impl_;
  std::shared_ptr<Worlds> worlds_;
};

// What is missing for solving on a GPU, and how to get it; empty where nothing is.
std::string gpu_problem();

// What the store of GPU programs had to say since the last call, a sentence each: damaged entries, which are
// never used, and folders that cannot be written, which only cost time.
std::vector<std::string> take_store_notes();

// The GPUs that the driver sees, by index; none where it cannot be used.
std::vector<std::string> gpu_names();

// Instruction sets of this build that this CPU can run, best last.
std::vector<std::string> available_isas();

}  // namespace hjcdik
