// Robot: loading, and forward kinematics and Jacobian straight from the URDF's own joints in
// float64. It shares nothing with core/, so each checks the other.
#include <hjcdik/robot.hpp>

#include <algorithm>
#include <cmath>

#include "model/chain.hpp"
#include "model/names.hpp"
#include "model/text.hpp"
#include "model/urdf.hpp"

namespace hjcdik {

namespace {

using model::Chain;
using model::Transform;

void check(const Chain& chain, std::span<const double> q) {
  if (q.size() != chain.joints.size()) {
    throw InvalidArgument("q has " + std::to_string(q.size()) + " values; the robot has " +
                          std::to_string(chain.joints.size()) + " joints");
  }
  for (std::size_t i = 0; i < q.size(); ++i) {
    if (!std::isfinite(q[i])) {
      throw InvalidArgument("q[" + std::to_string(i) + "] (joint " +
                            model::in_quotes(chain.joints[i].info.name) + ") is not finite");
    }
  }
}

// The largest of the four components is found first, so that no rotation divides by a small number.
Pose to_pose(const Transform& t) {
  const double(&r)[9] = t.rotation;
  const double four_squares[4] = {1 + r[0] + r[4] + r[8], 1 + r[0] - r[4] - r[8], 1 - r[0] + r[4] - r[8],
                                  1 - r[0] - r[4] + r[8]};
  const double products[4][4] = {
      {0, r[7] - r[5], r[2] - r[6], r[3] - r[1]},
      {r[7] - r[5], 0, r[1] + r[3], r[2] + r[6]},
      {r[2] - r[6], r[1] + r[3], 0, r[5] + r[7]},
      {r[3] - r[1], r[2] + r[6], r[5] + r[7], 0},
  };
  const auto k = std::max_element(four_squares, four_squares + 4) - four_squares;
  double q[4];
  for (int i = 0; i < 4; ++i) q[i] = i == k ? four_squares[k] : products[k][i];
  double norm = std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  // One of the two signs: qw >= 0, and at half turns the first component that is not 0 is positive.
  const double* leading = std::find_if(q, q + 4, [](double x) { return x != 0; });
  if (*leading < 0) norm = -norm;
  return {t.position[0],     t.position[1],     t.position[2],    q[0] / norm + 0.0,
          q[1] / norm + 0.0, q[2] / norm + 0.0, q[3] / norm + 0.0};
}

Robot make_robot(std::string_view xml, const RobotOptions& options, const std::string& source) {
  auto chain = std::make_shared<Chain>(model::make_chain(model::parse_urdf(xml, source), options));
  model::finish(*chain);
  return Robot(std::move(chain));
}

}  // namespace

const char* to_string(JointType type) noexcept {
  switch (type) {
    case JointType::revolute: return "revolute";
    case JointType::continuous: return "continuous";
    case JointType::prismatic: return "prismatic";
  }
  return "unknown";
}

Robot Robot::from_urdf_file(const std::string& path, const RobotOptions& options) {
  return make_robot(model::read_text_file(path, "a URDF"), options, path);
}

Robot Robot::from_urdf_text(std::string_view xml, const RobotOptions& options, const std::string& source) {
  return make_robot(xml, options, source);
}

const std::string& Robot::name() const noexcept { return chain_->robot; }
const std::string& Robot::base_link() const noexcept { return chain_->base_link; }
const std::string& Robot::ee_link() const noexcept { return chain_->ee_link; }
const std::string& Robot::ee_frame() const noexcept { return chain_->ee_frame; }
int Robot::dof() const noexcept { return static_cast<int>(chain_->joints.size()); }
const std::vector<JointInfo>& Robot::joints() const noexcept { return chain_->joint_infos; }
const std::map<std::string, double>& Robot::locked_joints() const noexcept { return chain_->locked_joints; }
const std::vector<std::string>& Robot::warnings() const noexcept { return chain_->warnings; }
const std::vector<std::string>& Robot::collision_links() const noexcept { return chain_->spheres.link_names; }
const std::vector<std::array<int, 2>>& Robot::self_pairs() const noexcept { return chain_->spheres.pairs; }
const std::vector<int>& Robot::sphere_links() const noexcept { return chain_->spheres.sphere_links; }
const std::string& Robot::header_text() const noexcept { return chain_->header_text; }

Pose Robot::forward_kinematics(std::span<const double> q) const {
  check(*chain_, q);
  Transform pose;
  for (std::size_t i = 0; i < q.size(); ++i) {
    pose = pose * chain_->joints[i].origin * model::motion(chain_->joints[i], q[i]);
  }
  return to_pose(pose * chain_->tool);
}

std::vector<double> Robot::jacobian(std::span<const double> q) const {
  check(*chain_, q);
  const std::size_t n = q.size();
  std::vector<Transform> frames(n);
  Transform pose;
  for (std::size_t i = 0; i < n; ++i) {
    pose = frames[i] = pose * chain_->joints[i].origin * model::motion(chain_->joints[i], q[i]);
  }
  const Transform tool = pose * chain_->tool;

  std::vector<double> jacobian(6 * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    const model::Joint& joint = chain_->joints[i];
    const Transform& frame = frames[i];
    double z[3], arm[3];  // the axis in the base frame, and the way from the joint to the tool
    for (std::size_t k = 0; k < 3; ++k) {
      const double* row = frame.rotation + 3 * k;
      z[k] = row[0] * joint.axis[0] + row[1] * joint.axis[1] + row[2] * joint.axis[2];
      arm[k] = tool.position[k] - frame.position[k];
    }
    for (std::size_t k = 0; k < 3; ++k) {
      const std::size_t a = (k + 1) % 3, b = (k + 2) % 3;
      const bool slides = joint.info.type == JointType::prismatic;
      jacobian[k * n + i] = slides ? z[k] : z[a] * arm[b] - z[b] * arm[a];
      if (!slides) jacobian[(k + 3) * n + i] = z[k];
    }
  }
  return jacobian;
}

std::vector<std::array<double, 4>> Robot::spheres(std::span<const double> q) const {
  check(*chain_, q);
  std::vector<Transform> frames(q.size() + 1);  // the base's, then the joints'
  for (std::size_t i = 0; i < q.size(); ++i) {
    frames[i + 1] = frames[i] * chain_->joints[i].origin * model::motion(chain_->joints[i], q[i]);
  }
  std::vector<std::array<double, 4>> spheres;
  for (const model::SphereLink& link : chain_->spheres.links) {
    const Transform& frame = frames[static_cast<std::size_t>(link.joint + 1)];
    for (const auto& sphere : link.spheres) spheres.push_back(frame * sphere);
  }
  return spheres;
}

}  // namespace hjcdik
