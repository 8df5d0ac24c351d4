// Obstacles for the C++ benchmarks, and targets that can be reached among them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <stdexcept>
#include <thread>
#include <vector>

#include <hjcdik/hjcdik.hpp>

namespace hjcdik::bench {

class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream)
      : state_(seed * 0x9e3779b97f4a7c15ull + stream * 0xd1342543de82ef95ull + 1) {}

  double uniform(double low, double high) {
    state_ ^= state_ >> 32;
    state_ *= 0xd6e8feb86659fd93ull;
    state_ ^= state_ >> 32;
    const double value = low + double(state_ >> 11) * 0x1p-53 * (high - low);
    state_ += 0x9e3779b97f4a7c15ull;
    return value;
  }

 private:
  std::uint64_t state_;
};

// Calls work(begin, end) for parts of 0 .. n - 1, each on a thread of its own.
inline void parallel(std::int64_t n, const std::function<void(std::int64_t, std::int64_t)>& work) {
  const std::int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> pool;
  for (std::int64_t k = 0; k < threads; k++)
    pool.emplace_back([&, k] { work(n * k / threads, n * (k + 1) / threads); });
  for (auto& t : pool) t.join();
}

// A table, a shelf, a pillar and a ball in front of the arm, as in examples/demo.py.
inline World scene() {
  static const std::vector<double> boxes = {
      0.35, 0.0,  -0.04, 1, 0, 0, 0, 1.4,  1.6,  0.04,  // table
      0.62, 0.50, 0.30,  1, 0, 0, 0, 0.30, 0.50, 0.02,  // shelf: three boards and a back
      0.62, 0.50, 0.62,  1, 0, 0, 0, 0.30, 0.50, 0.02,  //
      0.62, 0.50, 0.94,  1, 0, 0, 0, 0.30, 0.50, 0.02,  //
      0.78, 0.50, 0.46,  1, 0, 0, 0, 0.02, 0.50, 0.98};
  static const std::vector<double> cylinders = {0.42, -0.30, 0.34, 1, 0, 0, 0, 0.05, 0.72};
  static const std::vector<double> spheres = {0.50, 0.05, 0.52, 0.10};
  WorldView view;
  view.boxes = boxes;
  view.cylinders = cylinders;
  view.spheres = spheres;
  return World(view);
}

// Five obstacles of each kind around the arm, whose base stands clear of them.
inline World random_world(std::uint64_t seed, std::uint64_t number) {
  Random random(seed, number);
  std::vector<double> boxes, capsules, cylinders, spheres;
  const auto add_place = [&](std::vector<double>& rows) {
    const double away = random.uniform(0.5, 1.0), turn = random.uniform(0, 2 * std::numbers::pi);
    rows.insert(rows.end(), {away * std::cos(turn), away * std::sin(turn), random.uniform(0, 1)});
  };
  const auto add = [&](std::vector<double>& rows, int values, double low, double high) {
    for (int k = 0; k < values; k++) rows.push_back(random.uniform(low, high));
  };
  for (int i = 0; i < 5; i++) {
    add_place(boxes);
    add(boxes, 4, -1, 1);  // a quaternion
    add(boxes, 3, 0.05, 0.3);
    add_place(capsules);
    for (int k = 0; k < 3; k++)
      capsules.push_back(capsules[capsules.size() - 3] + random.uniform(-0.15, 0.15));
    add(capsules, 1, 0.03, 0.08);
    add_place(cylinders);
    add(cylinders, 4, -1, 1);
    add(cylinders, 1, 0.03, 0.08);
    add(cylinders, 1, 0.1, 0.4);
    add_place(spheres);
    add(spheres, 1, 0.05, 0.12);
  }
  WorldView view;
  view.boxes = boxes;
  view.capsules = capsules;
  view.cylinders = cylinders;
  view.spheres = spheres;
  view.exact_cylinders = number % 2 == 1;
  return World(view);
}

inline std::vector<World> random_worlds(int count, std::uint64_t seed) {
  std::vector<World> worlds;
  for (int w = 0; w < count; w++) worlds.push_back(random_world(seed, std::uint64_t(w)));
  return worlds;
}

// FK of uniformly random configurations that are free: the t-th in the solver's world world_of[t].
inline std::vector<double> free_targets(const Solver& solver, const std::vector<std::int32_t>& world_of,
                                        std::uint64_t seed) {
  const auto n = std::int64_t(world_of.size());
  std::vector<double> poses(world_of.size() * 7);
  const auto& joints = solver.robot().joints();
  std::atomic<bool> missing{false};
  parallel(n, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> q(joints.size());
    for (std::int64_t t = begin; t < end; t++) {
      Random random(seed, std::uint64_t(t));
      bool free = false;
      for (int attempt = 0; attempt < 10000 && !free; attempt++) {
        for (std::size_t i = 0; i < q.size(); i++) q[i] = random.uniform(joints[i].lower, joints[i].upper);
        free = solver.check(q, world_of[std::size_t(t)]).front().free;
      }
      if (!free) missing = true;
      const Pose pose = solver.robot().forward_kinematics(q);
      std::copy(pose.begin(), pose.end(), poses.begin() + std::ptrdiff_t(t * 7));
    }
  });
  if (missing) throw std::runtime_error("a world leaves the robot hardly a free configuration");
  return poses;
}

// How many of the rows collide in their worlds, by the solver's own check; rows of NaN are none.
inline std::int64_t colliding_rows(const Solver& solver, const std::vector<std::int32_t>& world_of,
                                   const double* q) {
  const auto dof = std::size_t(solver.robot().dof());
  std::atomic<std::int64_t> colliding{0};
  parallel(std::int64_t(world_of.size()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; t++) {
      const std::span<const double> row(q + std::size_t(t) * dof, dof);
      if (std::any_of(row.begin(), row.end(), [](double v) { return std::isnan(v); })) continue;
      if (!solver.check(row, world_of[std::size_t(t)]).front().free) colliding++;
    }
  });
  return colliding;
}

}  // namespace hjcdik::bench
