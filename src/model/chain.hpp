// A robot as the rest of the library sees it: what a URDF says of the chain from base to tool,
// and the same in the form of core/chain.h.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include <hjcdik/robot.hpp>

#include "core/chain.h"
#include "model/sphere_table.hpp"

namespace hjcdik::model {

struct Transform {
  double rotation[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};  // row-major
  double position[3] = {0, 0, 0};
};

Transform operator*(const Transform& a, const Transform& b);
Transform inverse(const Transform& transform);
// About a unit axis through the origin, and along it.
Transform rotation_about(const double axis[3], double angle);
Transform translation_along(const double axis[3], double distance);

// A sphere, x y z r, in the frame that the transform leads to.
std::array<double, 4> operator*(const Transform& transform, const std::array<double, 4>& sphere);

struct Joint {
  JointInfo info;
  Transform origin;  // joint frame at q = 0 in the previous moving joint's frame (the base's, for the first)
  double axis[3];    // unit length, in the joint frame
};

// Collision spheres by link. Joint -1 stands for what the chain's joints do not move.
struct SphereLink {
  std::string name;
  int joint;                                   // the moving joint that carries it, in the order of q
  bool is_base;                                // welded to the base without a locked joint between
  std::vector<std::array<double, 4>> spheres;  // x y z r in the carrying joint's frame (the base's, for -1)
};

struct SphereModel {
  std::string source;                     // name in messages
  std::vector<SphereLink> links;          // those that are checked, from base to tool
  std::vector<std::array<int, 2>> pairs;  // of links checked against each other, first < second
  // The names of links, and the link of each sphere.
  std::vector<std::string> link_names;
  std::vector<int> sphere_links;
};

struct Chain {
  std::string robot, base_link, ee_link, ee_frame;
  std::vector<Joint> joints;
  Transform tool;  // tool link in the last joint's frame
  std::vector<JointInfo> joint_infos;
  std::map<std::string, double> locked_joints;
  std::vector<std::string> warnings;

  SphereModel spheres;  // no links: no collision geometry

  core::ChainConstants<double> constants;
  // Points of joint i's frame in the turned frame of constants, after its motion: first a rotation.
  std::vector<Transform> to_constants;
  // For float lanes: offsets and translations rounded to nearest, limits rounded inwards.
  core::ChainConstants<float> constants_f32;
  SphereTables sphere_tables;
  // Poses beyond it are out of reach, by more than the 1e-6 m a solution may be off. Its radius is the
  // simple bound. The points, which q_0 and q_n-1 do not move, make the sharper one.
  core::Reach reach;
  // Sum of link lengths from the first joint on, slides drawn out: the scale of the arm, m.
  double length = 0;
  std::string header_text;
};

// Fills constants, constants_f32, to_constants, sphere_tables, reach, length and header_text from the rest.
void finish(Chain& chain);
// The same from constants, less their prismatic and wraps: fills these, joints (in the frames of the
// constants), tool and the rest. joint_infos and spheres (in those frames too) must be there.
void finish_from_constants(Chain& chain);

// The motion of a joint by q about or along its axis, in its own frame.
Transform motion(const Joint& joint, double q);

// False only if no configuration inside the limits reaches the pose within 1e-6 m and 1e-6 rad.
// `rotation` is row-major.
bool may_reach(const Chain& chain, const double position[3], const double rotation[9]);

// The generated chain text (chain_text.cpp).
std::string chain_text(const Chain& chain);
// A number as there.
std::string hex_literal(double value);

}  // namespace hjcdik::model
