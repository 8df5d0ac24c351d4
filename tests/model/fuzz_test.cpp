// Damaged files load or throw ModelError; nothing else happens.
#include <algorithm>
#include <cmath>

#include "model/names.hpp"
#include "model/urdf_builder.hpp"

namespace hjcdik {
namespace {

using namespace test;

// Loads, and then works; or says what is wrong in readable words.
bool loads(const std::string& xml, const std::string& ee_link) {
  try {
    const Robot arm = Robot::from_urdf_text(xml, {ee_link, {}}, "fuzz.urdf");
    const std::vector<double> q(static_cast<std::size_t>(arm.dof()), 0.1);
    for (const double x : arm.forward_kinematics(q)) EXPECT_TRUE(std::isfinite(x)) << xml;
    for (const double x : arm.jacobian(q)) EXPECT_TRUE(std::isfinite(x)) << xml;
    EXPECT_TRUE(std::isfinite(arm.chain().reach.radius) && std::isfinite(arm.chain().reach.span[1])) << xml;
    for (int i = 0; i < arm.dof(); ++i) {
      EXPECT_LE(arm.chain().constants_f32.joint[i].lower, arm.chain().constants_f32.joint[i].upper);
    }
    return true;
  } catch (const ModelError& error) {
    EXPECT_EQ(model::invalid_utf8(error.what()), std::string::npos);
    EXPECT_GE(error.line(), 0);
    EXPECT_LE(error.line(), 1 + std::count(xml.begin(), xml.end(), '\n'));
    return false;
  }
}

std::string mutate(std::string xml, std::mt19937_64& random) {
  const auto at = [&](std::size_t size) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(size, 1));
  };
  const char* pieces[] = {"\"", "<",    ">",       "/>",  "&",    "nan",  "1e308",
                          "-",  "${x}", "<robot>", "]]>", "<!--", "&#0;", "0 0 0"};
  for (int n = 1 + static_cast<int>(random() % 3); n > 0 && !xml.empty(); --n) {
    switch (random() % 7) {
      case 0: xml[at(xml.size())] = static_cast<char>(random()); break;
      case 1: xml[at(xml.size())] ^= static_cast<char>(1 << (random() % 7)); break;
      case 2: xml.resize(at(xml.size())); break;
      case 3: xml.insert(at(xml.size()), pieces[random() % std::size(pieces)]); break;
      case 4: xml.erase(at(xml.size()), 1 + at(20)); break;
      default: {  // take out, double or move a whole element
        const std::size_t begin = xml.find('<', at(xml.size()));
        const std::size_t end = begin == std::string::npos ? begin : xml.find("/>", begin);
        if (end == std::string::npos) break;
        const std::string element = xml.substr(begin, end + 2 - begin);
        if (random() % 2) xml.erase(begin, element.size());
        if (random() % 2) xml.insert(std::min(xml.find('<', at(xml.size())), xml.size()), element);
      }
    }
  }
  return xml;
}

TEST(Fuzz, MutatedFilesLoadOrSayWhy) {
  std::mt19937_64 random(20261130);
  const std::string gripper =
      link("f1") + link("f2") + joint("g1", "prismatic", "tool", "f1", "<limit upper=\"1\"/>") +
      joint("g2", "prismatic", "tool", "f2",
            "<limit upper=\"1\"/><mimic joint=\"g1\" multiplier=\"2\" offset=\"0.1\"/>");
  const std::pair<std::string, std::string> seeds[] = {
      {preset_urdf("panda"), "panda_grasptarget"},
      {Planar{.extra = gripper}.text(), "tool"},
      {random_chain(6, random), "tool"},
  };
  int loaded = 0, refused = 0;
  for (int i = 0; i < 6000; ++i) {
    const auto& [xml, ee_link] = seeds[static_cast<std::size_t>(i) % std::size(seeds)];
    (loads(mutate(xml, random), ee_link) ? loaded : refused)++;
  }
  // Both ways out are taken, or the mutations test nothing.
  EXPECT_GT(loaded, 300);
  EXPECT_GT(refused, 300);
}

TEST(Fuzz, DeepAndLongFiles) {
  std::string deep, wide = link("l0");
  for (int i = 0; i < 100000; ++i) deep += "<a>";
  EXPECT_FALSE(loads("<robot>" + deep + "</robot>", "tool"));
  for (int i = 1; i < 5000; ++i) {
    const std::string n = std::to_string(i), before = std::to_string(i - 1);
    wide +=
        link("l" + n) + joint("j" + n, i % 500 ? "fixed" : "continuous", "l" + before, "l" + n,
                              i > 1 && i % 500 == 0 && i < 4500 ? "<mimic joint=\"j" + before + "\"/>" : "");
  }
  EXPECT_TRUE(loads(robot(wide), "l4999"));
}

}  // namespace
}  // namespace hjcdik
