// The robots that headers are written of, under the names of their namespaces.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plain_world.hpp"

namespace hjcdik::test {

inline std::vector<std::pair<std::string, Robot>> header_robots() {
  Random random(20261130);
  std::vector<std::pair<std::string, Robot>> robots;
  for (const std::string& name : preset_names()) robots.emplace_back(name, Robot::preset(name));
  robots.emplace_back("panda_with_base", Robot::preset("panda", {.check_base = true}));
  for (const int joints : {1, 2, 5, 9, 20, 32}) {
    robots.emplace_back("open" + std::to_string(joints), load(random_chain(joints, random.engine)));
    robots.emplace_back("spheres" + std::to_string(joints), random_sphere_robot(random, joints, 5));
  }
  return robots;
}

}  // namespace hjcdik::test
