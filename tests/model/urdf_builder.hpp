// Small URDFs for tests, and chains at random.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hjcdik/robot.hpp>

#include "model/chain.hpp"
#include "model/names.hpp"

namespace hjcdik::test {

inline std::string link(const std::string& name) { return "<link name=\"" + name + "\"/>\n"; }

// `inner` is what follows <parent> and <child>: origin, axis, limit, mimic.
inline std::string joint(const std::string& name, const std::string& type, const std::string& parent,
                         const std::string& child, const std::string& inner = "") {
  return "<joint name=\"" + name + "\" type=\"" + type + "\"><parent link=\"" + parent +
         "\"/><child link=\"" + child + "\"/>" + inner + "</joint>\n";
}

inline std::string robot(const std::string& content) {
  return "<robot name=\"r\">\n" + content + "</robot>\n";
}

inline const std::string kZ = "<axis xyz=\"0 0 1\"/>";
inline const std::string kLimit = "<limit lower=\"-3\" upper=\"3\" effort=\"1\" velocity=\"1\"/>";

// Two revolute z joints, links of 0.5 m and 0.3 m along x. `first` and `second` replace the inner
// parts of the joints (type, then inner); `extra` is appended to the robot.
struct Planar {
  std::string first_type = "revolute", first = kZ + kLimit;
  std::string second_type = "revolute", second = kZ + kLimit;
  std::string extra = "";

  std::string text() const {
    return robot(link("base") + link("upper") + link("fore") + link("tool") +
                 joint("j1", first_type, "base", "upper", first) +
                 joint("j2", second_type, "upper", "fore", "<origin xyz=\"0.5 0 0\"/>" + second) +
                 joint("tip", "fixed", "fore", "tool", "<origin xyz=\"0.3 0 0\"/>") + extra);
  }
};

inline Robot load(const std::string& xml, const std::string& ee_link = "tool",
                  const std::map<std::string, double>& locked = {}) {
  return Robot::from_urdf_text(xml, {ee_link, locked}, "test.urdf");
}

// What loading throws. Every part must occur in its message.
inline ModelError error_of(const std::string& xml, const std::vector<std::string>& parts,
                           const std::string& ee_link = "tool",
                           const std::map<std::string, double>& locked = {}) {
  try {
    load(xml, ee_link, locked);
  } catch (const ModelError& error) {
    EXPECT_EQ(error.file(), "test.urdf");
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << part << " not in: " << error.what();
    }
    return error;
  }
  ADD_FAILURE() << "loaded:\n" << xml;
  return ModelError("", 0, "", "");
}

inline void expect_near(const Pose& a, const Pose& b, double tolerance) {
  for (std::size_t i = 0; i < 7; ++i) EXPECT_NEAR(a[i], b[i], tolerance) << "entry " << i;
}

// A chain of n moving joints of all types with fixed joints between, any axes and origins.
inline std::string random_chain(int n, std::mt19937_64& random) {
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
  };
  const auto pick = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  // Right angles, exact and truncated, are where decompositions break.
  const auto angle = [&] {
    const double special[] = {0,           0,    1.57079632679, -1.5707963267948966, 3.141592653589793,
                              1.570796327, 1e-12};
    return pick(3) == 0 ? uniform(-4, 4) : special[pick(7)];
  };
  const auto origin = [&] {
    std::string text = "<origin xyz=\"";
    for (int k = 0; k < 3; ++k) text += model::to_text(pick(2) ? 0 : uniform(-0.5, 0.5)) + " ";
    text += "\" rpy=\"";
    for (int k = 0; k < 3; ++k) text += model::to_text(angle()) + " ";
    return text + "\"/>";
  };
  const auto axis = [&] {
    const char* special[] = {"1 0 0", "0 1 0", "0 0 1", "-1 0 0", "0 -1 0", "0 0 -1", "1e-9 0 -1"};
    if (pick(2)) return "<axis xyz=\"" + std::string(special[pick(7)]) + "\"/>";
    return "<axis xyz=\"" + model::to_text(uniform(-1, 1)) + " " + model::to_text(uniform(-1, 1)) + " " +
           model::to_text(uniform(0.1, 1)) + "\"/>";
  };

  std::string text = link("l0");
  int links = 1;
  const auto add = [&](const std::string& type, const std::string& inner) {
    const std::string parent = "l" + std::to_string(links - 1), child = "l" + std::to_string(links);
    text += link(child) + joint("j" + std::to_string(links), type, parent, child, origin() + inner);
    ++links;
  };
  for (int i = 0; i < n; ++i) {
    if (pick(3) == 0) add("fixed", "");
    const char* types[] = {"revolute", "continuous", "prismatic"};
    const double lower = uniform(-3, 1), range = uniform(0, 2);
    add(types[pick(3)], axis() + "<limit lower=\"" + model::to_text(lower) + "\" upper=\"" +
                            model::to_text(lower + range) + "\"/>");
  }
  text += link("tool") + joint("tip", "fixed", "l" + std::to_string(links - 1), "tool", origin());
  return robot(text);
}

// A configuration inside the limits, now and then at one of them.
inline std::vector<double> random_configuration(const Robot& robot, std::mt19937_64& random) {
  std::vector<double> q;
  for (const JointInfo& info : robot.joints()) {
    const double u =
        random() % 8 == 0 ? static_cast<double>(random() % 2) : static_cast<double>(random() >> 11) * 0x1p-53;
    q.push_back(info.lower + u * (info.upper - info.lower));
  }
  return q;
}

}  // namespace hjcdik::test
