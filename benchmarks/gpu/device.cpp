// Solves on one GPU, timed: throughput over the number of targets with data on the device and on the host,
// latency of one target beside the launch floor, robots of 6 to 24 joints, first use; in the open world, and
// among obstacles. Every row is checked in float64 on the host. Prints JSON; the exit status is 1 where a
// check failed.
//
//   hjcdik_gpu_bench [--quick | --profile | --profile-hard | --sanitize | --start] [folder of robots]
//
// --profile, --profile-hard: one large solve, for a profiler. --sanitize: every path of the executor once,
// small and untimed, for compute-sanitizer. --start: what a new process pays before its first solve.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <hjcdik/hjcdik.hpp>

#include "cuda/device.hpp"
#include "cuda/nvrtc.hpp"
#include "scenes.hpp"

namespace {

using namespace hjcdik;
using namespace hjcdik::bench;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, std::size_t(q * double(values.size())))];
}

SolveOptions open_world() {
  SolveOptions options;
  options.collision = Collision::none;
  return options;
}

// FK of uniformly random configurations.
std::vector<double> random_targets(const Robot& robot, std::int64_t n, std::uint64_t seed) {
  std::vector<double> poses(std::size_t(n * 7));
  const auto& joints = robot.joints();
  parallel(n, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> q(joints.size());
    for (std::int64_t t = begin; t < end; t++) {
      Random random(seed, std::uint64_t(t));
      for (std::size_t i = 0; i < joints.size(); i++) q[i] = random.uniform(joints[i].lower, joints[i].upper);
      const Pose pose = robot.forward_kinematics(q);
      std::copy(pose.begin(), pose.end(), poses.begin() + std::ptrdiff_t(t * 7));
    }
  });
  return poses;
}

// Share of targets whose row is strict: < 1e-6 m and < 1e-6 rad by the robot's own float64 kinematics, inside
// the limits.
double strict_share(const Robot& robot, const std::vector<double>& targets, const double* q, std::int64_t n) {
  const std::size_t dof = std::size_t(robot.dof());
  std::vector<char> ok(static_cast<std::size_t>(n), 0);
  parallel(n, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> row(dof);
    for (std::int64_t t = begin; t < end; t++) {
      bool good = true;
      for (std::size_t i = 0; i < dof; i++) {
        row[i] = q[std::size_t(t) * dof + i];
        good = good && row[i] >= robot.joints()[i].lower && row[i] <= robot.joints()[i].upper;
      }
      if (!good) continue;
      const Pose p = robot.forward_kinematics(row);
      const double* g = &targets[std::size_t(t) * 7];
      const double d = std::sqrt((p[0] - g[0]) * (p[0] - g[0]) + (p[1] - g[1]) * (p[1] - g[1]) +
                                 (p[2] - g[2]) * (p[2] - g[2]));
      // The vector part of p^-1 g is sin(angle / 2) times the axis.
      const double x = p[3] * g[4] - p[4] * g[3] - p[5] * g[6] + p[6] * g[5],
                   y = p[3] * g[5] - p[5] * g[3] - p[6] * g[4] + p[4] * g[6],
                   z = p[3] * g[6] - p[6] * g[3] - p[4] * g[5] + p[5] * g[4];
      ok[std::size_t(t)] = d < 1e-6 && 2 * std::sqrt(x * x + y * y + z * z) < 1e-6;
    }
  });
  return double(std::count(ok.begin(), ok.end(), 1)) / double(n);
}

