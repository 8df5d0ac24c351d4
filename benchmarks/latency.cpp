// Time of one target on one core through the C++ API, and solves a second for many targets on one core
// and on all: in the open world, and, for a robot with collision spheres, free of collision in a scene. Every
// target is fresh, the polish is included. Prints one JSON line.
//
//   hjcdik_latency [ROBOT] [EE_LINK] [--calls N] [--targets T] [--commit HASH]
//
// ROBOT is a preset (default panda, EE_LINK panda_hand) or the path of a URDF.

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hjcdik/hjcdik.hpp>

#include "scenes.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Options {
  std::string robot = "panda";
  std::string ee_link = "panda_hand";
  std::int64_t calls = 20000;
  std::int64_t targets = 100000;
  std::string commit;
};

Options parse(int argc, char** argv) {
  Options options;
  int position = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool named = argument.rfind("--", 0) == 0;
    if (named && i + 1 >= argc) throw hjcdik::InvalidArgument(argument + " needs a value");
    if (argument == "--calls") {
      options.calls = std::stoll(argv[++i]);
    } else if (argument == "--targets") {
      options.targets = std::stoll(argv[++i]);
    } else if (argument == "--commit") {
      options.commit = argv[++i];
    } else if (named) {
      throw hjcdik::InvalidArgument("unknown option " + argument);
    } else if (position == 0) {
      options.robot = argument;
      options.ee_link.clear();
      ++position;
    } else {
      options.ee_link = argument;
    }
  }
  if (options.calls < 1 || options.targets < 1)
    throw hjcdik::InvalidArgument("--calls and --targets must be at least 1");
  return options;
}

hjcdik::Robot load(const Options& options) {
  hjcdik::RobotOptions robot_options;
  robot_options.ee_link = options.ee_link;
  for (const hjcdik::PresetInfo& preset : hjcdik::presets())
    if (preset.name == options.robot) return hjcdik::Robot::preset(options.robot, robot_options);
  return hjcdik::Robot::from_urdf_file(options.robot, robot_options);
}

// Forward kinematics of uniform configurations inside the limits; of free ones with mode hard.
std::vector<hjcdik::Pose> random_targets(const hjcdik::Solver& solver, hjcdik::Collision mode, std::int64_t n,
                                         std::uint32_t seed) {
  const hjcdik::Robot& robot = solver.robot();
  if (mode == hjcdik::Collision::hard) {
    const std::vector<std::int32_t> world_of(n, 0);
    const std::vector<double> rows = hjcdik::bench::free_targets(solver, world_of, seed);
    std::vector<hjcdik::Pose> targets(n);
    for (std::int64_t i = 0; i < n; ++i) std::copy_n(&rows[i * 7], 7, targets[i].begin());
    return targets;
  }
  std::mt19937 generator(seed);
  std::vector<std::uniform_real_distribution<double>> ranges;
  for (const hjcdik::JointInfo& joint : robot.joints()) ranges.emplace_back(joint.lower, joint.upper);
  std::vector<double> q(ranges.size());
  std::vector<hjcdik::Pose> targets;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < q.size(); ++j) q[j] = ranges[j](generator);
    targets.push_back(robot.forward_kinematics(q));
  }
  return targets;
}

// Inside the limits and closer than 1e-6 m and 1e-6 rad, recomputed from q.
bool strict(const hjcdik::Robot& robot, std::span<const double> q, const hjcdik::Pose& target) {
  for (std::size_t j = 0; j < q.size(); ++j)
    if (!(q[j] >= robot.joints()[j].lower && q[j] <= robot.joints()[j].upper)) return false;
  const hjcdik::Pose pose = robot.forward_kinematics(q);
  const double distance = std::hypot(pose[0] - target[0], pose[1] - target[1], pose[2] - target[2]);
  // Vector part of conj(a) b; its length is the sine of half the angle.
  const double *a = &pose[3], *b = &target[3];
  const double x = a[0] * b[1] - a[1] * b[0] - a[2] * b[3] + a[3] * b[2];
  const double y = a[0] * b[2] + a[1] * b[3] - a[2] * b[0] - a[3] * b[1];
  const double z = a[0] * b[3] - a[1] * b[2] + a[2] * b[1] - a[3] * b[0];
  return distance < 1e-6 && 2 * std::asin(std::min(1.0, std::hypot(x, y, z))) < 1e-6;
}

