// The sphere model in the form of core/geometry.h.
#pragma once

#include <array>
#include <vector>

#include "core/geometry.h"

namespace hjcdik::model {

struct Chain;

template <class S>
struct SphereArrays {
  std::vector<S> x, y, z, radius;  // padded
  std::vector<int> joint;
  std::vector<core::SphereGroup> groups;
  std::vector<std::array<short, 2>> pairs;
  int spheres = 0, world_spheres = 0;

  core::SphereTable<S> table() const {
    return {spheres,
            world_spheres,
            int(groups.size()),
            int(pairs.size()),
            x.data(),
            y.data(),
            z.data(),
            radius.data(),
            joint.data(),
            groups.data(),
            reinterpret_cast<const short(*)[2]>(pairs.data())};
  }
};

struct SphereTables {
  SphereArrays<float> f32;
  SphereArrays<double> f64;
  std::vector<int> link_of_group;  // in SphereModel::links
  // No point that spheres are about is farther from a joint's axis, m: how far a radian may move them.
  double lever = 0;
};

// From chain.spheres; needs to_constants and length.
SphereTables make_sphere_tables(const Chain& chain);

}  // namespace hjcdik::model