// Targets and results of one solve on the device.
struct DeviceArrays {
  DeviceArrays(const cuda::Device& device, std::int64_t n, int dof) : device_(device), memory_(device) {
    memory_.reserve(std::size_t(n) * std::size_t(7 + dof + 7 + 4) * 8);
    double* at = memory_.as<double>();
    targets = at;
    view.q = at + 7 * n;
    view.pose = view.q + dof * n;
    view.pos_err_m = view.pose + 7 * n;
    view.ori_err_rad = view.pos_err_m + n;
    view.count = reinterpret_cast<std::int64_t*>(view.ori_err_rad + n);
    view.outcome = reinterpret_cast<Outcome*>(view.count + n);
    view.memory = MemoryKind::device;
  }
  void upload(const std::vector<double>& host, std::int64_t n) {
    device_.check(device_.driver().MemcpyHtoDAsync(reinterpret_cast<cuda::CUdeviceptr>(targets), host.data(),
                                                   std::size_t(n) * 56, nullptr),
                  "copy");
    device_.check(device_.driver().StreamSynchronize(nullptr), "copy");
  }
  std::vector<double> download_q(std::int64_t n, int dof) {
    std::vector<double> q(static_cast<std::size_t>(n * dof));
    device_.check(device_.driver().MemcpyDtoHAsync(q.data(), reinterpret_cast<cuda::CUdeviceptr>(view.q),
                                                   q.size() * 8, nullptr),
                  "copy");
    device_.check(device_.driver().StreamSynchronize(nullptr), "copy");
    return q;
  }
  double* targets;
  ResultView view;

 private:
  const cuda::Device& device_;
  cuda::DeviceBuffer memory_;
};

bool failed = false;
void expect(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "hjcdik_gpu_bench: check failed: %s\n", what);
  failed = true;
}

bool first_item = true;
void item(const std::string& text) {
  std::printf("%s\n  %s", first_item ? "" : ",", text.c_str());
  std::fflush(stdout);
  first_item = false;
}

std::string format(const char* text, auto... values) {
  char buffer[1024];
  std::snprintf(buffer, sizeof buffer, text, values...);
  return buffer;
}

void on_device(const Robot& robot, const Solver& solver, cuda::Device& device, std::int64_t n, bool check) {
  const auto targets = random_targets(robot, n, 1);
  DeviceArrays arrays(device, n, robot.dof());
  arrays.upload(targets, n);
  TargetView view{arrays.targets, n};
  view.memory = MemoryKind::device;
  const SolveOptions options = open_world();
  std::vector<double> times;
  const int repeats = n >= 1000000 ? 11 : 101;
  for (int k = 0; k < repeats; k++) {
    const auto begin = Clock::now();
    solver.solve_into(view, options, arrays.view);
    if (k > 0) times.push_back(seconds_since(begin));
  }
  const double median = quantile(times, 0.5);
  double strict = -1;
  if (check) {
    const auto q = arrays.download_q(n, robot.dof());
    strict = strict_share(robot, targets, q.data(), n);
    expect(strict >= 0.9999, "less than 99.99 % strict on the device");
  }
  item(
      format("{\"case\": \"device arrays\", \"robot\": \"%s\", \"dof\": %d, \"targets\": %lld, \"median_s\": "
             "%.4g, \"solves_per_s\": %.5g, \"strict\": %.8f}",
             robot.name().c_str(), robot.dof(), (long long)n, median, double(n) / median, strict));
}

// Until the first result of a process; the driver's own start apart.
std::string start_times() {
  auto begin = Clock::now();
  cuda::driver();
  const double init = seconds_since(begin);
  begin = Clock::now();
  auto device = cuda::Device::get(0);
  const double context = seconds_since(begin);
  begin = Clock::now();
  const Solver solver(Robot::preset("panda"), {.device = "cuda:0"});
  const double made = seconds_since(begin);
  const auto target = random_targets(solver.robot(), 1, 3);
  begin = Clock::now();
  const Result result = solver.solve(TargetView{target.data(), 1}, open_world());
  const double solved = seconds_since(begin);
  expect(strict_share(solver.robot(), target, result.q.data(), 1) == 1, "the first solve");
  // The first that judges needs another program.
  const auto free_target = free_targets(solver, {-1}, 4);
  begin = Clock::now();
  const Result judged = solver.solve(TargetView{free_target.data(), 1});
  const double hard = seconds_since(begin);
  expect(strict_share(solver.robot(), free_target, judged.q.data(), 1) == 1, "the first hard solve");
  return format(
      "\"init_s\": %.4f, \"context_s\": %.4f, \"solver_s\": %.4f, \"first_solve_s\": %.4f, "
      "\"first_hard_solve_s\": %.4f",
      init, context, made, solved, hard);
}