// What a solve writes, allocated once.
struct Output {
  int dof;
  std::vector<double> q, pose, pos_err_m, ori_err_rad;
  std::vector<std::int64_t> count;
  std::vector<hjcdik::Outcome> outcome;

  Output(std::int64_t targets, int joints)
      : dof(joints),
        q(targets * joints),
        pose(targets * 7),
        pos_err_m(targets),
        ori_err_rad(targets),
        count(targets),
        outcome(targets) {}

  // From one target on.
  hjcdik::ResultView view(std::int64_t first = 0) {
    hjcdik::ResultView view;
    view.q = &q[first * dof];
    view.pose = &pose[first * 7];
    view.pos_err_m = &pos_err_m[first];
    view.ori_err_rad = &ori_err_rad[first];
    view.count = &count[first];
    view.outcome = &outcome[first];
    return view;
  }
};

// In mode hard, strict rows must be free too.
double share_strict(const hjcdik::Solver& solver, hjcdik::Collision mode, const std::vector<double>& q,
                    const std::vector<hjcdik::Pose>& targets) {
  std::int64_t good = 0;
  const std::size_t dof = solver.robot().dof();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::span<const double> row = std::span(q).subspan(i * dof, dof);
    good += strict(solver.robot(), row, targets[i]) &&
            (mode == hjcdik::Collision::none || solver.check(row).front().free);
  }
  return static_cast<double>(good) / static_cast<double>(targets.size());
}

struct Latency {
  double median, p90, p99, mean, strict;  // us
};

Latency one_target(const hjcdik::Solver& solver, hjcdik::Collision mode, std::int64_t calls) {
  const int warm_up = 500;
  const std::vector<hjcdik::Pose> targets = random_targets(solver, mode, calls + warm_up, 1);
  hjcdik::SolveOptions options;
  options.collision = mode;
  Output output(calls + warm_up, solver.robot().dof());
  std::vector<double> us;
  us.reserve(calls);
  for (std::int64_t i = 0; i < calls + warm_up; ++i) {
    hjcdik::TargetView target;
    target.data = targets[i].data();
    target.rows = 1;
    const hjcdik::ResultView view = output.view(i);
    const Clock::time_point start = Clock::now();
    solver.solve_into(target, options, view);
    const double took = seconds_since(start);
    if (i >= warm_up) us.push_back(took * 1e6);
  }
  double mean = 0;
  for (double value : us) mean += value / static_cast<double>(us.size());
  std::sort(us.begin(), us.end());
  const auto quantile = [&](double p) {
    return us[static_cast<std::size_t>(p * static_cast<double>(us.size() - 1))];
  };
  return {quantile(0.5), quantile(0.9), quantile(0.99), mean, share_strict(solver, mode, output.q, targets)};
}

struct Throughput {
  double per_s, strict;
};

Throughput many_targets(const hjcdik::Solver& solver, hjcdik::Collision mode, std::int64_t count) {
  hjcdik::SolveOptions options;
  options.collision = mode;
  Output output(count, solver.robot().dof());
  std::vector<double> times;
  std::vector<hjcdik::Pose> targets;
  for (int run = 0; run < 6; ++run) {
    targets = random_targets(solver, mode, count, 2 + run);
    hjcdik::TargetView view;
    view.data = targets.front().data();
    view.rows = count;
    const Clock::time_point start = Clock::now();
    solver.solve_into(view, options, output.view());
    const double took = seconds_since(start);
    if (run > 0) times.push_back(took);  // the first warms up
  }
  std::sort(times.begin(), times.end());
  return {static_cast<double>(count) / times[times.size() / 2],
          share_strict(solver, mode, output.q, targets)};
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

// Cores, not hardware threads, in the affinity mask.
int physical_cores(const cpu_set_t& allowed) {
  std::set<std::pair<std::string, std::string>> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    std::string package = "?", core = std::to_string(cpu);
    std::ifstream(folder + "physical_package_id") >> package;
    std::ifstream(folder + "core_id") >> core;
    cores.emplace(package, core);
  }
  return static_cast<int>(cores.size());
}

