// Collision spheres: what is read, which links and pairs are checked, where the spheres are, and what is
// refused with which words.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <unistd.h>

#include "model/spheres.hpp"
#include "model/urdf_builder.hpp"

namespace hjcdik {
namespace {

using namespace test;
using Names = std::vector<std::string>;
using NamePairs = std::set<std::pair<std::string, std::string>>;

NamePairs pairs_of(const Robot& robot) {
  NamePairs names;
  for (const auto& [a, b] : robot.self_pairs()) {
    EXPECT_LT(a, b);
    const std::string &one = robot.collision_links()[a], &other = robot.collision_links()[b];
    names.insert({std::min(one, other), std::max(one, other)});
  }
  EXPECT_EQ(names.size(), robot.self_pairs().size());
  return names;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A robot with branches. Chain: base -j1- l1 -j2- l2 -weld- l2b -j3- l3 -j4- l4 (z joints 1 m apart along x).
// Held: mast and lamp beyond it on the base, a finger on l2b. Welded to the base: foot.
const std::string kHalf = "<axis xyz=\"0 0 1\"/><limit lower=\"-1.5\" upper=\"1.5\"/>";
std::string at(const std::string& xyz) { return "<origin xyz=\"" + xyz + "\"/>"; }

std::string branched(const std::string& extra = "") {
  std::string text;
  for (const char* name : {"base", "foot", "l1", "l2", "l2b", "l3", "l4", "mast", "lamp", "finger"}) {
    text += link(name);
  }
  return robot(text + joint("foot_weld", "fixed", "base", "foot", at("0 0 -1")) +
               joint("j1", "revolute", "base", "l1", kHalf) +
               joint("j2", "revolute", "l1", "l2", at("1 0 0") + kHalf) +
               joint("weld", "fixed", "l2", "l2b", at("0 0 0.25")) +
               joint("j3", "revolute", "l2b", "l3", at("1 0 -0.25") + kHalf) +
               joint("j4", "revolute", "l3", "l4", at("1 0 0") + kHalf) +
               joint("mast_joint", "revolute", "base", "mast", at("0 5 0") + kHalf) +
               joint("lamp_joint", "prismatic", "mast", "lamp",
                     at("0 0 1") + "<axis xyz=\"1 0 0\"/><limit lower=\"0.5\" upper=\"1\"/>") +
               joint("finger_joint", "prismatic", "l2b", "finger",
                     "<axis xyz=\"0 1 0\"/><limit lower=\"-1\" upper=\"1\"/>") +
               extra);
}

// {"spheres": {"l1": [[0, 0, 0, 0.1]], ...}, rest}
std::string json_of(const Names& links, const std::string& rest = "") {
  std::string text = "{\"spheres\": {";
  for (const std::string& name : links) {
    text += (&name == &links[0] ? "\n\"" : ",\n\"") + name + "\": [[0, 0, 0, 0.1]]";
  }
  return text + "}" + rest + "}";
}

Robot with_spheres(const std::string& urdf, RobotOptions options) {
  if (options.ee_link.empty()) options.ee_link = "l4";
  if (options.spheres_source.empty()) options.spheres_source = "test.json";
  return Robot::from_urdf_text(urdf, options, "test.urdf");
}

ModelError spheres_error(const std::string& urdf, const RobotOptions& options, const Names& parts) {
  try {
    with_spheres(urdf, options);
  } catch (const ModelError& error) {
    for (const std::string& part : parts) {
      EXPECT_TRUE(contains(error.what(), part)) << part << " not in: " << error.what();
    }
    return error;
  }
  ADD_FAILURE() << "loaded:\n" << options.spheres;
  return ModelError("", 0, "", "");
}

ModelError json_error(const std::string& json, const Names& parts) {
  const ModelError error = spheres_error(branched(), {.spheres = json}, parts);
  EXPECT_EQ(error.file(), "test.json");
  return error;
}

const Names kAll = {"base", "foot", "l1", "l2", "l2b", "l3", "l4", "mast", "lamp", "finger"};

// --- Packaged models ---

TEST(SpherePresets, Counts) {
  struct Expected {
    const char* name;
    std::size_t spheres, pairs, all_spheres, all_pairs;  // all: with check_base
  };
  const Expected expected[] = {{"panda_foam", 58, 30, 59, 39},
                               {"panda_curobo", 59, 20, 61, 28},
                               {"iiwa14", 148, 14, 148, 14},
                               {"ur5e", 112, 9, 112, 9}};
  ASSERT_EQ(sphere_presets().size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const SpherePresetInfo& info = sphere_presets()[i];
    EXPECT_EQ(info.name, expected[i].name);
    const Robot some = Robot::preset(info.robot, {.spheres = info.name});
    const Robot all = Robot::preset(info.robot, {.spheres = info.name, .check_base = true});
    EXPECT_EQ(some.sphere_links().size(), expected[i].spheres) << info.name;
    EXPECT_EQ(some.self_pairs().size(), expected[i].pairs) << info.name;
    EXPECT_EQ(all.sphere_links().size(), expected[i].all_spheres) << info.name;
    EXPECT_EQ(all.self_pairs().size(), expected[i].all_pairs) << info.name;
    for (const char* part : {"\"source\"", "\"licence\""}) {
      EXPECT_TRUE(contains(sphere_preset_text(info.name), part));
    }
  }
  EXPECT_THROW(sphere_preset_text("panda"), InvalidArgument);
}

TEST(SpherePresets, RobotsHaveTheirOwn) {
  const auto model_of = [](const char* name, const RobotOptions& options = {}) {
    return Robot::preset(name, options).chain().spheres;
  };
  EXPECT_EQ(model_of("panda").source, "panda_foam.json");
  EXPECT_EQ(model_of("iiwa14").source, "iiwa14.json");
  EXPECT_EQ(model_of("ur5e").source, "ur5e.json");
  EXPECT_TRUE(model_of("fetch").links.empty());
  EXPECT_TRUE(model_of("panda", {.spheres = "none"}).links.empty());
  EXPECT_EQ(model_of("panda", {.ee_link = "panda_hand"}).links.size(), 10u);
  EXPECT_EQ(model_of("panda", {.locked_joints = {{"panda_joint3", 0.25}}}).links.size(), 10u);
  EXPECT_TRUE(Robot::from_urdf_text(preset_urdf("panda"), {"panda_hand"}).collision_links().empty());
  const Robot other =
      Robot::from_urdf_text(preset_urdf("panda"), {.ee_link = "panda_hand", .spheres = "panda_curobo"});
  EXPECT_EQ(other.sphere_links().size(), 59u);
  EXPECT_EQ(other.collision_links().front(), "panda_link1");
  EXPECT_EQ(other.collision_links().back(), "panda_rightfinger");
}

TEST(SpherePresets, FiguresAreThoseOfTheData) {
  const char* data = std::getenv("HJCDIK_TEST_DATA");
  const std::filesystem::path folder =
      (data ? std::filesystem::path(data) : std::filesystem::path(HJCDIK_SOURCE_DIR) / "../shared/data") /
      "spheres";
  if (!std::filesystem::exists(folder))
    GTEST_SKIP() << "no spheres in " << folder << "; set HJCDIK_TEST_DATA";
  const std::pair<const char*, const char*> files[] = {{"panda_foam", "panda_foam.json"},
                                                       {"panda_curobo", "panda_curobo.json"},
                                                       {"iiwa14", "iiwa14_fitted.json"},
                                                       {"ur5e", "ur5e_fitted.json"}};
  for (const SpherePresetInfo& info : sphere_presets()) {
    const auto file = std::find_if(std::begin(files), std::end(files),
                                   [&](const auto& entry) { return entry.first == info.name; });
    const Robot packaged = Robot::preset(info.robot, {.spheres = info.name, .check_base = true});
    const Robot read =
        Robot::preset(info.robot, {.spheres = (folder / file->second).string(), .check_base = true});
    EXPECT_EQ(packaged.collision_links(), read.collision_links());
    EXPECT_EQ(packaged.self_pairs(), read.self_pairs());
    const std::vector<double> q(static_cast<std::size_t>(read.dof()), 0.1);
    EXPECT_EQ(packaged.spheres(q), read.spheres(q));
    // Only cuRobo's file has buffers.
    const bool buffers = std::any_of(read.warnings().begin(), read.warnings().end(), [](const auto& warning) {
      return contains(warning, "self_collision_buffer_m is not applied");
    });
    EXPECT_EQ(buffers, info.name == "panda_curobo");
  }
}

TEST(SpherePresets, UnknownNames) {
  spheres_error(branched(), {.spheres = "panda_fom"}, {"panda_fom: spheres: ", "'panda_foam', "});
  spheres_error(branched(), {.spheres = "panda_foam"}, {"panda_foam.json:", "link 'panda_link1'"});
  spheres_error(branched(), {.spheres = "x" + json_of({"l1"})}, {"test.json: neither a path nor JSON"});
  spheres_error(branched(), {.spheres = "no/such.json"}, {"no/such.json: the file does not exist"});
}

// --- Where spheres are ---

// 4 x 4 matrices, written out once more: nothing of the library.
struct Matrix {
  double m[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
  friend Matrix operator*(const Matrix& a, const Matrix& b) {
    Matrix c;
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        c.m[i][j] = 0;
        for (int k = 0; k < 4; ++k) c.m[i][j] += a.m[i][k] * b.m[k][j];
      }
    }
    return c;
  }
};

Matrix moved_by(double x, double y, double z) {
  Matrix result;
  result.m[0][3] = x, result.m[1][3] = y, result.m[2][3] = z;
  return result;
}

Matrix turned_about(int axis, double angle) {
  Matrix result;
  const int a = (axis + 1) % 3, b = (axis + 2) % 3;
  result.m[a][a] = result.m[b][b] = std::cos(angle);
  result.m[b][a] = std::sin(angle);
  result.m[a][b] = -std::sin(angle);
  return result;
}

// A random tree: every link hangs on an earlier one by a joint of any type about or along a main axis.
struct Tree {
  struct Link {
    int parent = -1;
    std::string type;
    double xyz[3], rpy[3], sphere[4];
    int axis;
    double value = 0;  // of its joint: q, or where it is held
    bool locked = false;
  };
  std::vector<Link> links;

