// Files of collision spheres, as they stand: nothing is related to a chain yet.
#pragma once

#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <hjcdik/robot.hpp>

#include "model/urdf.hpp"

namespace hjcdik::model {

// Two links, the smaller name first.
using NamePair = std::pair<std::string, std::string>;
NamePair name_pair(const std::string& a, const std::string& b);

struct LinkSpheres {
  std::string link;
  int line;
  std::vector<std::array<double, 4>> spheres;  // x y z r in the link's frame
};

struct SphereFile {
  std::string source;  // name in messages
  std::vector<LinkSpheres> links;
  std::set<NamePair> ignored;
  std::set<std::string> not_checked;  // links that stand still, as the file says
  std::vector<std::string> warnings;
};

struct Srdf {
  std::string robot;           // empty: not said
  std::set<NamePair> ignored;  // what its disable_collisions entries name
};

// The readers throw ModelError.

// `spheres`: RobotOptions' preset name, path or text.
SphereFile read_spheres(const RobotOptions& options, const Urdf& robot);
Srdf read_srdf(const RobotOptions& options);
// Its name in messages.
std::string srdf_source(const RobotOptions& options);

}  // namespace hjcdik::model