void pin_to_last(const cpu_set_t& allowed) {
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

int run(const Options& options) {
  const hjcdik::Robot robot = load(options);
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  const int cores = physical_cores(allowed);

  // Pinned before the solvers start their threads.
  pin_to_last(allowed);
  hjcdik::SolverOptions one_thread;
  one_thread.device = "cpu";
  one_thread.threads = 1;
  hjcdik::Solver one_core(robot, one_thread);
  constexpr hjcdik::Collision open = hjcdik::Collision::none, hard = hjcdik::Collision::hard;
  const Latency latency = one_target(one_core, open, options.calls);
  const Throughput single = many_targets(one_core, open, options.targets);
  const bool has_spheres = !robot.collision_links().empty();
  Latency hard_latency{};
  Throughput hard_single{};
  if (has_spheres) {
    one_core.set_world(hjcdik::bench::scene());
    hard_latency = one_target(one_core, hard, options.calls);
    hard_single = many_targets(one_core, hard, options.targets);
  }

  sched_setaffinity(0, sizeof allowed, &allowed);
  hjcdik::SolverOptions every_thread;
  every_thread.device = "cpu";
  every_thread.threads = cores;
  hjcdik::Solver all_cores(robot, every_thread);
  const Throughput all = many_targets(all_cores, open, options.targets);
  Throughput hard_all{};
  if (has_spheres) {
    all_cores.set_world(hjcdik::bench::scene());
    hard_all = many_targets(all_cores, hard, options.targets);
  }

  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  utsname system;
  uname(&system);
  std::printf(
      "{\"claim\": \"C++ call: one target on one core; many targets on one core and on all\", "
      "\"date\": \"%s\", \"commit\": \"%s\", \"cpu\": \"%s\", \"system\": \"%s %s\", \"compiler\": \"%s\", "
      "\"isa\": \"%s\", \"robot\": \"%s\", \"ee_link\": \"%s\", \"dof\": %d, "
      "\"one_target_us\": {\"calls\": %lld, \"median\": %.2f, \"p90\": %.2f, \"p99\": %.2f, \"mean\": %.2f, "
      "\"strict\": %.6f}, "
      "\"one_core\": {\"targets\": %lld, \"targets_per_s\": %.0f, \"strict\": %.6f}, "
      "\"all_cores\": {\"physical_cores\": %d, \"targets_per_s\": %.0f, \"strict\": %.6f, "
      "\"efficiency\": %.4f}",
      date, options.commit.c_str(), cpu_model().c_str(), system.sysname, system.release, __VERSION__,
      one_core.isa().c_str(), robot.name().c_str(), robot.ee_link().c_str(), robot.dof(),
      static_cast<long long>(options.calls), latency.median, latency.p90, latency.p99, latency.mean,
      latency.strict, static_cast<long long>(options.targets), single.per_s, single.strict, cores, all.per_s,
      all.strict, all.per_s / (single.per_s * cores));
  if (has_spheres) {
    std::printf(
        ", \"hard_in_a_scene\": {"
        "\"one_target_us\": {\"median\": %.2f, \"p90\": %.2f, \"p99\": %.2f, \"mean\": %.2f, "
        "\"strict_and_free\": %.6f}, "
        "\"one_core\": {\"targets_per_s\": %.0f, \"strict_and_free\": %.6f}, "
        "\"all_cores\": {\"targets_per_s\": %.0f, \"strict_and_free\": %.6f}}",
        hard_latency.median, hard_latency.p90, hard_latency.p99, hard_latency.mean, hard_latency.strict,
        hard_single.per_s, hard_single.strict, hard_all.per_s, hard_all.strict);
  }
  std::printf("}\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hjcdik_latency: %s\n", error.what());
    return 2;
  }
}