  explicit Tree(std::mt19937_64& random) {
    const auto uniform = [&](double low, double high) {
      return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
    };
    const int count = 5 + static_cast<int>(random() % 12);
    for (int i = 0; i < count; ++i) {
      Link link;
      // Mostly a chain, with branches.
      if (i > 0) {
        link.parent = random() % 3 ? i - 1 : static_cast<int>(random() % static_cast<std::uint64_t>(i));
      }
      const char* types[] = {"fixed", "revolute", "prismatic", "continuous"};
      link.type = types[random() % 4];
      for (double& x : link.xyz) x = uniform(-1, 1);
      for (double& x : link.rpy) x = uniform(-3, 3);
      for (double& x : link.sphere) x = uniform(-0.2, 0.2);
      link.sphere[3] = uniform(0.01, 0.05);
      link.axis = static_cast<int>(random() % 3);
      if (link.type != "fixed") link.value = uniform(-1, 1);
      links.push_back(link);
    }
    for (int i = tool(); i > 0; i = links[i].parent) links[i].locked = random() % 5 == 0;
  }

  int tool() const { return static_cast<int>(links.size()) - 1; }
  bool on_chain(int link) const {
    for (int i = tool(); i > 0; i = links[i].parent) {
      if (i == link) return true;
    }
    return false;
  }
  bool moves(int i) const { return i > 0 && links[i].type != "fixed" && !links[i].locked && on_chain(i); }