// The same in processes of their own: with an empty store, then with the one that the first has filled.
void starts() {
  std::string folder = std::filesystem::temp_directory_path() / "hjcdik_store_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  for (const char* store : {"empty", "warm", "warm"}) {
    FILE* child = popen(("HJCDIK_CACHE_DIR='" + folder + "' /proc/$PPID/exe --start").c_str(), "r");
    char line[512] = {};
    const bool read = child != nullptr && std::fgets(line, sizeof line, child) != nullptr;
    expect(child != nullptr && pclose(child) == 0 && read, "a new process");
    line[std::strcspn(line, "\n")] = 0;
    item(format("{\"case\": \"new process\", \"store\": \"%s\", %s}", store, line));
  }
  std::filesystem::remove_all(folder);
}

// What moving a million targets and results costs without any solving: pinned copies both ways, and the
// first touch of the results' memory.
void floor_of_host_arrays(const cuda::Device& device, std::int64_t n, int dof) {
  const std::size_t in = std::size_t(n) * 56, out = std::size_t(n) * (std::size_t(dof + 7 + 3) * 8 + 1);
  cuda::DeviceBuffer memory(device);
  memory.reserve(in + out);
  cuda::PinnedBuffer pinned(device);
  pinned.reserve(in + out);
  parallel(std::int64_t(in + out), [&](std::int64_t begin, std::int64_t end) {
    std::memset(static_cast<char*>(pinned.data()) + begin, 1, std::size_t(end - begin));
  });
  std::vector<double> copies, touches;
  for (int k = 0; k < 6; k++) {
    auto begin = Clock::now();
    device.check(device.driver().MemcpyHtoDAsync(memory.address(), pinned.data(), in, nullptr), "copy");
    device.check(device.driver().MemcpyDtoHAsync(static_cast<char*>(pinned.data()) + in,
                                                 memory.address() + in, out, nullptr),
                 "copy");
    device.check(device.driver().StreamSynchronize(nullptr), "copy");
    if (k > 0) copies.push_back(seconds_since(begin));
    begin = Clock::now();
    const auto fresh = std::make_unique_for_overwrite<char[]>(out);
    parallel(std::int64_t(out), [&](std::int64_t first, std::int64_t last) {
      std::memset(fresh.get() + first, 1, std::size_t(last - first));
    });
    if (k > 0) touches.push_back(seconds_since(begin));
  }
  item(
      format("{\"case\": \"floor of host arrays\", \"targets\": %lld, \"pinned_copies_s\": %.4g, "
             "\"first_touch_s\": %.4g}",
             (long long)n, quantile(copies, 0.5), quantile(touches, 0.5)));
}

