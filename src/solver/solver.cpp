// The public solver: validation, then the executor.
#include <hjcdik/solver.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>
#include <thread>

#include "core/halton.h"
#include "cpu/executor.hpp"
#include "cpu/isa.hpp"
#include "cpu/threads.hpp"
#include "cuda/device.hpp"
#include "cuda/driver.hpp"
#include "cuda/executor.hpp"
#include "cuda/nvrtc.hpp"
#include "model/chain.hpp"
#include "model/names.hpp"
#include "solver/judge.hpp"
#include "solver/world_set.hpp"
#include "store/store.hpp"

namespace hjcdik {
namespace {

// No sweep: see docs/solving.md and benchmarks/coarse.py for what was measured.
constexpr int kDefaultCoarseSweeps = 0;
// Rows of a result, so that no array's size overflows.
constexpr std::int64_t kMostRows = std::int64_t{1} << 40;
constexpr int kMostSweeps = 1000;
// Farther targets are taken for a mistake; they would overflow float32 squares.
constexpr double kFarthest = 1e9;
// Keeps the number of jobs, and of joints in all jobs, inside 31 bits.
constexpr std::int64_t kMaxBatchSize = std::int64_t{1} << 24;

// Angles beyond it are wrapped before they are judged, rad.
constexpr double kManyTurns = 100;

constexpr const char* kPoseFields[7] = {"x", "y", "z", "qw", "qx", "qy", "qz"};

// Throws for the first unusable row of first .. last - 1.
void check_rows(const TargetView& targets, std::int64_t first, std::int64_t last) {
  for (std::int64_t t = first; t < last; t++) {
    const double* row = targets.data + t * targets.stride;
    bool zero = true;
    for (int k = 0; k < 7; k++) {
      if (!std::isfinite(row[k])) {
        throw InvalidArgument("poses[" + std::to_string(t) + "]: " + kPoseFields[k] + " is " +
                              model::to_text(row[k]) + ", expected a finite number");
      }
      if (k < 3 && std::abs(row[k]) > kFarthest) {
        throw InvalidArgument("poses[" + std::to_string(t) + "]: " + kPoseFields[k] + " is " +
                              model::to_text(row[k]) + " m, farther than 1e9 m");
      }
      zero = zero && (k < 3 || row[k] == 0);
    }
    if (zero) {
      throw InvalidArgument("poses[" + std::to_string(t) +
                            "]: the quaternion (qw qx qy qz) is zero, which is no rotation");
    }
  }
}

// Whether all rows look usable, without a branch in the loop; false at worst sends them to check_rows.
bool look_usable(const TargetView& targets, std::int64_t first, std::int64_t last) {
  bool usable = true;
  for (std::int64_t t = first; t < last; t++) {
    const double* row = targets.data + t * targets.stride;
    // Zero times a number that is not finite is not a number.
    const double sum = (row[0] + row[1] + row[2]) + ((row[3] + row[4]) + (row[5] + row[6]));
    const bool near =
        (std::abs(row[0]) <= kFarthest) & (std::abs(row[1]) <= kFarthest) & (std::abs(row[2]) <= kFarthest);
    const bool turn = (row[3] != 0) | (row[4] != 0) | (row[5] != 0) | (row[6] != 0);
    usable &= (0 * sum == 0) & near & turn;
  }
  return usable;
}

void check_targets(const TargetView& targets, int threads) {
  if (targets.rows < 0) throw InvalidArgument("targets.rows is negative");
  if (targets.rows > 0 && targets.data == nullptr) throw InvalidArgument("targets.data is null");
  if (targets.rows > 1 && targets.stride < 7) throw InvalidArgument("targets.stride is below 7");
  if (targets.memory == MemoryKind::device) return;
  // Waking threads costs more than a quick look at some hundred thousand rows.
  constexpr std::int64_t piece = std::int64_t{1} << 17;
  const std::int64_t pieces = (targets.rows + piece - 1) / piece;
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> usable{true};
  cpu::run_parallel(int(std::min<std::int64_t>(threads, pieces)) - 1, [&] {
    for (std::int64_t first; (first = next.fetch_add(piece)) < targets.rows;) {
      if (!look_usable(targets, first, std::min(first + piece, targets.rows))) usable = false;
    }
  });
  if (!usable) check_rows(targets, 0, targets.rows);
}

void check_collision(const Robot& robot, const SolveOptions& o) {
  if (o.collision < Collision::automatic || o.collision > Collision::both)
    throw InvalidArgument("collision is none of automatic, none, hard, soft and both");
  if (!(o.collision_margin_m >= 0) || !std::isfinite(o.collision_margin_m))
    throw InvalidArgument("collision_margin_m must be finite and not negative");
  const bool has_spheres = !robot.collision_links().empty();
  if (o.collision > Collision::none && !has_spheres) {
    throw InvalidArgument(
        "robot '" + robot.name() +
        "' has no collision spheres: load it with a sphere model, or solve without collision");
  }
  const bool hard = o.collision == Collision::hard || o.collision == Collision::both ||
                    (o.collision == Collision::automatic && has_spheres);
  if (o.collision_margin_m > 0 && !hard)
    throw InvalidArgument("collision_margin_m needs collision 'hard' or 'both'");
  if (!o.self_collision && !hard)
    throw InvalidArgument("self_collision=False needs collision 'hard' or 'both'");
}

void check_options(const Robot& robot, const SolveOptions& o, std::int64_t targets) {
  if (o.num_solutions < 1) throw InvalidArgument("num_solutions must be positive");
  if (o.num_solutions > kMostRows / std::max<std::int64_t>(targets, 1)) {
    throw InvalidArgument("num_solutions is " + std::to_string(o.num_solutions) + " for each of " +
                          std::to_string(targets) + " targets, more rows than can be addressed");
  }
  if (o.precision != Precision::automatic && o.precision != Precision::fp32 &&
      o.precision != Precision::fp64) {
    throw InvalidArgument("precision is none of automatic, fp32 and fp64");
  }
  if (o.coarse_order != CoarseOrder::sweep && o.coarse_order != CoarseOrder::greedy) {
    throw InvalidArgument("coarse_order is neither sweep nor greedy");
  }
  if (o.batch_size < 1) throw InvalidArgument("batch_size (candidates per target) must be positive");
  if (o.batch_size > kMaxBatchSize) {
    throw InvalidArgument("batch_size (candidates per target) is " + std::to_string(o.batch_size) +
                          ", above the indexing limit of " + std::to_string(kMaxBatchSize));
  }
  if (!(o.distinct_rad >= 0) || !std::isfinite(o.distinct_rad)) {
    throw InvalidArgument("distinct_rad must be finite and not negative");
  }
  if (o.coarse_sweeps < -1 || o.coarse_sweeps > kMostSweeps) {
    throw InvalidArgument("coarse_sweeps must be -1 (the default) or 0 to " + std::to_string(kMostSweeps));
  }
  check_collision(robot, o);
  if (o.q_init == nullptr) {
    if (o.q_init_rows != 0) throw InvalidArgument("q_init_rows is not 0, but q_init is null");
    return;
  }
  if (o.q_init_rows < 1) throw InvalidArgument("q_init_rows must be positive where q_init is given");
  if (o.q_init_rows > o.batch_size) {
    throw InvalidArgument("q_init has " + std::to_string(o.q_init_rows) +
                          " rows per target, more than batch_size (" + std::to_string(o.batch_size) +
                          " candidates per target)");
  }
  const int dof = robot.dof();
  const std::int64_t rows = o.q_init_per_target ? targets * o.q_init_rows : o.q_init_rows;
  for (std::int64_t r = 0; r < rows; r++) {
    for (int i = 0; i < dof; i++) {
      const double v = o.q_init[r * dof + i];
      if (std::isfinite(v)) continue;
      std::string where = "q_init[" + std::to_string(r % o.q_init_rows) + "]";
      if (o.q_init_per_target) {
        where =
            "q_init[" + std::to_string(r / o.q_init_rows) + ", " + std::to_string(r % o.q_init_rows) + "]";
      }
      throw InvalidArgument(where + ": joint '" + robot.joints()[i].name + "' is " + model::to_text(v) +
                            ", expected a finite number");
    }
  }
}

// The mode that `automatic` stands for.
Collision collision_mode(const Robot& robot, const SolveOptions& o) {
  if (o.collision != Collision::automatic) return o.collision;
  return robot.collision_links().empty() ? Collision::none : Collision::hard;
}

std::string worlds_text(std::int64_t worlds) {
  return (worlds == 1 ? std::string("is 1 world") : "are " + std::to_string(worlds) + " worlds") +
         " (-1: the empty one)";
}

void check_worlds(const SolveOptions& o, Collision mode, const WorldSet& set, std::int64_t targets) {
  if (mode == Collision::none) return;
  const auto worlds = std::int64_t(set.worlds.size());
  if (o.world_index == nullptr) {
    if (worlds > 1) {
      throw InvalidArgument("there are " + std::to_string(worlds) +
                            " worlds: world_index has to say which one each target is in");
    }
    if (mode == Collision::soft && (worlds == 0 || set.worlds[0].empty()))
      throw InvalidArgument("collision 'soft' ranks by the penetration of obstacles, but the world is empty");
    return;
  }
  for (std::int64_t t = 0; t < targets; t++) {
    const std::int32_t w = o.world_index[t];
    if (w < -1 || w >= worlds) {
      throw InvalidArgument("world_index[" + std::to_string(t) + "] is " + std::to_string(w) +
                            ", but there " + worlds_text(worlds));
    }
    if (mode == Collision::soft && (w < 0 || set.worlds[std::size_t(w)].empty())) {
      throw InvalidArgument(
          "collision 'soft' ranks by the penetration of obstacles, but the world of target " +
          std::to_string(t) + " is empty");
    }
  }
}

void check_configurations(const Robot& robot, std::span<const double> q, double margin) {
  if (robot.collision_links().empty()) {
    throw InvalidArgument("robot '" + robot.name() +
                          "' has no collision spheres to check: load it with a sphere model");
  }
  if (!(margin >= 0) || !std::isfinite(margin))
    throw InvalidArgument("collision_margin_m must be finite and not negative");
  const std::size_t dof = std::size_t(robot.dof());
  if (q.size() % dof != 0) {
    throw InvalidArgument("q has " + std::to_string(q.size()) + " values, no multiple of the robot's " +
                          std::to_string(dof) + " joints");
  }
  for (std::size_t i = 0; i < q.size(); i++) {
    if (!std::isfinite(q[i])) {
      throw InvalidArgument("q[" + std::to_string(i / dof) + "]: joint '" + robot.joints()[i % dof].name +
                            "' is " + model::to_text(q[i]) + ", expected a finite number");
    }
  }
}

template <class WorldOf>
std::vector<Check> judge(const Robot& robot, std::span<const double> q, const CollisionRule& rule,
                         WorldOf world_of) {
  const std::size_t dof = std::size_t(robot.dof());
  std::vector<Check> checks(q.size() / dof);
  std::vector<double> row(dof);
  for (std::size_t r = 0; r < checks.size(); r++) {
    for (std::size_t i = 0; i < dof; i++) {
      const double v = q[r * dof + i];
      // The numerics' sine and cosine are for angles of joints; the library's are for any.
      const bool turns = robot.joints()[i].type != JointType::prismatic;
      row[i] = turns && std::abs(v) > kManyTurns ? std::atan2(std::sin(v), std::cos(v)) : v;
    }
    checks[r] = check(robot.chain(), row.data(), rule, rule.worlds->world_of(world_of(r)));
  }
  return checks;
}

}  // namespace

// The worlds in force: replaced as a whole.
class Solver::Worlds {
 public:
  explicit Worlds(std::shared_ptr<const WorldSet> set) : set_(std::move(set)) {}
  std::shared_ptr<const WorldSet> get() const {
    std::lock_guard lock(mutex_);
    return set_;
  }
  void put(std::shared_ptr<const WorldSet> set) {
    std::lock_guard lock(mutex_);
    set_.swap(set);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const WorldSet> set_;
};

struct Solver::Impl {
  const cpu::Lanes& lanes;
  int threads;
  std::string isa;
  std::string device = "cpu";
  std::string compiler;
  std::string program_path;
  std::string gpu_refusal;
  std::shared_ptr<const SeedTable> seeds;     // of the default seed
  std::shared_ptr<const cuda::Executor> gpu;  // null on the CPU