  std::string urdf() const {
    const auto triple = [](const double* x) {
      return "\"" + model::to_text(x[0]) + " " + model::to_text(x[1]) + " " + model::to_text(x[2]) + "\"";
    };
    std::string text;
    for (std::size_t i = 0; i < links.size(); ++i) text += link("l" + std::to_string(i));
    for (std::size_t i = 1; i < links.size(); ++i) {
      const Link& l = links[i];
      const double axis[] = {l.axis == 0 ? 1.0 : 0.0, l.axis == 1 ? 1.0 : 0.0, l.axis == 2 ? 1.0 : 0.0};
      text += joint("j" + std::to_string(i), l.type, "l" + std::to_string(l.parent), "l" + std::to_string(i),
                    "<origin xyz=" + triple(l.xyz) + " rpy=" + triple(l.rpy) + "/><axis xyz=" + triple(axis) +
                        "/><limit lower=\"-2\" upper=\"2\"/>");
    }
    return robot(text);
  }

  RobotOptions options(bool check_base) const {
    RobotOptions result;
    result.ee_link = "l" + std::to_string(tool());
    for (std::size_t i = 1; i < links.size(); ++i) {
      if (links[i].type != "fixed" && !moves(static_cast<int>(i))) {
        result.locked_joints["j" + std::to_string(i)] = links[i].value;
      }
    }
    // Last link first: the order of the file must not matter.
    for (std::size_t i = links.size(); i-- > 0;) {
      const double* s = links[i].sphere;
      result.spheres += (result.spheres.empty() ? "{\"spheres\": {" : ", ") + ("\"l" + std::to_string(i)) +
                        "\": [[" + model::to_text(s[0]) + ", " + model::to_text(s[1]) + ", " +
                        model::to_text(s[2]) + ", " + model::to_text(s[3]) + "]]";
    }
    result.spheres += "}}";
    result.check_base = check_base;
    return result;
  }

  Matrix frame(int i) const {
    if (i == 0) return {};
    const Link& l = links[i];
    const double slide = l.type == "prismatic" ? l.value : 0;
    return frame(l.parent) * moved_by(l.xyz[0], l.xyz[1], l.xyz[2]) * turned_about(2, l.rpy[2]) *
           turned_about(1, l.rpy[1]) * turned_about(0, l.rpy[0]) *
           moved_by(l.axis == 0 ? slide : 0, l.axis == 1 ? slide : 0, l.axis == 2 ? slide : 0) *
           turned_about(l.axis, l.type == "prismatic" ? 0 : l.value);
  }

