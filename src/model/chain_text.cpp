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

}  // namespace

std::string chain_text(const Chain& chain) {
  return "// A serial chain in the form of core/chain.h. Generated: do not edit.\n"
         "#pragma once\n\n"
         "#include \"core/chain.h\"\n\n"
         "namespace hjcdik::robot {\n\n"
         "constexpr int dof = " +
         std::to_string(chain.constants.dof) +
         ";\n"
         "HJCDIK_CONSTANT constexpr core::ChainConstants<double> chain_f64 = " +
         constants_text(chain.constants) +
         ";\n"
         "HJCDIK_CONSTANT constexpr core::ChainConstants<float> chain_f32 = " +
         constants_text(chain.constants_f32) +
         ";\n\n"
         "}  // namespace hjcdik::robot\n";
}

}  // namespace hjcdik::model
