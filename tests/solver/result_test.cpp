// The arrays that results are made of.
#include <utility>

#include "rows.hpp"

namespace hjcdik {
namespace {

using namespace test;

Array<double> numbers(std::size_t n) {
  Array<double> a(n);
  for (std::size_t i = 0; i < n; i++) a[i] = double(i);
  return a;
}

TEST(Array, CopiesAreIndependent) {
  Array<double> a = numbers(5), b = a, c;
  c = a;
  EXPECT_EQ(a, b);
  EXPECT_EQ(a, c);
  b[2] = 7;
  EXPECT_EQ(a[2], 2.0);
  EXPECT_EQ(c[2], 2.0);
  EXPECT_FALSE(a == b);
  EXPECT_FALSE(a == numbers(4));
  const Array<double>& self = a;
  a = self;
  EXPECT_EQ(a, numbers(5));
}

TEST(Array, MovesLeaveNothingBehind) {
  Array<double> a = numbers(5);
  Array<double> b = std::move(a);
  EXPECT_EQ(b, numbers(5));
  EXPECT_TRUE(a.empty());  // NOLINT(bugprone-use-after-move): defined, as documented by this test
  a = numbers(3);
  b = std::move(a);
  EXPECT_EQ(b, numbers(3));
}

TEST(Array, EmptyOnes) {
  const Array<double> none, zero(0);
  EXPECT_EQ(none, zero);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.begin(), none.end());
  Array<double> copy = none;
  EXPECT_EQ(copy.size(), 0u);
}

TEST(Result, CopiesKeepEverything) {
  const Solver solver(Robot::preset("ur5e"));
  Result first = solver.solve(view(solver.sample_targets(5)), open({.num_solutions = 3, .stats = true}));
  const Result copy = first;
  EXPECT_TRUE(same_result(first, copy));
  const Result moved = std::move(first);
  EXPECT_TRUE(same_result(moved, copy));
}

TEST(Outcome, HasNames) {
  EXPECT_STREQ(to_string(Outcome::solved), "solved");
  EXPECT_STREQ(to_string(Outcome::approximate), "approximate");
  EXPECT_STREQ(to_string(Outcome::no_accurate), "no_accurate");
  EXPECT_STREQ(to_string(Outcome::self_collision), "self_collision");
  EXPECT_STREQ(to_string(Outcome::environment_collision), "environment_collision");
}

}  // namespace
}  // namespace hjcdik