  // Chain joints and held joints between link i and the root, held ones up to the first of the chain.
  std::pair<int, int> joints_below(int i) const {
    int moving = 0, held = 0;
    for (; i > 0; i = links[i].parent) {
      if (moves(i)) ++moving;
      if (links[i].type != "fixed" && !moves(i) && moving == 0) ++held;
    }
    return {moving, held};
  }
};

TEST(Spheres, RandomTreesAgainstPlainMatrices) {
  std::mt19937_64 random(20261202);
  int loaded = 0, with_held = 0, with_pairs = 0;
  for (int repeat = 0; repeat < 400; ++repeat) {
    const Tree tree(random);
    const bool check_base = repeat % 2;
    const int n = static_cast<int>(tree.links.size());
    if (tree.joints_below(tree.tool()).first == 0) continue;  // nothing moves
    ++loaded;
    const Robot arm = Robot::from_urdf_text(tree.urdf(), tree.options(check_base));
    std::vector<double> q;
    for (int i = 0; i < n; ++i) {
      if (tree.moves(i)) q.push_back(tree.links[i].value);
    }
    ASSERT_EQ(q.size(), static_cast<std::size_t>(arm.dof()));

    const std::vector<std::array<double, 4>> spheres = arm.spheres(q);
    ASSERT_EQ(spheres.size(), arm.collision_links().size());
    Names expected;
    NamePairs pairs;
    for (int i = 0; i < n; ++i) {
      const auto [moving, held] = tree.joints_below(i);
      with_held += held > 0;
      const std::string name = "l" + std::to_string(i);
      const auto found = std::find(arm.collision_links().begin(), arm.collision_links().end(), name);
      const bool is_base = moving == 0 && held == 0;
      ASSERT_EQ(found != arm.collision_links().end(), check_base || !is_base) << name;
      if (found == arm.collision_links().end()) continue;
      const auto at = static_cast<std::size_t>(found - arm.collision_links().begin());
      EXPECT_EQ(arm.sphere_links()[at], static_cast<int>(at));
      EXPECT_EQ(arm.chain().spheres.links[at].joint, moving - 1);
      EXPECT_EQ(arm.chain().spheres.links[at].is_base, is_base);
      const double* s = tree.links[i].sphere;
      const Matrix place = tree.frame(i) * moved_by(s[0], s[1], s[2]);
      for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(spheres[at][k], place.m[k][3], 1e-12);
      EXPECT_EQ(spheres[at][3], s[3]);

      for (int k = 0; k < i; ++k) {
        const auto [other_moving, other_held] = tree.joints_below(k);
        const bool other_base = other_moving == 0 && other_held == 0;
        if (!check_base && (is_base || other_base)) continue;
        const bool far = std::abs(moving - other_moving) > 1;
        const bool folded =
            moving == 0 && other_moving == 0 && ((is_base && other_held > 1) || (other_base && held > 1));
        const std::string other = "l" + std::to_string(k);
        if (far || folded) pairs.insert({std::min(name, other), std::max(name, other)});
      }
    }
    EXPECT_EQ(pairs_of(arm), pairs) << tree.urdf();
    with_pairs += !pairs.empty();
    EXPECT_TRUE(std::is_sorted(
        arm.chain().spheres.links.begin(), arm.chain().spheres.links.end(),
        [](const model::SphereLink& a, const model::SphereLink& b) { return a.joint < b.joint; }));
  }
  EXPECT_GT(loaded, 200);
  EXPECT_GT(with_held, 200);
  EXPECT_GT(with_pairs, 100);
}

TEST(Spheres, AtQ) {
  const Robot arm = with_spheres(branched(), {.spheres = json_of({"l2b", "lamp", "finger"})});
  // lamp_joint is held at 0.5, the nearest to 0.
  EXPECT_EQ(arm.collision_links(), (Names{"lamp", "l2b", "finger"}));
  const double quarter = 1.5707963267948966;
  const auto spheres = arm.spheres(std::vector<double>{quarter / 2, quarter / 2, 0, 0});
  const double s = std::sqrt(0.5);
  const double expected[][4] = {{0.5, 5, 1, 0.1}, {s, s, 0.25, 0.1}, {s, s, 0.25, 0.1}};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(spheres[i][k], expected[i][k], 1e-12);
  }
  EXPECT_THROW(arm.spheres(std::vector<double>{0, 0}), InvalidArgument);
  EXPECT_THROW(arm.spheres(std::vector<double>{0, 0, NAN, 0}), InvalidArgument);
  EXPECT_TRUE(load(branched(), "l4").spheres(std::vector<double>(4)).empty());
}

// --- Links and pairs ---

TEST(SpherePairs, DefaultRule) {
  const Robot arm = with_spheres(branched(), {.spheres = json_of(kAll)});
  EXPECT_EQ(arm.collision_links(), (Names{"mast", "lamp", "l1", "l2", "l2b", "finger", "l3", "l4"}));
  const NamePairs expected = {{"l2", "mast"}, {"l2b", "mast"}, {"finger", "mast"}, {"l3", "mast"},
                              {"l4", "mast"}, {"l2", "lamp"},  {"l2b", "lamp"},    {"finger", "lamp"},
                              {"l3", "lamp"}, {"l4", "lamp"},  {"l1", "l3"},       {"l1", "l4"},
                              {"l2", "l4"},   {"l2b", "l4"},   {"finger", "l4"}};
  EXPECT_EQ(pairs_of(arm), expected);
}

TEST(SpherePairs, CheckBase) {
  const NamePairs before = pairs_of(with_spheres(branched(), {.spheres = json_of(kAll)}));
  const Robot arm = with_spheres(branched(), {.spheres = json_of(kAll), .check_base = true});
  EXPECT_EQ(arm.collision_links().size(), kAll.size());
  NamePairs expected = before;
  // Not l1, which the first joint moves, nor the mast, which one held joint carries; but the lamp.
  for (const std::string base : {"base", "foot"}) {
    for (const std::string other : {"l2", "l2b", "finger", "l3", "l4", "lamp"}) {
      expected.insert({std::min(base, other), std::max(base, other)});
    }
  }
  EXPECT_EQ(pairs_of(arm), expected);
}

TEST(SpherePairs, LockedOnTheChain) {
  const Robot arm = with_spheres(
      branched(), {.locked_joints = {{"j2", 0.5}}, .spheres = json_of({"l1", "l2", "l3", "l4"})});
  const auto& links = arm.chain().spheres.links;
  const int joints[] = {0, 0, 1, 2};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(links[i].joint, joints[i]);
  EXPECT_EQ(pairs_of(arm), (NamePairs{{"l1", "l4"}, {"l2", "l4"}}));
  EXPECT_NEAR(links[1].spheres[0][0], 1, 1e-15);

  // With the first joint locked, its link stands still, but is no base.
  const Robot held = with_spheres(
      branched(), {.locked_joints = {{"j1", 0.5}}, .spheres = json_of({"base", "l1", "l2", "l3"})});
  EXPECT_EQ(held.collision_links(), (Names{"l1", "l2", "l3"}));
  EXPECT_EQ(held.chain().spheres.links[0].joint, -1);
  EXPECT_FALSE(held.chain().spheres.links[0].is_base);
  EXPECT_EQ(pairs_of(held), (NamePairs{{"l1", "l3"}}));
}

TEST(SpherePairs, IgnoredByTheFile) {
  const std::string rest =
      ", \"self_collision_ignore_pairs\": [[\"l4\", \"l1\"], [\"l1\", \"nobody\"], [\"foot\", \"l4\"]]";
  const Robot arm = with_spheres(branched(), {.spheres = json_of({"l1", "l2", "l3", "l4"}, rest)});
  EXPECT_EQ(pairs_of(arm), (NamePairs{{"l1", "l3"}, {"l2", "l4"}}));
  ASSERT_EQ(arm.warnings().size(), 1u);
  EXPECT_TRUE(
      contains(arm.warnings()[0],
               "test.json: self_collision_ignore_pairs has entries without effect: 'nobody'; the robot "
               "of test.urdf has no link 'nobody', the nearest names are '"))
      << arm.warnings()[0];

  // What the file itself leaves out need not be there.
  const std::string absent =
      ", \"self_collision_ignore_pairs\": [[\"l4\", \"absent\"]], \"base_links_not_checked\": [\"absent\"]";
  EXPECT_TRUE(with_spheres(branched(), {.spheres = json_of({"l1", "l4"}, absent)}).warnings().empty());
}

TEST(SpherePairs, WithoutEffect) {
  const RobotOptions options = {
      .spheres = json_of({"l1", "l4"},
                         ", \"self_collision_ignore_pairs\": [[\"l1\", \"l1\"], [\"l4\", \"l4\"], "
                         "[\"L3x\", \"b\"], [\"b\", \"b\"], [\"b\", \"c\"], [\"c\", \"l1\"]]"),
      .srdf = "<robot name=\"other\"><disable_collisions link1=\"l1\" link2=\"l1\"/></robot>",
      .srdf_source = "test.srdf",
      .check_base = true};
  const Names warnings = with_spheres(branched(), options).warnings();
  ASSERT_EQ(warnings.size(), 4u);
  EXPECT_TRUE(
      contains(warnings[0], "without effect: 'L3x', 'b', 'c', 'l1' with itself and 1 more; the robot"))
      << warnings[0];
  EXPECT_TRUE(contains(warnings[0], "no link 'L3x', the nearest names are 'l3'")) << warnings[0];
  EXPECT_EQ(warnings[1], "test.srdf: is for robot 'other', but that of test.urdf is 'r'");
  EXPECT_EQ(warnings[2], "test.srdf: disable_collisions has entries without effect: 'l1' with itself");
  EXPECT_EQ(warnings[3], "test.json: check_base has no effect: no link of the base has spheres");

  const Names none =
      with_spheres(branched(), {.srdf = options.srdf, .srdf_source = "test.srdf", .check_base = true})
          .warnings();
  EXPECT_EQ(none, (Names{"test.srdf: the SRDF has no effect: the robot has no collision spheres",
                         "check_base has no effect: the robot has no collision spheres"}));
}

TEST(SphereLinks, OfTheBaseOnly) {
  const RobotOptions options = {.spheres = json_of({"base", "foot"})};
  spheres_error(branched(), options,
                {"test.json: no link that is checked has spheres", "'base', 'foot' alone"});
  RobotOptions with_base = options;
  with_base.check_base = true;
  EXPECT_EQ(with_spheres(branched(), with_base).collision_links(), (Names{"base", "foot"}));
  const std::string listed = ", \"base_links_not_checked\": [\"absent\", \"mast\"]";
  const RobotOptions held = {.spheres = json_of({"absent", "mast"}, listed)};
  spheres_error(branched(), held, {"no link that is checked has spheres"});
}

TEST(SpherePairs, IgnoredByAnSrdf) {
  const std::string srdf =
      "<?xml version=\"1.0\"?>\n<robot name=\"r\">\n<group name=\"arm\"/>\n"
      "<disable_collisions link1=\"l1\" link2=\"l4\" reason=\"Never\"/>\n"
      "<disable_collisions link1=\"l1\" link2=\"nobody\"/>\n</robot>";
  const RobotOptions options = {
      .spheres = json_of({"l1", "l2", "l3", "l4"}, ", \"self_collision_ignore_pairs\": [[\"l2\", \"l4\"]]"),
      .srdf = srdf};
  EXPECT_EQ(pairs_of(with_spheres(branched(), options)), (NamePairs{{"l1", "l3"}}));

  const auto refused = [&](const std::string& text, const Names& parts) {
    RobotOptions wrong = options;
    wrong.srdf = text;
    wrong.srdf_source = "test.srdf";
    EXPECT_EQ(spheres_error(branched(), wrong, parts).file(), "test.srdf");
  };
  refused("<robot>\n<disable_collisions link1=\"l1\"/></robot>",
          {"test.srdf:2: disable_collisions: ", "needs a link2"});
  refused("<robot>\n<disable_collisions link1=\"\" link2=\"l1\"/></robot>", {"needs a link1"});
  refused("<robot>\n<disable", {"test.srdf:2", "malformed XML"});
  refused("<sdf/>", {"an SRDF has <robot>"});
  RobotOptions missing = options;
  missing.srdf = "none.srdf";
  spheres_error(branched(), missing, {"none.srdf: the file does not exist"});
}

TEST(SphereLinks, BaseLinksNotChecked) {
  const std::string rest = ", \"base_links_not_checked\": [\"mast\", \"base\", \"absent\", \"unheard\"]";
  const std::string json = json_of({"base", "mast", "lamp", "absent", "l4"}, rest);
  // A held link is left out as well, and one that the robot lacks is no error.
  EXPECT_EQ(with_spheres(branched(), {.spheres = json}).collision_links(), (Names{"lamp", "l4"}));
  EXPECT_EQ(with_spheres(branched(), {.spheres = json, .check_base = true}).collision_links(),
            (Names{"base", "mast", "lamp", "l4"}));

  // What moves is checked all the same.
  const Robot arm =
      with_spheres(branched(), {.spheres = json_of({"l1", "l4"}, ", \"base_links_not_checked\": [\"l1\"]")});
  EXPECT_EQ(arm.collision_links(), (Names{"l1", "l4"}));
  ASSERT_EQ(arm.warnings().size(), 1u);
  EXPECT_TRUE(contains(arm.warnings()[0], "names link 'l1', which moves here"));
}

TEST(SphereLinks, Unknown) {
  const ModelError error = json_error(
      json_of({"l1", "l2c"}),
      {"test.json:3: link 'l2c': ", "test.urdf", "nearest names are 'l2'", "base_links_not_checked"});
  EXPECT_EQ(error.element(), "link 'l2c'");
}

TEST(SphereLinks, AtMost768Spheres) {
  const auto json = [](const std::string& link, int count) {
    std::string text = "{\"spheres\": {\"" + link + "\": [";
    for (int i = 0; i < count; ++i) text += std::string(i ? ", " : "") + "[0, 0, 0, 0.1]";
    return text + "]}}";
  };
  EXPECT_EQ(with_spheres(branched(), {.spheres = json("l1", 768)}).sphere_links().size(), 768u);
  json_error(json("l1", 769), {"769 spheres", "at most 768"});
  // Those of the base do not count.
  std::string both = json("base", 769);
  both.insert(both.size() - 2, ", \"l1\": [[0, 0, 0, 0.1]]");
  EXPECT_EQ(with_spheres(branched(), {.spheres = both}).sphere_links().size(), 1u);
}

// --- JSON ---

TEST(SphereJson, Refused) {
  const std::string ok = "[0, 0, 0, 0.1]";
  const auto refused = [](const std::string& link, const Names& parts) {
    Names all = {"link 'l1': "};
    all.insert(all.end(), parts.begin(), parts.end());
    return json_error("{\n\"spheres\": {\n\"l1\": " + link + "}}", all).line();
  };
  EXPECT_EQ(refused("[]", {"empty"}), 3);
  EXPECT_EQ(refused("{}", {"its entry is an object; a list"}), 3);
  EXPECT_EQ(refused("[" + ok + ",\n[0, 0, 0]]", {"sphere 1 has 3 values", "[x, y, z, radius]"}), 4);
  EXPECT_EQ(refused("[" + ok + ",\n" + ok + ",\n[0, 0, 0, 0.1, 7]]", {"sphere 2 has 5 values"}), 5);
  EXPECT_EQ(refused("[0, 0, 0, 0.1]", {"sphere 0 is a number; a list"}), 3);
  EXPECT_EQ(refused("[[0, 0, 0,\n0]]", {"sphere 0 has the radius 0; it must be above 0"}), 3);
  refused("[[0, 0, 0, -0.1]]", {"the radius -0.1"});
  refused("[[0, 0, 0, 1e-400]]", {"the radius 0"});
  EXPECT_EQ(refused("[[0,\nnull, 0, 0.1]]", {"sphere 0, value 1, is null; a number"}), 4);
  refused("[[0, \"0\", 0, 0.1]]", {"value 1, is a text"});
  refused("[[true, 0, 0, 0.1]]", {"value 0, is true or false"});
  refused("[[0, 0, 1e5, 0.1]]", {"sphere 0 is too large or too far off"});
  refused("[[0, 0, 0, 1e300]]", {"too large"});
}

TEST(SphereJson, Malformed) {
  EXPECT_EQ(json_error("{\n\"spheres\": {\n\"l1\": [[0, 0, 0, nan]]}}", {"malformed JSON"}).line(), 3);
  EXPECT_EQ(json_error("{\n\"spheres\": {\n\"l1\": [[0, 0, 0, 1e999]]}}", {"number overflow"}).line(), 3);
  EXPECT_EQ(json_error("{\n\"spheres\":\n{", {"malformed JSON", "end of input"}).line(), 3);
  json_error("{} {}", {"malformed JSON"});
  json_error("{\"spheres\": {\"l1\": [[0, 0, 0, 0.1],]}}", {"malformed JSON"});
  json_error("{\"a\": \"\xC3\xA9\" \xC3\xA9}", {"malformed JSON"});
  json_error("{\"a\": \"\xC3\"}", {"not UTF-8"});
  json_error(std::string("{\"a\": \0}", 8), {"not a text file"});
  std::string deep = "{\"note\": ";
  for (int i = 0; i < 100000; ++i) deep += "[";
  json_error(deep, {"nested deeper"});
}

TEST(SphereJson, TwiceTheSame) {
  EXPECT_EQ(json_error("{\"spheres\": {\n\"l1\": [[0, 0, 0, 1]],\n\"l1\": [[0, 0, 0, 1]]}}",
                       {"the key 'l1' is given twice"})
                .line(),
            3);
  json_error("{\"note\": 1, \"note\": 2}", {"the key 'note' is given twice"});
}

TEST(SphereJson, WrongTypes) {
  json_error("{\"spheres\": [1]}", {"spheres: it is a list; an object"});
  json_error("{\"spheres\": {}}", {"no link has spheres", "\"none\""});
  json_error("{}", {"no link has spheres"});
  json_error(json_of({"l1"}, ", \"self_collision_ignore_pairs\": {}"),
             {"self_collision_ignore_pairs: it is"});
  json_error(json_of({"l1"}, ", \"self_collision_ignore_pairs\": [\"l1\"]"), {"an entry is a text; a list"});
  json_error(json_of({"l1"}, ",\n\"self_collision_ignore_pairs\":\n[[\"l1\"]]"),
             {"test.json:4: self_collision_ignore_pairs: an entry has 1 names; two links"});
  json_error(json_of({"l1"}, ", \"self_collision_ignore_pairs\": [[\"l1\", 2]]"), {"is a number; a text"});
  json_error(json_of({"l1"}, ", \"base_links_not_checked\": \"l1\""),
             {"base_links_not_checked: it is a text"});
  json_error(json_of({"l1"}, ", \"base_links_not_checked\": [1]"), {"an entry is a number; a text"});
}

TEST(SphereJson, KnownAndUnknownKeys) {
  const std::string known =
      ", \"robot\": 1, \"frames\": 1, \"source\": 1, \"licence\": 1, \"note\": [{}], \"fit\": 1, "
      "\"self_collision_rule\": true";
  EXPECT_TRUE(with_spheres(branched(), {.spheres = json_of({"l1"}, known)}).warnings().empty());
  const Robot arm = with_spheres(
      branched(), {.spheres = json_of(
                       {"l1"}, ", \"Spheres\": 1, \"x\": {}, \"self_collision_buffer_m\": {\"l1\": 0.1}")});
  ASSERT_EQ(arm.warnings().size(), 2u);
  EXPECT_TRUE(contains(arm.warnings()[0], "test.json: self_collision_buffer_m is not applied"));
  EXPECT_TRUE(contains(arm.warnings()[1], "unknown keys are ignored: 'Spheres', 'x'"));
}

TEST(SphereJson, Files) {
  const auto path = std::filesystem::temp_directory_path() / ("hjcdik_spheres_" + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary) << "\xEF\xBB\xBF \n" << json_of({"l1"});
  EXPECT_EQ(with_spheres(branched(), {.spheres = path.string()}).chain().spheres.source, path.string());
  std::ofstream(path, std::ios::binary) << "\n[1]";
  spheres_error(branched(), {.spheres = path.string()},
                {path.string() + ":2: the file is a list; an object is expected"});
  std::ofstream(path, std::ios::binary) << "";
  spheres_error(branched(), {.spheres = path.string()}, {"empty"});
  std::filesystem::remove(path);
  spheres_error(branched(), {.spheres = std::filesystem::temp_directory_path().string()}, {"is a directory"});
  EXPECT_EQ(with_spheres(branched(), {.spheres = " \n" + json_of({"l1"})}).collision_links().size(), 1u);
}

// --- Spherized URDF ---

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string collision(const std::string& origin, const std::string& shape) {
  return "\n<collision>" + origin + "<geometry>" + shape + "</geometry></collision>";
}

// branched() with what `link_name` holds.
std::string with_collision(const std::string& link_name, const std::string& inner,
                           const std::string& urdf = branched()) {
  return replaced(urdf, link(link_name), "<link name=\"" + link_name + "\">" + inner + "</link>\n");
}

const std::string kBall = "<sphere radius=\"0.1\"/>";

TEST(SpherizedUrdf, Reads) {
  const std::string text = with_collision(
      "l1",
      collision(at("0.1 0.2 0.3"), "<!-- a ball -->" + kBall) + collision("", "<sphere radius=\"0.25\"/>"),
      with_collision("l3",
                     "<visual><geometry><mesh filename=\"x\"/></geometry></visual>" + collision("", kBall)));
  const Robot arm = with_spheres(branched(), {.spheres = text});
  EXPECT_EQ(arm.collision_links(), (Names{"l1", "l3"}));
  EXPECT_EQ(pairs_of(arm), (NamePairs{{"l1", "l3"}}));
  const auto spheres = arm.spheres(std::vector<double>(4));
  EXPECT_EQ(spheres[0], (std::array<double, 4>{0.1, 0.2, 0.3, 0.1}));
  EXPECT_EQ(spheres[1], (std::array<double, 4>{0, 0, 0, 0.25}));
}

TEST(SpherizedUrdf, OtherShapesAreRefused) {
  const auto refused = [](const std::string& inner, const Names& parts) {
    Names all = {"link 'l1': "};
    all.insert(all.end(), parts.begin(), parts.end());
    return spheres_error(branched(), {.spheres = with_collision("l1", inner)}, all).line();
  };
  EXPECT_EQ(refused(collision("", "<box size=\"1 1 1\"/>"), {"<box>; only spheres"}), 5);
  refused(collision("", kBall + "<cylinder/>"), {"<cylinder>"});
  refused(collision("", kBall + kBall), {"second <sphere>"});
  refused(collision("", ""), {"no <sphere>"});
  refused("<collision/>", {"no <sphere>"});
  refused(collision("", "<sphere/>"), {"needs a radius"});
  refused(collision("", "<sphere radius=\"0\"/>"), {"radius is 0; it must be above 0"});
  refused(collision("", "<sphere radius=\"-1\"/>"), {"above 0"});
  refused(collision("", "<sphere radius=\"nan\"/>"), {"finite"});
  refused(collision(at("0 0 inf"), kBall), {"finite"});
  spheres_error(branched(), {.spheres = branched()}, {"test.json: no link has a <collision>"});
  spheres_error(branched(), {.spheres = "<robot><link"}, {"test.json:1", "malformed XML"});
  // The same file is fine as a robot: its collisions are not read.
  EXPECT_EQ(load(with_collision("l1", collision("", "<box/>")), "l4").dof(), 4);
}

TEST(SpherizedUrdf, FramesMustBeTheRobots) {
  const std::string text = with_collision("l3", collision("", kBall));
  const auto refused = [&](const std::string& from, const std::string& to, const Names& parts) {
    Names all = {"link 'l3': ", "test.urdf"};
    all.insert(all.end(), parts.begin(), parts.end());
    return spheres_error(branched(), {.spheres = replaced(text, from, to)}, all).line();
  };
  EXPECT_EQ(with_spheres(branched(), {.spheres = text}).collision_links(), (Names{"l3"}));
  const std::string j2 = joint("j2", "revolute", "l1", "l2", at("1 0 0") + kHalf);
  const int line =
      refused(j2, joint("j2", "revolute", "l1", "l2", at("1 0 0.00001") + kHalf), {"joint 'j2': its origin"});
  EXPECT_GT(line, 10);
  refused(j2, joint("j2", "revolute", "l1", "l2", "<origin xyz=\"1 0 0\" rpy=\"0 0.001 0\"/>" + kHalf),
          {"joint 'j2': its origin"});
  refused(j2, joint("j2", "revolute", "l1", "l2", at("1 0 0") + replaced(kHalf, "0 0 1", "0 0 -1")),
          {"joint 'j2': its axis"});
  refused(j2, joint("j2", "prismatic", "l1", "l2", at("1 0 0") + kHalf),
          {"joint 'j2'", "prismatic", "revolute"});
  refused(j2, joint("other", "revolute", "l1", "l2", at("1 0 0") + kHalf), {"joint 'other'", "'j2'"});
  refused("0 0 0.25", "0 0 0.26", {"joint 'weld': its origin"});
  // Fixed in the one, moving in the other, or not there at all.
  spheres_error(branched(),
                {.spheres = with_collision("l3", collision("", kBall),
                                           robot(link("base") + link("l1") + link("l3") +
                                                 joint("j1", "revolute", "base", "l1", kHalf) +
                                                 joint("j2", "revolute", "l1", "l3", at("1 0 0") + kHalf)))},
                {"link 'l3'", "test.urdf", "at the link itself: the origins"});
  refused(joint("weld", "fixed", "l2", "l2b", at("0 0 0.25")),
          joint("weld", "revolute", "l2", "l2b", at("0 0 0.25") + kHalf), {"joint 'weld'"});
  refused(joint("j3", "revolute", "l2b", "l3", at("1 0 -0.25") + kHalf),
          joint("j3", "fixed", "l2b", "l3", at("1 0 -0.25")), {"joint 'j3'"});

  // Roundings, limits, other branches and a fixed joint more make no difference.
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"1 0 0", "1.0000009 0 0"},
           {"0 5 0", "0 6 0"},
           {j2, joint("j2", "revolute", "l1", "l2", at("1 0 0") + kZ + kLimit)},
           {joint("weld", "fixed", "l2", "l2b", at("0 0 0.25")),
            link("half") + joint("a", "fixed", "l2", "half", at("0 0 0.125")) +
                joint("b", "fixed", "half", "l2b", at("0 0 0.125"))},
       }) {
    EXPECT_EQ(with_spheres(branched(), {.spheres = replaced(text, from, to)}).collision_links(),
              (Names{"l3"}));
  }
}

