// Bounds on where a chain can place its tool, by the triangle inequality.
//
// The bound runs over nodes: one point on the axis of each revolute joint, which the joint's own
// rotation leaves in place. Where on its axis a node lies is free, so it is chosen to make the bound
// small. Slides stretch the link they lie in. Two links that meet in a joint are also bounded
// together: their ends' distance depends on that joint alone, between its limits.
#include "model/reach.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/target.h"

namespace hjcdik::model {

namespace {

// What a solution may be off, m and rad.
constexpr double kTolerance = 1e-6;
// Room for rounding in the bounds, relative to the arm's length: a distance near 0 comes from the
// square root of a difference, and so has half the digits.
constexpr double kRounding = 1e-7;

using Vector = std::array<double, 3>;

Vector operator+(const Vector& a, const Vector& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }
Vector operator-(const Vector& a, const Vector& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
Vector operator*(double s, const Vector& a) { return {s * a[0], s * a[1], s * a[2]}; }
double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
double norm(const Vector& a) { return std::sqrt(dot(a, a)); }

Vector rotated(const Transform& t, const Vector& a) {
  Vector result;
  for (std::size_t i = 0; i < 3; ++i) {
    result[i] = t.rotation[3 * i] * a[0] + t.rotation[3 * i + 1] * a[1] + t.rotation[3 * i + 2] * a[2];
  }
  return result;
}
Vector position(const Transform& t) { return {t.position[0], t.position[1], t.position[2]}; }
Vector axis_of(const Joint& joint) { return {joint.axis[0], joint.axis[1], joint.axis[2]}; }

struct Range {
  double low, high;
};

// A link from one node to the next, in the frame of the first.
struct Link {
  Vector middle;     // end of the link, slides at mid-range, both nodes at their joints' origins
  double slack = 0;  // half the slides' ranges, added up
  Transform turn;    // orientation of the second node's frame; its joint at 0
};

struct Node {
  Vector axis{0, 0, 0};  // in the node's own frame; zero for a node that cannot be moved along it
  Range limits{0, 0};    // of the joint's angle
};

struct Nodes {
  std::vector<Node> node;
  std::vector<Link> link;  // one fewer
};

Nodes nodes_of(const Chain& chain) {
  Nodes nodes;
  Transform here;  // from the last node's frame
  Vector middle{0, 0, 0};
  double slack = 0;
  const auto close = [&](const Node& node) {
    if (!nodes.node.empty()) nodes.link.push_back({position(here) + middle, slack, here});
    nodes.node.push_back(node);
    here = Transform{};
    middle = {0, 0, 0};
    slack = 0;
  };

  for (std::size_t i = 0; i < chain.joints.size(); ++i) {
    const Joint& joint = chain.joints[i];
    const JointInfo& info = joint.info;
    if (i > 0) here = here * joint.origin;
    if (info.type == JointType::prismatic) {
      if (i == 0) close(Node{});  // the base, at the first joint's origin
      middle = middle + (info.lower + info.upper) / 2 * rotated(here, axis_of(joint));
      slack += (info.upper - info.lower) / 2;
    } else {
      const bool endless = info.type == JointType::continuous;
      close({axis_of(joint),
             endless ? Range{-std::numbers::pi, std::numbers::pi} : Range{info.lower, info.upper}});
    }
  }
  if (chain.joints.back().info.type == JointType::prismatic) {
    here = here * chain.tool;
    close(Node{});  // the tool
  }
  return nodes;
}

Vector link_vector(const Nodes& nodes, const std::vector<double>& shift, std::size_t j) {
  const Link& link = nodes.link[j];
  return link.middle - shift[j] * nodes.node[j].axis +
         shift[j + 1] * rotated(link.turn, nodes.node[j + 1].axis);
}

// |u + Rot(axis, q) v| for q in the limits.
Range pair_range(const Vector& u, const Vector& v, const Vector& axis, const Range& limits) {
  const Vector along = dot(axis, v) * axis;
  const double a = dot(u, u) + dot(v, v) + 2 * dot(u, along);
  const double b = 2 * dot(u, v - along), c = 2 * dot(u, cross(axis, v));
  const auto squared = [&](double q) { return a + b * std::cos(q) + c * std::sin(q); };
  const double at_low = squared(limits.low), at_high = squared(limits.high);
  Range range{std::min(at_low, at_high), std::max(at_low, at_high)};

  const double top = std::atan2(c, b), turn = 2 * std::numbers::pi;
  const auto inside = [&](double q) { return q + turn * std::ceil((limits.low - q) / turn) <= limits.high; };
  if (inside(top)) range.high = a + std::hypot(b, c);
  if (inside(top + std::numbers::pi)) range.low = a - std::hypot(b, c);
  return {std::sqrt(std::max(range.low, 0.0)), std::sqrt(std::max(range.high, 0.0))};
}

// The distance from the first node to the last.
Range span_of(const Nodes& nodes, const std::vector<double>& shift) {
  const std::size_t links = nodes.link.size();
  std::vector<Range> to_end(links + 1, Range{0, 0});
  for (std::size_t j = links; j-- > 0;) {
    const Vector u = link_vector(nodes, shift, j);
    const double slack = nodes.link[j].slack;
    const auto join = [&](Range head, const Range& rest) {
      to_end[j].high = std::min(to_end[j].high, head.high + rest.high);
      to_end[j].low = std::max({to_end[j].low, head.low - rest.high, rest.low - head.high});
    };
    to_end[j] = {0, std::numeric_limits<double>::infinity()};
    join({norm(u) - slack, norm(u) + slack}, to_end[j + 1]);
    if (j + 1 < links) {
      const Transform& turn = nodes.link[j].turn;
      const double both = slack + nodes.link[j + 1].slack;
      Range pair = pair_range(u, rotated(turn, link_vector(nodes, shift, j + 1)),
                              rotated(turn, nodes.node[j + 1].axis), nodes.node[j + 1].limits);
      join({pair.low - both, pair.high + both}, to_end[j + 2]);
    }
  }
  return to_end[0];
}

// Where on the axis of node j it comes nearest to the axis of its neighbour k (before or after it).
double foot(const Nodes& nodes, std::size_t j, std::size_t k) {
  const Link& link = nodes.link[std::min(j, k)];
  const Vector first = nodes.node[std::min(j, k)].axis,
               second = rotated(link.turn, nodes.node[std::max(j, k)].axis);
  const double cosine = dot(first, second);
  const double determinant = dot(first, first) * dot(second, second) - cosine * cosine;
  const double along_first = dot(first, link.middle), along_second = dot(second, link.middle);
  // Parallel axes: the foot of the neighbour's origin.
  if (determinant < 1e-6) return j < k ? along_first : -along_second;
  return j < k ? (along_first - cosine * along_second) / determinant
               : (cosine * along_first - along_second) / determinant;
}

// Tries for each node the feet of the common normals with its neighbours' axes, and keeps what
// lowers the bound. Any choice is sound.
std::vector<double> best_shifts(const Nodes& nodes) {
  const std::size_t count = nodes.node.size();
  std::vector<double> shift(count, 0);
  const auto moves = [&](std::size_t j) { return dot(nodes.node[j].axis, nodes.node[j].axis) > 0; };
  if (count < 2) return shift;
  double best = span_of(nodes, shift).high;
  for (int sweep = 0; sweep < 3; ++sweep) {
    for (std::size_t j = 0; j < count; ++j) {
      if (!moves(j)) continue;
      std::vector<double> tries = {0};
      if (j > 0) tries.push_back(foot(nodes, j, j - 1));
      if (j + 1 < count) tries.push_back(foot(nodes, j, j + 1));
      for (const double candidate : tries) {
        const double before = shift[j];
        shift[j] = candidate;
        const double bound = span_of(nodes, shift).high;
        if (bound < best) {
          best = bound;
        } else {
          shift[j] = before;
        }
      }
    }
  }
  return shift;
}

}  // namespace

void set_reach(Chain& chain) {
  // The plain sum, from joint origin to joint origin.
  chain.length = 0;
  for (std::size_t i = 0; i < chain.joints.size(); ++i) {
    const Joint& joint = chain.joints[i];
    const Vector next = position(i + 1 < chain.joints.size() ? chain.joints[i + 1].origin : chain.tool);
    const bool slides = joint.info.type == JointType::prismatic;
    const auto drawn = [&](double q) { return norm(next + (slides ? q : 0.0) * axis_of(joint)); };
    chain.length += std::max(drawn(joint.info.lower), drawn(joint.info.upper));
  }
  chain.reach.radius = chain.length * (1 + kRounding) + kTolerance;

  const Nodes nodes = nodes_of(chain);
  const std::vector<double> shift = best_shifts(nodes);
  const Range span = span_of(nodes, shift);
  const Joint& first = chain.joints.front();
  const Joint& last = chain.joints.back();
  const Vector anchor =
      position(first.origin) + shift.front() * rotated(first.origin, nodes.node.front().axis);
  Vector wrist{0, 0, 0};
  if (last.info.type != JointType::prismatic) {
    const Transform from_tool = inverse(chain.tool);
    wrist = position(from_tool) + shift.back() * rotated(from_tool, axis_of(last));
  }
  std::copy(anchor.begin(), anchor.end(), chain.reach.anchor);
  std::copy(wrist.begin(), wrist.end(), chain.reach.wrist);
  const double room = kRounding * chain.length + kTolerance * (1 + norm(wrist));
  chain.reach.span[0] = std::max(span.low - room, 0.0);
  chain.reach.span[1] = span.high + room;
}

bool may_reach(const Chain& chain, const double position[3], const double rotation[9]) {
  return core::may_reach(chain.reach, position, rotation, chain.constants.start);
}

}  // namespace hjcdik::model