  // With options and targets checked.
  void solve(const Robot& robot, const WorldSet& worlds, const TargetView& targets,
             const SolveOptions& options, const ResultView& out,
             const std::function<void(std::int64_t)>& progress) const;
};

namespace {

// -1: the current GPU. Throws InvalidArgument for what is no device.
int gpu_index(const std::string& device) {
  if (device == "cuda") return -1;
  int index = 0;
  const char* last = device.data() + device.size();
  if (device.rfind("cuda:", 0) == 0 && device.size() > 5) {
    const auto [end, error] = std::from_chars(device.data() + 5, last, index);
    if (error == std::errc() && end == last && index >= 0) return index;
  }
  throw InvalidArgument("device '" + device + "' is unknown; expected 'cpu', 'cuda' or 'cuda:N'");
}

}  // namespace

Budget budget(std::int64_t batch_size) noexcept {
  return {batch_size, (kStarts + batch_size - 1) / batch_size, kIterations};
}

Solver::Solver(Robot robot, const SolverOptions& options) : robot_(std::move(robot)) {
  if (options.threads < 0) throw InvalidArgument("threads must not be negative");
  const cpu::Lanes& lanes = cpu::choose_lanes(options.isa);
  Impl impl{lanes, cpu::thread_count(options.threads), cpu::isa_name(lanes)};
  impl.seeds = std::make_shared<const SeedTable>(robot_.chain(), SolveOptions{}.seed);
  if (options.device != "cpu") {
    const bool any = options.device.empty();
    const int index = any ? -1 : gpu_index(options.device);
    try {
      const cuda::StoreAccess access{options.cache_dir, options.allow_build};
      impl.gpu = std::make_shared<const cuda::Executor>(robot_.chain(), index, impl.threads, access);
      impl.program_path = impl.gpu->program_path();
      impl.device = "cuda:" + std::to_string(impl.gpu->device_index());
      impl.compiler = impl.gpu->compiler();
    } catch (const DeviceError& error) {
      if (!any) throw;  // else the CPU does
      impl.gpu_refusal = error.what();
    }
  }
  impl_ = std::make_shared<const Impl>(std::move(impl));
  worlds_ = std::make_shared<Worlds>(std::make_shared<const WorldSet>(robot_.chain(), std::vector<World>{}));
}

Solver::Solver(const Solver& other)
    : robot_(other.robot_), impl_(other.impl_), worlds_(std::make_shared<Worlds>(other.worlds_->get())) {}
Solver& Solver::operator=(const Solver& other) { return *this = Solver(other); }

void Solver::set_world(World world) { set_worlds({std::move(world)}); }
void Solver::clear_world() { set_worlds({}); }
void Solver::set_worlds(std::vector<World> worlds) {
  if (robot_.collision_links().empty()) {
    const bool any = std::any_of(worlds.begin(), worlds.end(), [](const World& w) { return !w.empty(); });
    if (any) {
      throw InvalidArgument(
          "robot '" + robot_.name() +
          "' has no collision spheres, so obstacles would do nothing: load it with a sphere model");
    }
  }
  worlds_->put(std::make_shared<const WorldSet>(robot_.chain(), std::move(worlds)));
}
std::vector<World> Solver::worlds() const { return worlds_->get()->worlds; }

std::vector<Check> Solver::check(std::span<const double> q, int world, double collision_margin_m,
                                 bool self_collision) const {
  check_configurations(robot_, q, collision_margin_m);
  const auto worlds = worlds_->get();
  const auto count = std::int64_t(worlds->worlds.size());
  // Without a world there is the empty one.
  if (world < -1 || world >= std::max<std::int64_t>(count, 1))
    throw InvalidArgument("world is " + std::to_string(world) + ", but there " + worlds_text(count));
  const CollisionRule rule{worlds.get(), collision_margin_m, self_collision};
  return judge(robot_, q, rule, [&](std::size_t) { return world; });
}

std::vector<Check> Solver::check(std::span<const double> q, std::span<const std::int32_t> world_index,
                                 double collision_margin_m, bool self_collision) const {
  check_configurations(robot_, q, collision_margin_m);
  const auto worlds = worlds_->get();
  const auto count = std::int64_t(worlds->worlds.size());
  const std::size_t rows = q.size() / std::size_t(robot_.dof());
  const bool one_for_all = world_index.empty();
  if (one_for_all && rows > 0 && count > 1) {
    throw InvalidArgument("there are " + std::to_string(count) +
                          " worlds: world_index has to say which one each configuration is in");
  }
  if (!one_for_all && world_index.size() != rows) {
    throw InvalidArgument("world_index has " + std::to_string(world_index.size()) + " numbers for " +
                          std::to_string(rows) + " configurations");
  }
  for (std::size_t r = 0; r < world_index.size(); r++) {
    if (world_index[r] < -1 || world_index[r] >= std::max<std::int64_t>(count, 1)) {
      throw InvalidArgument("world_index[" + std::to_string(r) + "] is " + std::to_string(world_index[r]) +
                            ", but there " + worlds_text(count));
    }
  }
  const CollisionRule rule{worlds.get(), collision_margin_m, self_collision};
  return judge(robot_, q, rule, [&](std::size_t r) { return one_for_all ? 0 : world_index[r]; });
}

std::vector<std::string> Solver::base_contacts() const {
  return hjcdik::base_contacts(robot_.chain(), *worlds_->get());
}

std::string gpu_problem() {
  if (std::string problem = cuda::driver_problem(); !problem.empty()) return problem;
  if (std::string problem = cuda::device_problem(); !problem.empty()) return problem;
  std::string problem;
  cuda::compiler_version(cuda::driver().version / 1000, &problem);
  return problem;
}

std::vector<std::string> gpu_names() { return cuda::device_names(); }

std::vector<std::string> take_store_notes() { return store::take_notes(); }

const std::string& Solver::device() const noexcept { return impl_->device; }
const std::string& Solver::isa() const noexcept { return impl_->isa; }
const std::string& Solver::compiler() const noexcept { return impl_->compiler; }
const std::string& Solver::program_path() const noexcept { return impl_->program_path; }
const std::string& Solver::gpu_refusal() const noexcept { return impl_->gpu_refusal; }
int Solver::threads() const noexcept { return impl_->threads; }
std::int64_t Solver::max_batch_size() noexcept { return kMaxBatchSize; }

void Solver::solve_into(const TargetView& targets, const SolveOptions& options, const ResultView& out,
                        const std::function<void(std::int64_t)>& progress) const {
  check_options(robot_, options, targets.rows);
  check_targets(targets, impl_->threads);
  if (targets.memory == MemoryKind::device && !impl_->gpu) {
    throw InvalidArgument("targets are in device memory, but the solver's device is the CPU");
  }
  if (targets.memory != out.memory)
    throw InvalidArgument("targets and results must both be in host or in device memory");
  const std::shared_ptr<const WorldSet> worlds = worlds_->get();
  check_worlds(options, collision_mode(robot_, options), *worlds, targets.rows);
  if (targets.rows == 0) return;
  if (out.q == nullptr || out.pose == nullptr || out.pos_err_m == nullptr || out.ori_err_rad == nullptr ||
      out.count == nullptr || out.outcome == nullptr || (options.stats && out.stats == nullptr)) {
    throw InvalidArgument(
        "the result view lacks memory for q, pose, pos_err_m, ori_err_rad, count, outcome or stats");
  }
  impl_->solve(robot_, *worlds, targets, options, out, progress);
}

void Solver::Impl::solve(const Robot& robot, const WorldSet& worlds, const TargetView& targets,
                         const SolveOptions& options, const ResultView& out,
                         const std::function<void(std::int64_t)>& progress) const {
  std::optional<SeedTable> own_seeds;
  if (options.seed != seeds->seed) own_seeds.emplace(robot.chain(), options.seed);
  Problem problem{&robot.chain(), targets, options, own_seeds ? &*own_seeds : seeds.get(), &worlds};
  problem.options.collision = collision_mode(robot, options);
  if (problem.options.q_init == nullptr) problem.options.q_init_rows = 0;
  if (problem.options.coarse_sweeps < 0) problem.options.coarse_sweeps = kDefaultCoarseSweeps;
  if (gpu) return gpu->solve(problem, out, progress);
  cpu::solve(lanes, threads, problem, out, progress);
}

Result Solver::solve(const TargetView& targets, const SolveOptions& options) const {
  const auto begin = std::chrono::steady_clock::now();
  if (targets.memory != MemoryKind::host) throw InvalidArgument("targets in device memory need solve_into");
  check_options(robot_, options, targets.rows);
  check_targets(targets, impl_->threads);
  const std::shared_ptr<const WorldSet> worlds = worlds_->get();
  check_worlds(options, collision_mode(robot_, options), *worlds, targets.rows);
  Result result;
  result.targets = targets.rows;
  result.capacity = options.num_solutions;
  result.dof = robot_.dof();
  const std::size_t rows = std::size_t(targets.rows * options.num_solutions);
  result.q = Array<double>(rows * result.dof);
  result.pose = Array<double>(rows * 7);
  result.pos_err_m = Array<double>(rows);
  result.ori_err_rad = Array<double>(rows);
  result.count = Array<std::int64_t>(std::size_t(targets.rows));
  result.outcome = Array<Outcome>(std::size_t(targets.rows));
  if (options.stats) result.stats.resize(std::size_t(targets.rows));
  const ResultView view{result.q.data(),           result.pose.data(),  result.pos_err_m.data(),
                        result.ori_err_rad.data(), result.count.data(), result.outcome.data(),
                        result.stats.data()};
  if (targets.rows > 0) impl_->solve(robot_, *worlds, targets, options, view, nullptr);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
  result.elapsed_ms = elapsed.count();
  return result;
}

Result Solver::solve(const Pose& target, const SolveOptions& options) const {
  return solve(TargetView{target.data(), 1}, options);
}

std::vector<double> Solver::sample_configurations(std::int64_t n, std::uint64_t seed) const {
  if (n < 1) throw InvalidArgument("the number of samples must be positive");
  if (n > kMostRows) throw InvalidArgument("the number of samples is too large");
  const auto& chain = robot_.chain().constants;
  std::vector<double> q(std::size_t(n * chain.dof));
  for (std::int64_t i = 0; i < n; i++) {
    for (int j = 0; j < chain.dof; j++) {
      q[std::size_t(i * chain.dof + j)] = core::halton_value(chain.joint[j], std::uint64_t(i + 1), seed, j);
    }
  }
  return q;
}

std::vector<Pose> Solver::sample_targets(std::int64_t n, std::uint64_t seed) const {
  const std::vector<double> q = sample_configurations(n, seed);
  const std::size_t dof = std::size_t(robot_.dof());
  std::vector<Pose> poses;
  poses.reserve(std::size_t(n));
  for (std::size_t i = 0; i < std::size_t(n); i++) {
    poses.push_back(robot_.forward_kinematics(std::span(q).subspan(i * dof, dof)));
  }
  return poses;
}

const char* to_string(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::solved: return "solved";
    case Outcome::approximate: return "approximate";
    case Outcome::no_accurate: return "no_accurate";
    case Outcome::self_collision: return "self_collision";
    case Outcome::environment_collision: return "environment_collision";
  }
  return "unknown";
}

}  // namespace hjcdik