TEST(SpherizedUrdf, LinkThatTheRobotLacks) {
  const std::string more = branched(link("l5") + joint("j5", "fixed", "l4", "l5"));
  spheres_error(branched(), {.spheres = with_collision("l5", collision("", kBall), more)},
                {"test.json:21: link 'l5': the robot of test.urdf has no such link", "'l4'"});
  EXPECT_EQ(with_spheres(more, {.spheres = with_collision("l4", collision("", kBall))}).dof(), 4);
}

TEST(SpherizedUrdf, WithLocks) {
  // Joints are compared as the files have them, whatever is locked.
  const Robot arm = with_spheres(branched(), {.locked_joints = {{"j1", 1}, {"finger_joint", 0.5}},
                                              .spheres = with_collision("finger", collision("", kBall))});
  EXPECT_EQ(arm.chain().spheres.links[0].joint, 0);
  EXPECT_NEAR(arm.chain().spheres.links[0].spheres[0][1], 0.5, 1e-15);
}

// --- Overlaps ---

// Balls of radius r on l1 and l3, 2 m apart with the arm stretched.
std::string balls(const std::string& radius) {
  return "{\"spheres\": {\"l1\": [[0, 0, 0, " + radius + "]], \"l3\": [[0, 0, 0, " + radius + "]]}}";
}