// Every path of the executor in the open world, each result checked.
void all_paths(const Robot& robot, cuda::Device& device) {
  const Solver solver(robot, {.device = "cuda:0"});
  for (const std::int64_t n : {1, 2, 100, 5000, 100000}) {
    const auto targets = random_targets(robot, n, std::uint64_t(n));
    const Result host = solver.solve(TargetView{targets.data(), n}, open_world());
    expect(strict_share(robot, targets, host.q.data(), n) >= 0.9999, "host arrays");
    DeviceArrays arrays(device, n, robot.dof());
    arrays.upload(targets, n);
    TargetView view{arrays.targets, n};
    view.memory = MemoryKind::device;
    solver.solve_into(view, open_world(), arrays.view);
    const auto q = arrays.download_q(n, robot.dof());
    expect(std::memcmp(q.data(), host.q.data(), q.size() * sizeof(double)) == 0,
           "host and device arrays differ");
  }
  const std::int64_t n = 300;
  const auto targets = random_targets(robot, n, 77);
  const std::vector<double> warm(targets.size(), 0.1);
  for (int variant = 0; variant < 6; variant++) {
    SolveOptions options = open_world();
    if (variant == 0) options.num_solutions = 4;
    if (variant == 1) options.stats = true;
    if (variant == 2) options.coarse_sweeps = 2;
    if (variant == 3) options.q_init = warm.data(), options.q_init_rows = 2;
    if (variant == 4) options.precision = Precision::fp32;
    if (variant == 5) options.batch_size = 3, options.seed = 5;
    const Result result = solver.solve(TargetView{targets.data(), n}, options);
    // Without a polish rows are good to 1e-5 only.
    std::int64_t good = 0;
    for (std::int64_t t = 0; t < n; t++) {
      const std::size_t first = std::size_t(t * options.num_solutions);
      const double bar = options.precision == Precision::fp32 ? 1e-5 : 1e-6;
      good += result.pos_err_m[first] < bar && result.ori_err_rad[first] < bar;
    }
    expect(good >= n - 3, "a variant of the options");
    if (variant != 0) continue;
    DeviceArrays arrays(device, n * 4, robot.dof());
    arrays.upload(targets, n);
    TargetView view{arrays.targets, n};
    view.memory = MemoryKind::device;
    solver.solve_into(view, options, arrays.view);
    const auto q = arrays.download_q(n * 4, robot.dof());
    expect(std::memcmp(q.data(), result.q.data(), q.size() * sizeof(double)) == 0,
           "host and device arrays differ at S = 4");
  }
  auto far = targets;
  for (std::size_t t = 0; t < std::size_t(n); t++) far[7 * t] += t % 2 == 0 ? 0.0 : 10.0;
  const Result result = solver.solve(TargetView{far.data(), n}, open_world());
  expect(std::count(result.outcome.begin(), result.outcome.end(), Outcome::solved) == n / 2,
         "targets out of reach");
}

