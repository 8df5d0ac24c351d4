// Obstacles as users give them: validation, unit quaternions, cylinders as capsules.
#include "solver/world.hpp"

#include <array>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "core/target.h"
#include "model/names.hpp"

namespace hjcdik {
namespace {

// Anything larger is taken for a mistake; its square would overflow float32.
constexpr double kFarthest = 1e9;

// An array of WorldView.
struct Kind {
  const char* name;
  std::span<const char* const> columns;
  bool turned;             // columns 3 to 6 are a quaternion
  std::size_t first_size;  // this column and all behind it must be positive
  const char* sizes;       // what they are, in messages
};

constexpr std::size_t kQuaternion = 3;

constexpr const char* kBoxColumns[] = {"cx", "cy", "cz", "qw", "qx", "qy", "qz", "sx", "sy", "sz"};
constexpr const char* kCapsuleColumns[] = {"x0", "y0", "z0", "x1", "y1", "z1", "r"};
constexpr const char* kCylinderColumns[] = {"cx", "cy", "cz", "qw", "qx", "qy", "qz", "r", "L"};
constexpr const char* kSphereColumns[] = {"cx", "cy", "cz", "r"};

constexpr Kind kBoxes = {"boxes", kBoxColumns, true, 7, "side lengths"};
constexpr Kind kCapsules = {"capsules", kCapsuleColumns, false, 6, "radii"};
constexpr Kind kCylinders = {"cylinders", kCylinderColumns, true, 7, "radii and lengths"};
constexpr Kind kSpheres = {"spheres", kSphereColumns, false, 3, "radii"};

void check(const Kind& kind, std::span<const double> rows) {
  const std::size_t width = kind.columns.size();
  if (rows.size() % width != 0) {
    throw InvalidArgument(std::string(kind.name) + ": " + std::to_string(rows.size()) +
                          " values, not a multiple of the " + std::to_string(width) + " of a row");
  }
  for (std::size_t i = 0; i < rows.size() / width; ++i) {
    const double* row = rows.data() + i * width;
    const auto name = [&] { return std::string(kind.name) + "[" + std::to_string(i) + "]: "; };
    for (std::size_t k = 0; k < width; ++k) {
      const auto fail = [&](const std::string& reason) {
        throw InvalidArgument(name() + kind.columns[k] + " is " + model::to_text(row[k]) + reason);
      };
      if (!std::isfinite(row[k])) fail(", expected a finite number");
      if (kind.turned && k >= kQuaternion && k < kQuaternion + 4) continue;
      if (k >= kind.first_size && row[k] <= 0) fail("; " + std::string(kind.sizes) + " must be positive");
      if (std::abs(row[k]) > kFarthest) fail(" m, beyond the limit of 1e9 m");
    }
    const double* q = row + kQuaternion;
    if (kind.turned && q[0] == 0 && q[1] == 0 && q[2] == 0 && q[3] == 0) {
      throw InvalidArgument(name() + "the quaternion qw qx qy qz is zero");
    }
  }
}

std::vector<double> copied(std::span<const double> rows) { return {rows.begin(), rows.end()}; }

std::vector<double> with_unit_quaternions(std::span<const double> rows, std::size_t width) {
  std::vector<double> out = copied(rows);
  for (std::size_t i = 0; i < out.size(); i += width) {
    double* q = out.data() + i + kQuaternion;
    const core::Quaternion unit = core::normalised(q);
    q[0] = unit.w.v;
    q[1] = unit.v.x.v;
    q[2] = unit.v.y.v;
    q[3] = unit.v.z.v;
  }
  return out;
}

// The capsule with the axis, length and radius of a cylinder with a unit quaternion.
std::array<double, 7> as_capsule(const double* cylinder) {
  double rotation[9];
  core::rotation_of(core::normalised(cylinder + kQuaternion), rotation);
  const double radius = cylinder[7], half = cylinder[8] / 2;
  std::array<double, 7> capsule{};
  for (std::size_t k = 0; k < 3; ++k) {
    const double along = rotation[3 * k + 2] * half;  // local z
    capsule[k] = cylinder[k] - along;
    capsule[3 + k] = cylinder[k] + along;
  }
  capsule[6] = radius;
  return capsule;
}

}  // namespace

World::World() : World(WorldView{}) {}

World::World(const WorldView& view) {
  check(kBoxes, view.boxes);
  check(kCapsules, view.capsules);
  check(kCylinders, view.cylinders);
  check(kSpheres, view.spheres);
  Obstacles obstacles;
  obstacles.boxes = with_unit_quaternions(view.boxes, kBoxes.columns.size());
  obstacles.capsules = copied(view.capsules);
  obstacles.cylinders = with_unit_quaternions(view.cylinders, kCylinders.columns.size());
  obstacles.spheres = copied(view.spheres);
  obstacles.given_capsules = std::int64_t(view.capsules.size() / kCapsules.columns.size());
  if (!view.exact_cylinders) {
    const std::vector<double> cylinders = std::exchange(obstacles.cylinders, {});
    for (std::size_t i = 0; i < cylinders.size(); i += kCylinders.columns.size()) {
      const std::array<double, 7> capsule = as_capsule(cylinders.data() + i);
      obstacles.capsules.insert(obstacles.capsules.end(), capsule.begin(), capsule.end());
      ++obstacles.cylinders_as_capsules;
    }
  }
  obstacles_ = std::make_shared<const Obstacles>(std::move(obstacles));
}

bool World::empty() const noexcept {
  return boxes().empty() && capsules().empty() && cylinders().empty() && spheres().empty();
}

const std::vector<double>& World::boxes() const noexcept { return obstacles_->boxes; }
const std::vector<double>& World::capsules() const noexcept { return obstacles_->capsules; }
const std::vector<double>& World::cylinders() const noexcept { return obstacles_->cylinders; }
const std::vector<double>& World::spheres() const noexcept { return obstacles_->spheres; }

const char* to_string(ObstacleKind kind) noexcept {
  switch (kind) {
    case ObstacleKind::none: return "none";
    case ObstacleKind::link: return "link";
    case ObstacleKind::box: return "box";
    case ObstacleKind::capsule: return "capsule";
    case ObstacleKind::cylinder: return "cylinder";
    case ObstacleKind::sphere: return "sphere";
  }
  return "unknown";
}

}  // namespace hjcdik