TEST(SphereOverlaps, AtMidRange) {
  // Touching is free.
  EXPECT_TRUE(
      with_spheres(branched(), {.locked_joints = {{"j2", 0}}, .spheres = balls("1")}).warnings().empty());
  const Robot arm = with_spheres(branched(), {.spheres = balls("1.01")});
  ASSERT_EQ(arm.warnings().size(), 1u);
  for (const char* part :
       {"test.json: ", "'l1' and 'l3'", "mid-range", "self_collision_ignore_pairs", "SRDF"}) {
    EXPECT_TRUE(contains(arm.warnings()[0], part)) << arm.warnings()[0];
  }
  const std::string ignored = replaced(balls("1.01"), "{\"spheres\"",
                                       "{\"self_collision_ignore_pairs\": [[\"l1\", \"l3\"]], \"spheres\"");
  EXPECT_TRUE(with_spheres(branched(), {.spheres = ignored}).warnings().empty());
}

TEST(SphereOverlaps, InNearlyAllConfigurations) {
  // The way from l1 to l3 is 2 cos(q2 / 2), with |q2| <= 1.5: its largest value at mid-range. Overlapping
  // radii there are free at mid-range and taken elsewhere.
  const auto warnings = [](double radius) {
    return with_spheres(branched(), {.spheres = balls(model::to_text(radius))}).warnings();
  };
  EXPECT_TRUE(warnings(std::cos(0.12)).empty());  // |q2| > 0.24: 84 %
  const auto found = warnings(std::cos(0.02));    // |q2| > 0.04: 97 %
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(contains(found[0], "in 97") && contains(found[0], " of 1000 configurations")) << found[0];
}