// Every path of collision-aware solves: without worlds, with several, with targets that nothing free reaches.
void collision_paths(const Robot& robot, cuda::Device& device) {
  Solver solver(robot, {.device = "cuda:0"});
  const auto solve = [&](const std::vector<double>& targets, const SolveOptions& options) {
    return solver.solve(TargetView{targets.data(), std::int64_t(targets.size() / 7)}, options);
  };
  // The same from and to the device's memory.
  const auto same_on_device = [&](const std::vector<double>& targets, const SolveOptions& options,
                                  const Result& host) {
    const auto n = std::int64_t(targets.size() / 7), rows = n * options.num_solutions;
    DeviceArrays arrays(device, rows, robot.dof());
    arrays.upload(targets, n);
    TargetView view{arrays.targets, n};
    view.memory = MemoryKind::device;
    solver.solve_into(view, options, arrays.view);
    const auto q = arrays.download_q(rows, robot.dof());
    return std::memcmp(q.data(), host.q.data(), q.size() * sizeof(double)) == 0;
  };

  // Without a world, then in one; the larger numbers take more than one launch.
  for (const bool in_scene : {false, true}) {
    if (in_scene) solver.set_world(scene());
    for (const std::int64_t n : {1, 2, 100, 5000, 70000}) {
      if (!in_scene && n > 100) continue;
      const std::vector<std::int32_t> world_of(std::size_t(n), 0);
      const auto targets = free_targets(solver, world_of, std::uint64_t(n));
      const Result host = solve(targets, {});
      expect(strict_share(robot, targets, host.q.data(), n) >= 0.999, "hard, host arrays");
      expect(colliding_rows(solver, world_of, host.q.data()) == 0, "hard: a row collides");
      expect(same_on_device(targets, {}, host), "hard: host and device arrays differ");
    }
  }

  // Several worlds, the last of them a box around whatever the robot can reach but for its base.
  const std::vector<double> box = {0, 0, 5.2, 1, 0, 0, 0, 10, 10, 10};
  WorldView blocked;
  blocked.boxes = box;
  solver.set_worlds({scene(), random_world(31, 0), random_world(31, 1), World(blocked)});
  const std::int64_t n = 90;
  std::vector<std::int32_t> world_of(static_cast<std::size_t>(n));
  for (std::size_t t = 0; t < world_of.size(); t++) world_of[t] = std::int32_t(t % 4) - 1;
  const auto targets = free_targets(solver, world_of, 78);
  const std::vector<double> warm(std::size_t(n * robot.dof()), 0.1);
  for (int variant = 0; variant < 11; variant++) {
    SolveOptions options;
    options.world_index = world_of.data();
    options.batch_size = 64;
    std::vector<std::int32_t> never_empty = world_of;
    for (auto& w : never_empty) w = std::max(w, 0);
    if (variant == 1) options.num_solutions = 4;
    if (variant == 2) options.stats = true;
    if (variant == 3) options.coarse_sweeps = 2;
    if (variant == 4) options.q_init = warm.data(), options.q_init_rows = 2;
    if (variant == 5) options.precision = Precision::fp32;
    if (variant == 6) options.batch_size = 3, options.seed = 5;
    if (variant == 7) options.collision_margin_m = 0.01;
    if (variant == 8) options.self_collision = options.self_motion = false;
    if (variant == 9) options.collision = Collision::both, options.num_solutions = 3, options.stats = true;
    if (variant == 10) options.collision = Collision::soft, options.world_index = never_empty.data();
    const Result result = solve(targets, options);
    std::int64_t answered = 0;
    bool free = true;
    for (std::int64_t t = 0; t < n; t++) {
      answered += result.count[std::size_t(t)] > 0;
      for (std::int64_t r = 0; r < result.count[std::size_t(t)] && variant != 10; r++) {
        const std::size_t row = std::size_t((t * options.num_solutions + r) * robot.dof());
        free = free && solver
                           .check({&result.q[row], std::size_t(robot.dof())}, world_of[std::size_t(t)],
                                  options.collision_margin_m, options.self_collision)
                           .front()
                           .free;
      }
    }
    expect(free, "several worlds: a row collides");
    expect(answered >= (variant == 7 ? n / 2 : n - 5), "several worlds: too few targets have rows");
    if (variant < 2) expect(same_on_device(targets, options, result), "several worlds: the device differs");
  }

  // Some targets blocked, alone and among others, in either memory.
  for (const std::int64_t count : {1, 12}) {
    SolveOptions options;
    options.batch_size = 64;
    const std::vector<double> some(targets.begin(), targets.begin() + std::ptrdiff_t(7 * count));
    std::vector<std::int32_t> index(static_cast<std::size_t>(count));
    for (std::size_t t = 0; t < index.size(); t++) index[t] = t % 3 == 0 ? 3 : world_of[t];
    options.world_index = index.data();
    const Result result = solve(some, options);
    for (std::size_t t = 0; t < index.size(); t++) {
      const bool good = index[t] == 3 ? result.outcome[t] == Outcome::environment_collision
                                      : result.outcome[t] != Outcome::no_accurate;
      expect(good, "the outcome beside blocked targets");
    }
    expect(same_on_device(some, options, result), "blocked: host and device arrays differ");
  }
}

// Latency of one target among obstacles.
void one_in_a_scene(const Robot& robot) {
  Solver solver(robot, {.device = "cuda:0"});
  const int dof = robot.dof();
  const std::int64_t n = 2200;
  solver.set_world(scene());
  const std::vector<std::int32_t> world_of(std::size_t(n), 0);
  const auto targets = free_targets(solver, world_of, 17);
  std::vector<double> q(static_cast<std::size_t>(n * dof)), times;
  double pose[7], distance, angle;
  std::int64_t count;
  Outcome outcome;
  for (std::int64_t t = 0; t < n; t++) {
    const ResultView view{&q[std::size_t(t * dof)], pose, &distance, &angle, &count, &outcome};
    const auto start = Clock::now();
    solver.solve_into({&targets[std::size_t(t) * 7], 1}, {}, view);
    if (t >= 200) times.push_back(seconds_since(start) * 1e6);
  }
  const std::int64_t colliding = colliding_rows(solver, world_of, q.data());
  expect(colliding == 0, "hard in a scene: a row collides");
  item(
      format("{\"case\": \"one target, hard, in a scene\", \"median_us\": %.2f, \"p90_us\": %.2f, "
             "\"p99_us\": %.2f, \"strict\": %.6f, \"colliding_rows\": %lld}",
             quantile(times, 0.5), quantile(times, 0.9), quantile(times, 0.99),
             strict_share(robot, targets, q.data(), n), (long long)colliding));
}

