// The public World: what is refused, what is in force.
#include <hjcdik/world.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "solver/world.hpp"

namespace hjcdik {
namespace {

constexpr std::array<double, 10> kBox = {0.5, 0, 0.2, 1, 0, 0, 0, 0.1, 0.2, 0.3};
constexpr std::array<double, 7> kCapsule = {0.5, 0, 0.2, 0.5, 0, 0.6, 0.05};
constexpr std::array<double, 9> kCylinder = {0.5, 0.1, 0.2, 1, 0, 0, 0, 0.05, 0.4};
constexpr std::array<double, 4> kSphere = {0.5, 0, 0.2, 0.1};

std::string refusal(const WorldView& view) {
  try {
    const World world(view);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(World, IsEmptyWithoutRows) {
  EXPECT_TRUE(World().empty());
  EXPECT_TRUE(World(WorldView{}).empty());
  WorldView view;
  view.spheres = kSphere;
  EXPECT_FALSE(World(view).empty());
  view = {};
  view.cylinders = kCylinder;
  EXPECT_FALSE(World(view).empty());
  view.exact_cylinders = true;
  EXPECT_FALSE(World(view).empty());
}

TEST(World, RefusesRowsThatAreNotWhole) {
  WorldView view;
  view.boxes = std::span(kBox).first(9);
  EXPECT_EQ(refusal(view), "boxes: 9 values, not a multiple of the 10 of a row");
  view = {};
  view.spheres = kCapsule;
  EXPECT_EQ(refusal(view), "spheres: 7 values, not a multiple of the 4 of a row");
}

TEST(World, NamesArrayRowAndField) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto with = [](auto row, std::size_t field, double value) {
    row[field] = value;
    return row;
  };
  // The second of two rows.
  const auto message = [](std::span<const double> WorldView::*array, const auto& good, const auto& bad) {
    std::vector<double> rows(good.begin(), good.end());
    rows.insert(rows.end(), bad.begin(), bad.end());
    WorldView view;
    view.*array = rows;
    return refusal(view);
  };
  EXPECT_EQ(message(&WorldView::boxes, kBox, with(kBox, 9, -0.1)),
            "boxes[1]: sz is -0.1; side lengths must be positive");
  EXPECT_EQ(message(&WorldView::boxes, kBox, with(kBox, 3, 0.0)),
            "boxes[1]: the quaternion qw qx qy qz is zero");
  EXPECT_EQ(message(&WorldView::capsules, kCapsule, with(kCapsule, 3, nan)),
            "capsules[1]: x1 is nan, expected a finite number");
  EXPECT_EQ(message(&WorldView::capsules, kCapsule, with(kCapsule, 6, 0.0)),
            "capsules[1]: r is 0; radii must be positive");
  EXPECT_EQ(message(&WorldView::cylinders, kCylinder, with(kCylinder, 8, 0.0)),
            "cylinders[1]: L is 0; radii and lengths must be positive");
  EXPECT_EQ(message(&WorldView::cylinders, kCylinder, with(kCylinder, 4, -HUGE_VAL)),
            "cylinders[1]: qx is -inf, expected a finite number");
  EXPECT_EQ(message(&WorldView::spheres, kSphere, with(kSphere, 1, -2e9)).substr(0, 20),
            "spheres[1]: cy is -2");
  EXPECT_NE(message(&WorldView::spheres, kSphere, with(kSphere, 3, 2e9)).find("beyond the limit of 1e9 m"),
            std::string::npos);
  EXPECT_EQ(message(&WorldView::spheres, kSphere, with(kSphere, 3, 1e9)), "");
}

TEST(World, NormalisesQuaternions) {
  std::array<double, 10> box = kBox;
  box[3] = box[6] = 3e200;
  WorldView view;
  view.boxes = box;
  const World world(view);
  EXPECT_DOUBLE_EQ(world.boxes()[3], std::sqrt(0.5));
  EXPECT_EQ(world.boxes()[4], 0);
  EXPECT_DOUBLE_EQ(world.boxes()[6], std::sqrt(0.5));
}

TEST(World, CylindersStandBehindTheCapsulesUnlessExact) {
  WorldView view;
  view.capsules = kCapsule;
  view.cylinders = kCylinder;
  const World capsules(view);
  ASSERT_EQ(capsules.capsules().size(), 14u);
  EXPECT_TRUE(capsules.cylinders().empty());
  EXPECT_EQ(capsules.obstacles().given_capsules, 1);
  EXPECT_EQ(capsules.obstacles().cylinders_as_capsules, 1);
  const std::array<double, 7> expected = {0.5, 0.1, 0, 0.5, 0.1, 0.4, 0.05};
  for (std::size_t k = 0; k < 7; ++k) EXPECT_NEAR(capsules.capsules()[7 + k], expected[k], 1e-15);

  view.exact_cylinders = true;
  const World exact(view);
  EXPECT_EQ(exact.capsules(), std::vector<double>(kCapsule.begin(), kCapsule.end()));
  EXPECT_EQ(exact.cylinders(), std::vector<double>(kCylinder.begin(), kCylinder.end()));
  EXPECT_EQ(exact.obstacles().cylinders_as_capsules, 0);
}

TEST(World, CopiesShareTheRows) {
  WorldView view;
  view.spheres = kSphere;
  const World one(view);
  const World other = one;
  EXPECT_EQ(&one.spheres(), &other.spheres());
}

}  // namespace
}  // namespace hjcdik