TEST(SphereOverlaps, ManyPairs) {
  std::string json = "{\"spheres\": {\"l1\": [[0, 0, 0, 9]]";
  std::string extra;
  for (int i = 0; i < 11; ++i) {
    const std::string name = "p" + std::to_string(i);
    extra += link(name) + joint("w" + name, "fixed", "l4", name);
    json += ", \"" + name + "\": [[0, 0, 0, 9]]";
  }
  const std::vector<std::string> warnings =
      with_spheres(branched(extra), {.spheres = json + "}}"}).warnings();
  ASSERT_EQ(warnings.size(), 9u);
  EXPECT_TRUE(contains(warnings[8], "and 3 more pairs"));
}

TEST(SphereOverlaps, LoadingStaysFast) {
  const auto load_time = [](const RobotOptions& options) {
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const auto start = std::chrono::steady_clock::now();
      Robot::preset("panda", options);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  };
  const double extra = load_time({}) - load_time({.spheres = "none"});
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(extra, 5e-3);
#else
  EXPECT_LT(extra, 0.5);
#endif
}

// --- Damaged files ---

// True if it loads; else the error has readable words.
bool loads(const RobotOptions& options) {
  try {
    const Robot arm = with_spheres(branched(), options);
    const std::vector<double> q(static_cast<std::size_t>(arm.dof()), 0.1);
    for (const auto& sphere : arm.spheres(q)) {
      for (const double x : sphere) EXPECT_TRUE(std::isfinite(x));
      EXPECT_GT(sphere[3], 0);
    }
    return true;
  } catch (const ModelError& error) {
    EXPECT_EQ(model::invalid_utf8(error.what()), std::string::npos) << error.what();
    EXPECT_GE(error.line(), 0);
    return false;
  }
}