// Many targets in many worlds in one call, data on the device and then, unless it is for a profiler, on the
// host.
void many_worlds(const Robot& robot, cuda::Device& device, bool quick, bool profile) {
  Solver solver(robot, {.device = "cuda:0"});
  const int dof = robot.dof();
  const int worlds = quick ? 40 : 400, each = quick ? 250 : 2500, repeats = quick ? 4 : 11;
  const std::int64_t n = std::int64_t{worlds} * each;
  auto begin = Clock::now();
  solver.set_worlds(random_worlds(worlds, 21));
  const double set = seconds_since(begin);
  // Neighbours are in different worlds.
  std::vector<std::int32_t> world_of(static_cast<std::size_t>(n));
  for (std::size_t t = 0; t < world_of.size(); t++) world_of[t] = std::int32_t(t % std::size_t(worlds));
  const auto targets = free_targets(solver, world_of, 22);
  SolveOptions options;
  options.world_index = world_of.data();
  DeviceArrays arrays(device, n, dof);
  arrays.upload(targets, n);
  TargetView on_device{arrays.targets, n};
  on_device.memory = MemoryKind::device;
  for (const bool host : {false, true}) {
    if (host && profile) break;
    std::vector<double> times, q;
    Result result;
    for (int k = 0; k < repeats; k++) {
      begin = Clock::now();
      if (host) {
        result = solver.solve(TargetView{targets.data(), n}, options);
      } else {
        solver.solve_into(on_device, options, arrays.view);
      }
      times.push_back(seconds_since(begin));
    }
    const double first_call = times.front();
    times.erase(times.begin());
    if (!host) q = arrays.download_q(n, dof);
    const double* rows = host ? result.q.data() : q.data();
    const double median = quantile(times, 0.5), strict = strict_share(robot, targets, rows, n);
    const std::int64_t colliding = colliding_rows(solver, world_of, rows);
    expect(colliding == 0, "many worlds: a row collides");
    expect(strict >= 0.9999, "many worlds: less than 99.99 % strict");
    item(
        format("{\"case\": \"hard, many worlds, %s arrays\", \"worlds\": %d, \"targets\": %lld, "
               "\"set_worlds_s\": %.4g, \"first_s\": %.4g, \"median_s\": %.4g, \"solves_per_s\": %.5g, "
               "\"strict\": %.8f, \"colliding_rows\": %lld}",
               host ? "host" : "device", worlds, (long long)n, set, first_call, median, double(n) / median,
               strict, (long long)colliding));
  }
}

