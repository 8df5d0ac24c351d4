// Many targets in one call, several different solutions of each.
#include <algorithm>
#include <cstdio>
#include <hjcdik/hjcdik.hpp>

int main() {
  const hjcdik::Solver solver(hjcdik::Robot::preset("ur5e"));
  const std::vector<hjcdik::Pose> targets = solver.sample_targets(1000, 1);  // reachable poses

  hjcdik::SolveOptions options;
  options.num_solutions = 8;
  options.collision = hjcdik::Collision::none;  // some of these targets can only be reached in collision
  // Targets are read where they lie: a pointer, the number of rows and, if not 7, the doubles between rows.
  const hjcdik::Result result =
      solver.solve({targets[0].data(), static_cast<std::int64_t>(targets.size())}, options);

  const auto solved = std::ranges::count(result.outcome, hjcdik::Outcome::solved);
  const auto [fewest, most] = std::ranges::minmax(result.count);
  std::printf("%d of %zu targets solved, with %d to %d solutions each\n", static_cast<int>(solved),
              targets.size(), static_cast<int>(fewest), static_cast<int>(most));
  std::printf("%.1f ms for the whole call\n", result.elapsed_ms);
  return solved == static_cast<std::ptrdiff_t>(targets.size()) ? 0 : 1;
}
