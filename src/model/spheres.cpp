#include "model/spheres.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "model/names.hpp"
#include "model/sphere_files.hpp"

namespace hjcdik::model {

namespace {

// Beyond it float32 cannot tell positions apart; such figures are slips.
constexpr double kLargestPlace = 1e4;  // m
constexpr std::size_t kMostListed = 4;

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

std::vector<std::string> names_of(const Urdf& urdf) {
  std::vector<std::string> names;
  for (const UrdfLink& link : urdf.links) names.push_back(link.name);
  return names;
}

[[noreturn]] void fail_unknown(const SphereFile& file, const LinkSpheres& link, const Urdf& urdf) {
  throw ModelError(file.source, link.line, "link " + in_quotes(link.link),
                   "the robot of " + urdf.source + " has no such link; the nearest names are " +
                       nearest_names(link.link, names_of(urdf)) +
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

// Nothing would be checked of a robot that its user believes to be.
[[noreturn]] void fail_of_base_only(const SphereFile& file) {
  std::string names;
  for (std::size_t i = 0; i < std::min(file.links.size(), kMostListed); ++i) {
    names += (i > 0 ? ", " : "") + in_quotes(file.links[i].link);
  }
  if (file.links.size() > kMostListed) {
    names += " and " + std::to_string(file.links.size() - kMostListed) + " more";
  }
  throw ModelError(file.source, 0, "",
                   "no link that is checked has spheres: there are some for " + names +
                       " alone, which the base holds; give some to links that move, or pass \"none\" for no "
                       "spheres");
}

// `pairs`, which `where` excludes, may name what cannot be meant. `known`: links that the robot may lack.
void warn_of_no_effect(Chain& chain, const Urdf& urdf, const std::string& where,
                       const std::set<NamePair>& pairs, const std::set<std::string>& known) {
  const std::vector<std::string> names = names_of(urdf);
  std::set<std::string> unknown, meant(names.begin(), names.end());
  std::string first;
  std::vector<std::string> found;
  for (const auto& [a, b] : pairs) {
    for (const std::string& name : {a, b}) {
      if (meant.contains(name) || known.contains(name)) continue;
      if (!unknown.insert(name).second) continue;
      if (found.empty()) first = name;
      found.push_back(in_quotes(name));
    }
  }
  for (const auto& [a, b] : pairs) {
    if (a == b && !unknown.contains(a)) found.push_back(in_quotes(a) + " with itself");
  }
  if (found.empty()) return;
  std::string text = where + " has entries without effect: ";
  for (std::size_t i = 0; i < std::min(found.size(), kMostListed); ++i) {
    text += (i > 0 ? ", " : "") + found[i];
  }
  if (found.size() > kMostListed) text += " and " + std::to_string(found.size() - kMostListed) + " more";
  if (!unknown.empty()) {
    text += "; the robot of " + urdf.source + " has no link " + found[0] + ", the nearest names are " +
            nearest_names(first, names);
  }
  chain.warnings.push_back(text);
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
  if (options.spheres.empty() || options.spheres == "none") {
    const std::string reason = " has no effect: the robot has no collision spheres";
    if (!options.srdf.empty()) chain.warnings.push_back(srdf_source(options) + ": the SRDF" + reason);
    if (options.check_base) chain.warnings.push_back("check_base" + reason);
    return;
  }
  SphereFile file = read_spheres(options, urdf);
  chain.warnings.insert(chain.warnings.end(), file.warnings.begin(), file.warnings.end());
  warn_of_no_effect(chain, urdf, file.source + ": self_collision_ignore_pairs", file.ignored,
                    file.not_checked);
  if (!options.srdf.empty()) {
    const std::string source = srdf_source(options);
    Srdf srdf = read_srdf(options);
    if (!srdf.robot.empty() && srdf.robot != urdf.robot) {
      chain.warnings.push_back(source + ": is for robot " + in_quotes(srdf.robot) + ", but that of " +
                               urdf.source + " is " + in_quotes(urdf.robot));
    }
    warn_of_no_effect(chain, urdf, source + ": disable_collisions", srdf.ignored, file.not_checked);
    file.ignored.merge(srdf.ignored);
  }

  const std::vector<Candidate> links = candidates(chain, urdf, held, file, options.check_base);
  if (links.empty()) fail_of_base_only(file);
  const auto needs_check_base = [&](const Candidate& c) {
    return c.link.is_base || (c.link.joint < 0 && file.not_checked.contains(c.link.name));
  };
  if (options.check_base && std::none_of(links.begin(), links.end(), needs_check_base)) {
    chain.warnings.push_back(file.source + ": check_base has no effect: no link of the base has spheres");
  }
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
