#include "model/sphere_table.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/chain.hpp"

namespace hjcdik::model {
namespace {

std::array<double, 3> moved(const Transform& t, const std::array<double, 4>& sphere) {
  std::array<double, 3> p{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double* row = t.rotation + 3 * i;
    p[i] = t.position[i] + row[0] * sphere[0] + row[1] * sphere[1] + row[2] * sphere[2];
  }
  return p;
}

// About the middle of the spheres' bounding box; tight enough to tell far pairs.
core::SphereGroup bounding_group(const SphereArrays<double>& arrays, int begin, int end, int joint) {
  double lower[3], upper[3];
  const std::vector<double>* coordinates[3] = {&arrays.x, &arrays.y, &arrays.z};
  core::SphereGroup group{begin, end, joint, {}, 0};
  for (int k = 0; k < 3; ++k) {
    lower[k] = HUGE_VAL, upper[k] = -HUGE_VAL;
    for (int s = begin; s < end; ++s) {
      const double c = (*coordinates[k])[std::size_t(s)], r = arrays.radius[std::size_t(s)];
      lower[k] = std::min(lower[k], c - r), upper[k] = std::max(upper[k], c + r);
    }
    group.center[k] = float(0.5 * (lower[k] + upper[k]));
  }
  double radius = 0;
  for (int s = begin; s < end; ++s) {
    double square = 0;
    for (int k = 0; k < 3; ++k) {
      const double d = (*coordinates[k])[std::size_t(s)] - double(group.center[k]);
      square += d * d;
    }
    radius = std::max(radius, std::sqrt(square) + arrays.radius[std::size_t(s)]);
  }
  group.radius = float(radius * (1 + 1e-6) + 1e-7);
  return group;
}

template <class S>
void pad(SphereArrays<S>& arrays) {
  const std::size_t size = std::size_t((arrays.spheres + 2 * core::kSpherePadding - 1) /
                                       core::kSpherePadding * core::kSpherePadding);
  for (auto* v : {&arrays.x, &arrays.y, &arrays.z}) v->resize(size, S(core::kFarAway));
  arrays.radius.resize(size, S(0));
  arrays.joint.resize(size, -1);
}

}  // namespace

SphereTables make_sphere_tables(const Chain& chain) {
  SphereTables tables;
  const auto& links = chain.spheres.links;
  // Base links only meet other links: they come last.
  std::vector<int> order(links.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_partition(order.begin(), order.end(), [&](int l) { return !links[std::size_t(l)].is_base; });
  std::vector<short> group_of(links.size());
  SphereArrays<double>& f64 = tables.f64;
  for (const int l : order) {
    const SphereLink& link = links[std::size_t(l)];
    const int begin = int(f64.x.size());
    for (const auto& sphere : link.spheres) {
      const Transform turn = link.joint < 0 ? Transform{} : chain.to_constants[std::size_t(link.joint)];
      const auto p = moved(turn, sphere);
      f64.x.push_back(p[0]), f64.y.push_back(p[1]), f64.z.push_back(p[2]);
      f64.radius.push_back(sphere[3]);
      f64.joint.push_back(link.joint);
      tables.lever = std::max(tables.lever, std::hypot(p[0], p[1], p[2]));
    }
    const int end = int(f64.x.size());
    group_of[std::size_t(l)] = short(f64.groups.size());
    f64.groups.push_back(bounding_group(f64, begin, end, link.joint));
    tables.link_of_group.push_back(l);
    if (!link.is_base) f64.world_spheres = end;
  }
  f64.spheres = int(f64.x.size());
  for (const auto& pair : chain.spheres.pairs)
    f64.pairs.push_back({group_of[std::size_t(pair[0])], group_of[std::size_t(pair[1])]});
  tables.lever += chain.length;

  SphereArrays<float>& f32 = tables.f32;
  f32.x.assign(f64.x.begin(), f64.x.end());
  f32.y.assign(f64.y.begin(), f64.y.end());
  f32.z.assign(f64.z.begin(), f64.z.end());
  f32.radius.assign(f64.radius.begin(), f64.radius.end());
  f32.joint = f64.joint;
  f32.groups = f64.groups;
  f32.pairs = f64.pairs;
  f32.spheres = f64.spheres;
  f32.world_spheres = f64.world_spheres;
  pad(f64);
  pad(f32);
  return tables;
}

}  // namespace hjcdik::model
