// The chain as C++ text: what specialises GPU programs, and what identifies a model. It depends on
// the chain's constants alone: no name, path or time, so equal chains share one text.
#include <charconv>

#include "model/chain.hpp"

namespace hjcdik::model {

namespace {

// Exact and the same in every locale: hexadecimal digits of the value itself.
template <class S>
std::string literal(S value) {
  char buffer[48];
  const bool negative = value < 0 || (value == 0 && 1 / value < 0);
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, negative ? -value : value, std::chars_format::hex);
  return (negative ? "-0x" : "0x") + std::string(buffer, result.ptr) + (sizeof(S) == 4 ? "f" : "");
}

template <class S>
std::string list(const S* values, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + literal(values[i]);
  return text + "}";
}

template <class S>
std::string constants_text(const core::ChainConstants<S>& chain) {
  std::string text =
      "{\n      " + std::to_string(chain.dof) + ",\n      " + list(chain.start, 12) + ",\n      {\n";
  for (int i = 0; i < chain.dof; ++i) {
    const core::JointConstants<S>& joint = chain.joint[i];
    text += "          {" + literal(joint.cos_alpha) + ", " + literal(joint.sin_alpha) + ", " +
            list(joint.translation, 3) + ", " + literal(joint.offset) + ", " + literal(joint.cos_offset) +
            ", " + literal(joint.sin_offset) + ", " + literal(joint.lower) + ", " + literal(joint.upper) +
            ", " + (joint.prismatic ? "true" : "false") + ", " + (joint.wraps ? "true" : "false") + "},\n";
  }
  return text + "      },\n      " + literal(chain.cos_end) + ",\n      " + literal(chain.sin_end) + ",\n  }";
}

template <class T>
std::string table(const std::string& type, const std::string& name, const std::vector<T>& values) {
  std::string text = "HJCDIK_TABLE " + type + " " + name + "[] = {";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + literal(values[i]);
  return text + "};\n";
}

template <class S>
std::string spheres_text(const SphereArrays<S>& a, const std::string& real, const std::string& suffix) {
  return table(real, "sphere_x" + suffix, a.x) + table(real, "sphere_y" + suffix, a.y) +
         table(real, "sphere_z" + suffix, a.z) + table(real, "sphere_radius" + suffix, a.radius) +
         "HJCDIK_FN core::SphereTable<" + real + "> spheres" + suffix + "() {\n  return {spheres, " +
         std::to_string(a.world_spheres) + ", " + std::to_string(a.groups.size()) + ", " +
         std::to_string(a.pairs.size()) + ", sphere_x" + suffix + ", sphere_y" + suffix + ", sphere_z" +
         suffix + ", sphere_radius" + suffix + ", sphere_joint, sphere_groups, sphere_pairs};\n}\n";
}

// Tables rather than constants: neighbouring threads read neighbouring entries.
std::string spheres_text(const SphereTables& tables) {
  const SphereArrays<float>& a = tables.f32;
  std::string text = "\nconstexpr int spheres = " + std::to_string(a.spheres) +
                     ", groups = " + std::to_string(a.groups.size()) + ";\n";
  if (a.spheres == 0) return text;
  text += "HJCDIK_TABLE int sphere_joint[] = {";
  for (std::size_t i = 0; i < a.joint.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(a.joint[i]);
  text += "};\nHJCDIK_TABLE core::SphereGroup sphere_groups[] = {\n";
  for (const core::SphereGroup& g : a.groups) {
    text += "    {" + std::to_string(g.begin) + ", " + std::to_string(g.end) + ", " +
            std::to_string(g.joint) + ", " + list(g.center, 3) + ", " + literal(g.radius) + "},\n";
  }
  // A robot may have one link alone; no array is empty.
  text += "};\nHJCDIK_TABLE short sphere_pairs[][2] = {";
  for (const auto& pair : a.pairs)
    text += "{" + std::to_string(pair[0]) + ", " + std::to_string(pair[1]) + "}, ";
  text += "{-1, -1}};\n";
  return text + spheres_text(a, "float", "_f32") + spheres_text(tables.f64, "double", "_f64");
}

}  // namespace

std::string hex_literal(double value) { return literal(value); }

std::string chain_text(const Chain& chain) {
  return "// A serial chain in the form of core/chain.h. Generated: do not edit.\n"
         "#pragma once\n\n"
         "#include \"core/chain.h\"\n"
         "#include \"core/geometry.h\"\n\n"
         "namespace hjcdik::robot {\n\n"
         "constexpr int dof = " +
         std::to_string(chain.constants.dof) +
         ";\n"
         "HJCDIK_CONSTANT constexpr core::ChainConstants<double> chain_f64 = " +
         constants_text(chain.constants) +
         ";\n"
         "HJCDIK_CONSTANT constexpr core::ChainConstants<float> chain_f32 = " +
         constants_text(chain.constants_f32) + ";\n" + spheres_text(chain.sphere_tables) +
         "\n}  // namespace hjcdik::robot\n";
}

}  // namespace hjcdik::model
