// Collision spheres on a chain: which links carry some, and which of these are checked against each other.
#pragma once

#include <optional>
#include <vector>

#include "model/chain.hpp"
#include "model/urdf.hpp"

namespace hjcdik::model {

// The most that are checked.
constexpr std::size_t kMostSpheres = 768;

// Fills chain.spheres from options.spheres; the chain's joints must be there. `held`: the value that each of
// the URDF's joints stands at, nothing where it moves with q. Throws ModelError.
void set_spheres(Chain& chain, const Urdf& urdf, const std::vector<std::optional<double>>& held,
                 const RobotOptions& options);

// Adds a warning for each pair of links that overlaps at mid-range or nearly always, since it would leave few
// configurations or none.
void warn_of_overlaps(Chain& chain);

}  // namespace hjcdik::model
