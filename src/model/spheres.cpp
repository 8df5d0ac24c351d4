#include "model/spheres.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/names.hpp"
#include "model/sphere_files.hpp"

namespace hjcdik::model {

namespace {

// Beyond it float32 cannot tell positions apart; such figures are slips.
constexpr double kLargestPlace = 1e4;  // m

// Where a link hangs.
struct Place {
  int joint = -1;       // of the chain
  Transform frame;      // the link in the joint's frame
  int held_joints = 0;  // between them, those that could move
};

Place place_of(const Chain& chain, const Urdf& urdf, const std::vector<std::optional<double>>& held,
               int link) {
  Place place;
  for (int j = urdf.links[link].parent_joint; j >= 0; j = urdf.links[urdf.joints[j].parent].parent_joint) {
    const UrdfJoint& joint = urdf.joints[j];
    if (!held[j]) {
      const auto same = [&](const Joint& moving) { return moving.info.name == joint.name; };
      place.joint = static_cast<int>(std::find_if(chain.joints.begin(), chain.joints.end(), same) -
                                     chain.joints.begin());
      break;
    }
    place.frame =
        joint.moves() ? joint.origin * motion(joint, *held[j]) * place.frame : joint.origin * place.frame;
    if (joint.type != UrdfJointType::fixed) ++place.held_joints;
  }
  return place;
}

// A link with what decides on its pairs.
struct Candidate {
  SphereLink link;
  int held_joints;
};

std::vector<std::array<double, 4>> placed(const SphereFile& file, const LinkSpheres& from,
                                          const Transform& frame) {
  std::vector<std::array<double, 4>> spheres;
  for (const auto& sphere : from.spheres) {
    spheres.push_back(frame * sphere);
    for (const double x : spheres.back()) {
      if (std::abs(x) <= kLargestPlace) continue;
      throw ModelError(file.source, from.line, "link " + in_quotes(from.link),
                       "sphere " + std::to_string(spheres.size() - 1) + " is too large or too far off; " +
                           "lengths are in metres, at most " + to_text(kLargestPlace));
    }
  }
  return spheres;
}

[[noreturn]] void fail_unknown(const SphereFile& file, const LinkSpheres& link, const Urdf& urdf) {
  std::vector<std::string> names;
  for (const UrdfLink& other : urdf.links) names.push_back(other.name);
  throw ModelError(file.source, link.line, "link " + in_quotes(link.link),
                   "the robot of " + urdf.source + " has no such link; the nearest names are " +
                       nearest_names(link.link, names) +
                       ". A JSON file may keep what the robot lacks in base_links_not_checked");
}

// The links that are checked, from base to tool.
std::vector<Candidate> candidates(Chain& chain, const Urdf& urdf,
                                  const std::vector<std::optional<double>>& held, const SphereFile& file,
                                  bool check_base) {
  std::vector<std::pair<int, Candidate>> found;  // by the link's place in the URDF
  for (const LinkSpheres& from : file.links) {
    const bool listed = file.not_checked.contains(from.link);
    const int link = find_link(urdf, from.link);
    if (link < 0) {
      if (listed) continue;
      fail_unknown(file, from, urdf);
    }
    const Place place = place_of(chain, urdf, held, link);
    const bool is_base = place.joint < 0 && place.held_joints == 0;
    if (!check_base && (is_base || (listed && place.joint < 0))) continue;
    if (listed && place.joint >= 0) {
      chain.warnings.push_back(file.source + ": base_links_not_checked names link " + in_quotes(from.link) +
                               ", which moves here; it is checked");
    }
    found.push_back(
        {link, {{from.link, place.joint, is_base, placed(file, from, place.frame)}, place.held_joints}});
  }
  // Independent of the order of the file.
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.link.joint, a.first) < std::pair(b.second.link.joint, b.first);
  });
  std::vector<Candidate> links;
  for (auto& [order, link] : found) links.push_back(std::move(link));
  return links;
}

void check_count(const SphereFile& file, const std::vector<Candidate>& links) {
  std::size_t count = 0;
  for (const Candidate& candidate : links) count += candidate.link.spheres.size();
  if (count <= kMostSpheres) return;
  throw ModelError(file.source, 0, "spheres",
                   std::to_string(count) + " spheres are to be checked; at most " +
                       std::to_string(kMostSpheres) + " are supported: use fewer, larger ones");
}

// By what moves them; b does not hang on an earlier joint than a. Links on one joint stay as they are, and
// those on neighbouring joints meet at the joint between. What stands still counts as joint -1.
bool move_apart(const Candidate& a, const Candidate& b) {
  if (b.link.joint >= 0) return b.link.joint - a.link.joint > 1;
  // Something is wrong where a lock folds the robot into its own base, but for the link next to that.
  return a.link.is_base != b.link.is_base && std::max(a.held_joints, b.held_joints) > 1;
}

}  // namespace

void set_spheres(Chain& chain, const Urdf& urdf, const std::vector<std::optional<double>>& held,
                 const RobotOptions& options) {
  if (options.spheres.empty() || options.spheres == "none") return;
  SphereFile file = read_spheres(options, urdf);
  chain.warnings.insert(chain.warnings.end(), file.warnings.begin(), file.warnings.end());
  if (!options.srdf.empty()) file.ignored.merge(read_srdf(options));

  const std::vector<Candidate> links = candidates(chain, urdf, held, file, options.check_base);
  check_count(file, links);
  SphereModel& model = chain.spheres;
  model.source = file.source;
  for (std::size_t b = 0; b < links.size(); ++b) {
    const SphereLink& link = links[b].link;
    for (std::size_t a = 0; a < b; ++a) {
      if (!move_apart(links[a], links[b])) continue;
      if (file.ignored.contains(name_pair(links[a].link.name, link.name))) continue;
      model.pairs.push_back({static_cast<int>(a), static_cast<int>(b)});
    }
    model.links.push_back(link);
    model.link_names.push_back(link.name);
    model.sphere_links.insert(model.sphere_links.end(), link.spheres.size(), static_cast<int>(b));
  }
  std::sort(model.pairs.begin(), model.pairs.end());
  warn_of_overlaps(chain);
}

}  // namespace hjcdik::model