TEST(SphereFuzz, Truncations) {
  const std::string json = json_of(kAll, ", \"self_collision_ignore_pairs\": [[\"l1\", \"l\xC3\xA9\"]]");
  const std::string urdf = with_collision("l3", collision(at("0 0 1"), kBall));
  const std::string srdf = "<robot><disable_collisions link1=\"l1\" link2=\"l3\"/></robot>";
  for (std::size_t n = 0; n < json.size(); ++n) {
    EXPECT_FALSE(loads({.spheres = json.substr(0, n)}) && n > 0) << n;
  }
  for (std::size_t n = 1; n + 1 < urdf.size(); ++n) EXPECT_FALSE(loads({.spheres = urdf.substr(0, n)})) << n;
  for (std::size_t n = 1; n < srdf.size(); ++n) {
    EXPECT_FALSE(loads({.spheres = json, .srdf = srdf.substr(0, n)})) << n;
  }
}

TEST(SphereFuzz, Mutations) {
  std::mt19937_64 random(20261203);
  const std::string seeds[] = {
      json_of(kAll, ",\n\"self_collision_ignore_pairs\": [[\"l1\", \"l\xC3\xA9\"]]"),
      with_collision("l3", collision(at("0 0 1"), kBall)),
  };
  const char* pieces[] = {"\"",   "[",       "]",       "{", "}", ",",    ":",        "1e308", "-",
                          "null", "\\u0000", "\\ud800", "<", ">", "\xC3", "\xC3\xA9", "0"};
  int loaded = 0, refused = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string text = seeds[i % 2];
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
      const std::size_t place = 1 + random() % (text.size() - 1);  // the first character says what it is
      switch (random() % 4) {
        case 0: text[place] = static_cast<char>(random()); break;
        case 1: text[place] ^= static_cast<char>(1 << (random() % 7)); break;
        case 2: text.insert(place, pieces[random() % std::size(pieces)]); break;
        default: text.erase(place, 1 + random() % 10); break;
      }
      if (text.size() < 2) text += " ";
    }
    (loads({.spheres = text}) ? loaded : refused)++;
  }
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace hjcdik