int run(int argc, char** argv) {
  bool quick = false, profile = false, profile_hard = false, sanitize = false;
  std::string folder;
  for (int i = 1; i < argc; i++) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(argv[i], "--profile") == 0) {
      profile = true;
    } else if (std::strcmp(argv[i], "--profile-hard") == 0) {
      profile_hard = true;
    } else if (std::strcmp(argv[i], "--sanitize") == 0) {
      sanitize = true;
    } else if (std::strcmp(argv[i], "--start") == 0) {
      std::printf("%s\n", start_times().c_str());
      return failed;
    } else if (argv[i][0] == '-') {
      throw std::invalid_argument(std::string("unknown option ") + argv[i]);
    } else {
      folder = argv[i];
    }
  }
  std::printf("[");
  if (!profile && !profile_hard && !sanitize) starts();
  auto begin = Clock::now();
  auto device = cuda::Device::get(0);
  const double context = seconds_since(begin);
  const Robot panda = Robot::preset("panda");
  begin = Clock::now();
  const Solver solver(panda, {.device = "cuda:0"});
  const double first = seconds_since(begin);
  item(
      format("{\"case\": \"first use\", \"device\": \"%s\", \"nvrtc\": \"%s\", \"init_and_context_s\": %.4f, "
             "\"solver_s\": %.4f}",
             device->name().c_str(), solver.compiler().c_str(), context, first));
  const cuda::Device::Scope scope(*device);
  auto program = cuda::Program::get(device, panda.chain());
  item(format("{\"case\": \"program\", \"blocks_at_once\": %d, \"multiprocessors\": %d}",
              program->search_blocks, device->multiprocessors()));

  if (sanitize) {
    for (const char* name : {"panda", "fetch"}) all_paths(Robot::preset(name), *device);
    for (const char* name : {"panda", "ur5e"}) collision_paths(Robot::preset(name), *device);
    item("{\"case\": \"every path\"}");
    std::printf("\n]\n");
    return failed;
  }
  if (profile || profile_hard) {
    if (profile) on_device(panda, solver, *device, 1000000, false);
    if (profile_hard) many_worlds(panda, *device, false, true);
    std::printf("\n]\n");
    return failed;
  }

  // One target, host to host.
  {
    const std::int64_t n = 2200;
    const auto targets = random_targets(panda, n, 7);
    std::vector<double> q(7), times, all(std::size_t(n * 7));
    double pose[7], distance, angle;
    std::int64_t count;
    Outcome outcome;
    const ResultView view{q.data(), pose, &distance, &angle, &count, &outcome};
    for (std::int64_t t = 0; t < n; t++) {
      const auto start = Clock::now();
      solver.solve_into({&targets[std::size_t(t) * 7], 1}, open_world(), view);
      if (t >= 200) times.push_back(seconds_since(start) * 1e6);
      std::copy(q.begin(), q.end(), all.begin() + t * 7);
    }
    // The floor: an empty kernel and the wait for it.
    const auto image = cuda::compile("extern \"C\" __global__ void nothing() {}", {}, device->major(),
                                     device->minor(), device->driver().version / 1000);
    cuda::CUmodule module;
    cuda::CUfunction kernel;
    device->check(device->driver().ModuleLoadData(&module, image.image.c_str()), "module");
    device->check(device->driver().ModuleGetFunction(&kernel, module, "nothing"), "function");
    std::vector<double> floor;
    for (int k = 0; k < 2200; k++) {
      const auto start = Clock::now();
      const cuda::LaunchConfig one_warp{{1, 1, 1}, {32, 1, 1}, 0, nullptr, nullptr, 0};
      device->check(device->driver().LaunchKernelEx(&one_warp, kernel, nullptr, nullptr), "launch");
      device->check(device->driver().StreamSynchronize(nullptr), "sync");
      if (k >= 200) floor.push_back(seconds_since(start) * 1e6);
    }
    item(
        format("{\"case\": \"one target, host to host\", \"median_us\": %.2f, \"p90_us\": %.2f, \"p99_us\": "
               "%.2f, \"launch_and_sync_us\": %.2f, \"strict\": %.6f}",
               quantile(times, 0.5), quantile(times, 0.9), quantile(times, 0.99), quantile(floor, 0.5),
               strict_share(panda, targets, all.data(), n)));
  }

  // Throughput, data on the device.
  for (std::int64_t n : {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000}) {
    if (quick && n > 1000000) continue;
    on_device(panda, solver, *device, n, true);
  }

  // Host arrays.
  for (std::int64_t n : {1000, 100000, 1000000}) {
    const auto targets = random_targets(panda, n, 3);
    std::vector<double> times;
    Result result;
    for (int k = 0; k < (quick ? 4 : 11); k++) {
      const auto start = Clock::now();
      result = solver.solve(TargetView{targets.data(), n}, open_world());
      times.push_back(seconds_since(start));
    }
    const double first_call = times.front();
    times.erase(times.begin());
    item(
        format("{\"case\": \"host arrays\", \"targets\": %lld, \"first_s\": %.4g, \"median_s\": %.4g, "
               "\"solves_per_s\": %.5g, \"strict\": %.8f}",
               (long long)n, first_call, quantile(times, 0.5), double(n) / quantile(times, 0.5),
               strict_share(panda, targets, result.q.data(), n)));
  }

  floor_of_host_arrays(*device, 1000000, panda.dof());
  one_in_a_scene(panda);
  many_worlds(panda, *device, quick, false);

  // The same bits, however many targets travel together.
  {
    const std::int64_t n = quick ? 200000 : 1000000;
    const auto targets = random_targets(panda, n, 5);
    const Result all = solver.solve(TargetView{targets.data(), n}, open_world());
    const Solver other(panda, {.device = "cuda:0"});
    bool same = true;
    for (std::int64_t piece : {1, 7, 1000, 30000}) {
      for (std::int64_t first_target = 0; first_target < std::min<std::int64_t>(n, piece * 300);
           first_target += piece) {
        const std::int64_t count = std::min(piece, n - first_target);
        const Result part =
            (first_target / piece % 2 ? other : solver)
                .solve(TargetView{&targets[std::size_t(first_target) * 7], count}, open_world());
        same = same && std::memcmp(part.q.data(), &all.q[std::size_t(first_target) * 7],
                                   std::size_t(count) * 56) == 0;
      }
    }
    expect(same, "the same bits at any number of targets");
    item(format("{\"case\": \"same bits for 1, 7, 1000, 30000 and all targets at once\", \"same\": %s}",
                same ? "true" : "false"));
  }

  // Several rows, and unreachable targets.
  {
    const std::int64_t n = 10000;
    const auto targets = random_targets(panda, n, 9);
    SolveOptions options = open_world();
    options.num_solutions = 64;
    double best = 1e9;
    Result result;
    for (int k = 0; k < 3; k++) {
      const auto start = Clock::now();
      result = solver.solve(TargetView{targets.data(), n}, options);
      best = std::min(best, seconds_since(start));
    }
    std::int64_t rows = 0;
    for (const auto c : result.count) rows += c;
    item(
        format("{\"case\": \"64 distinct rows\", \"targets\": %lld, \"seconds\": %.4g, \"rows\": %lld, "
               "\"rows_per_s\": %.5g}",
               (long long)n, best, (long long)rows, double(rows) / best));
    auto cube = targets;
    for (std::size_t t = 0; t < std::size_t(n); t += 2) {
      for (std::size_t k = 0; k < 3; k++)
        cube[t * 7 + k] = 2 * std::fmod(double(t) * (0.754877666 + 0.1 * double(k)), 1.0) - 1;
    }
    double once = 1e9;
    for (int k = 0; k < 3; k++) {
      const auto start = Clock::now();
      result = solver.solve(TargetView{cube.data(), n}, open_world());
      once = std::min(once, seconds_since(start));
    }
    item(
        format("{\"case\": \"half of them in a 2 m cube\", \"targets\": %lld, \"seconds\": %.4g, "
               "\"targets_per_s\": %.5g, \"solved\": %lld}",
               (long long)n, once, double(n) / once,
               (long long)std::count(result.outcome.begin(), result.outcome.end(), Outcome::solved)));
  }

  // Robots.
  for (const char* name : {"iiwa14", "ur5e", "fetch"}) {
    const Robot robot = Robot::preset(name);
    on_device(robot, Solver(robot, {.device = "cuda:0"}), *device, 1000000, true);
  }
  if (!folder.empty()) {
    for (const char* name : {"panda_ext_12dof", "panda_ext_18dof", "panda_ext_24dof"}) {
      const Robot robot = Robot::from_urdf_file(folder + "/" + name + ".urdf", {.ee_link = "panda_hand"});
      const auto start = Clock::now();
      const Solver chained(robot, {.device = "cuda:0"});
      item(format("{\"case\": \"first use\", \"robot\": \"%s\", \"solver_s\": %.4f}", name,
                  seconds_since(start)));
      on_device(robot, chained, *device, 1000000, true);
    }
  }
  std::printf("\n]\n");
  return failed;
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const std::exception& error) {
  std::fprintf(stderr, "hjcdik_gpu_bench: %s\n", error.what());
  return 1;
}
