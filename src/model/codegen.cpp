// A robot as one self-contained header: the numerics, the chain text that specialises GPU programs too, and
// the functions of src/codegen on them.
#include <algorithm>
#include <cstdint>
#include <set>

#include <hjcdik/robot.hpp>

#include "model/chain.hpp"
#include "model/embedded.hpp"
#include "model/names.hpp"

namespace hjcdik {
namespace {

std::string_view embedded_text(const embedded::File* files, int count, std::string_view name) {
  return std::find_if(files, files + count, [&](const auto& file) { return file.name == name; })->text;
}

std::string_view numerics(std::string_view name) {
  return embedded_text(embedded::gpu_sources, embedded::gpu_sources_count, name);
}

std::string part(std::string_view name) {
  return std::string(embedded_text(embedded::codegen, embedded::codegen_count, name)) + "\n";
}

// Appends the text, each file that it includes before it, and every file once.
void append(std::string_view text, std::set<std::string, std::less<>>& done, std::string& to) {
  std::string own;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line == "#pragma once") continue;
    if (line.rfind("#include \"", 0) == 0) {
      const std::string_view name = line.substr(10, line.rfind('"') - 10);
      if (done.emplace(name).second) append(numerics(name), done, to);
      continue;
    }
    own.append(line).append("\n");
  }
  to += own + "\n";
}

// FNV-1a: tells one robot from another, and is no defence against anything.
std::string hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::string digits;
  for (int k = 60; k >= 0; k -= 4) digits += "0123456789abcdef"[hash >> k & 15];
  return digits;
}

// A string literal of plain ASCII, whatever the name holds.
std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte > '~' || c == '"' || c == '\\' || c == '?') {
      text += {'\\', char('0' + (byte >> 6)), char('0' + (byte >> 3 & 7)), char('0' + (byte & 7))};
    } else {
      text += c;
    }
  }
  return text + "\"";
}

std::string constant(const std::string& name, std::size_t value) {
  return "constexpr int " + name + " = " + std::to_string(value) + ";\n";
}

std::string text_function(const std::string& name, const std::string& value) {
  return "HJCDIK_API const char* " + name + "() { return " + quoted(value) + "; }\n";
}

// A switch, since tables of pointers are not the same for host and device.
std::string names_function(const std::string& name, const std::vector<std::string>& values) {
  std::string text = "HJCDIK_API const char* " + name + "(int index) {\n  switch (index) {\n";
  for (std::size_t i = 0; i < values.size(); i++)
    text += "    case " + std::to_string(i) + ": return " + quoted(values[i]) + ";\n";
  return text + "    default: return \"\";\n  }\n}\n";
}

// What turns the frames of the constants into the URDF's: carrying_frames gives frames F with
// F . to_constants = the joint's frame.
std::string frame_turns(const model::Chain& chain) {
  std::string text = "HJCDIK_TABLE double frame_turns[" + std::to_string(chain.joints.size()) + "][9] = {\n";
  for (const model::Transform& turn : chain.to_constants) {
    text += "    {";
    for (int k = 0; k < 9; k++) text += (k > 0 ? ", " : "") + model::hex_literal(turn.rotation[k]);
    text += "},\n";
  }
  return text + "};\n";
}

// Of C and C++, the alternative tokens, and names that a header cannot take as its namespace.
constexpr std::string_view kTaken[] = {
    "alignas",   "alignof",   "and",           "and_eq",       "asm",
    "auto",      "bitand",    "bitor",         "bool",         "break",
    "case",      "catch",     "char",          "char16_t",     "char32_t",
    "char8_t",   "class",     "co_await",      "co_return",    "co_yield",
    "compl",     "concept",   "const",         "const_cast",   "consteval",
    "constexpr", "constinit", "continue",      "decltype",     "default",
    "delete",    "do",        "double",        "dynamic_cast", "else",
    "enum",      "explicit",  "export",        "extern",       "false",
    "float",     "for",       "friend",        "goto",         "if",
    "inline",    "int",       "linux",         "long",         "main",
    "mutable",   "namespace", "new",           "noexcept",     "not",
    "not_eq",    "nullptr",   "operator",      "or",           "or_eq",
    "private",   "protected", "public",        "register",     "reinterpret_cast",
    "requires",  "restrict",  "return",        "short",        "signed",
    "sizeof",    "static",    "static_assert", "static_cast",  "std",
    "struct",    "switch",    "template",      "this",         "thread_local",
    "throw",     "true",      "try",           "typedef",      "typeid",
    "typename",  "typeof",    "union",         "unix",         "unsigned",
    "using",     "virtual",   "void",          "volatile",     "wchar_t",
    "while",     "xor",       "xor_eq",        "NULL",         "PI",
    "Result",    "grid",      "hjcdik",        "hjcdik_native"};

void check_identifier(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const bool good =
      !name.empty() && letter(name[0]) && name[0] != '_' &&
      std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); }) &&
      name.find("__") == std::string::npos;
  if (!good) {
    throw InvalidArgument("name_space is " + model::in_quotes(name) +
                          "; a C++ identifier without leading or double underscores is expected");
  }
  if (std::find(std::begin(kTaken), std::end(kTaken), name) != std::end(kTaken)) {
    throw InvalidArgument("name_space is " + model::in_quotes(name) +
                          ", which is taken: C++ or the library means something else by it");
  }
}

}  // namespace

std::string codegen(const Robot& robot, const std::string& name_space) {
  check_identifier(name_space);
  const model::Chain& chain = robot.chain();
  const bool has_spheres = !chain.spheres.links.empty();

  std::vector<std::string> joint_names, joint_types, link_names;
  for (const JointInfo& joint : robot.joints()) {
    joint_names.push_back(joint.name);
    joint_types.push_back(to_string(joint.type));
  }
  std::size_t base_links = 0;  // they come last
  for (const int link : chain.sphere_tables.link_of_group) {
    link_names.push_back(chain.spheres.link_names[std::size_t(link)]);
    base_links += chain.spheres.links[std::size_t(link)].is_base;
  }
  std::string names =
      text_function("robot_name", robot.name()) + text_function("base_link", robot.base_link()) +
      text_function("tool_link", robot.ee_link()) + text_function("tool_frame", robot.ee_frame()) +
      names_function("joint_name", joint_names) + names_function("joint_type", joint_types) +
      names_function("link_name", link_names);
  const std::string key = hash_of(chain.header_text + names);

  std::string core;
  std::set<std::string, std::less<>> done;
  append(chain.header_text, done, core);
  append("#include \"core/collision.h\"\n", done, core);

  const std::string guard = "HJCDIK_HEADER_OF_" + name_space;
  return "// A robot's kinematics and collision geometry, as text that g++, clang, nvcc and NVRTC compile "
         "(C++17).\n"
         "// Written by hjcdik codegen: do not edit. What is meant for use stands in namespace " +
         name_space +
         ",\n// behind its namespace detail.\n"
         "#if defined(" +
         guard + ") && " + guard + " != 0x" + key +
         "\n#error \"two robots in one namespace: write one of them with another one (hjcdik codegen "
         "--namespace)\"\n"
         "#endif\n#ifndef " +
         guard + "\n#define " + guard + " 0x" + key +
         "\n\n"
         "#if defined(__CUDACC__) && !defined(__clang__)\n"
         "#pragma nv_diagnostic push\n"
         "#pragma nv_diag_suppress 177  // not all of it is used\n"
         "#pragma nv_diag_suppress 20091  // host code reads the host's copies of constant tables\n"
         "#elif defined(__clang__)\n"
         "#pragma clang diagnostic push\n"
         "#pragma clang diagnostic ignored \"-Wunknown-warning-option\"\n"
         "#pragma clang diagnostic ignored \"-Wbitwise-instead-of-logical\"  // masks are bool here\n"
         "#pragma clang diagnostic ignored \"-Wsign-conversion\"\n"
         "#pragma clang diagnostic ignored \"-Wunused-const-variable\"\n"
         "#elif defined(__GNUC__)\n"
         "#pragma GCC diagnostic push\n"
         "#pragma GCC diagnostic ignored \"-Wsign-conversion\"\n"
         "#endif\n\n"
         "namespace " +
         name_space + " {\nnamespace detail {\n\n" + core + frame_turns(chain) +
         "constexpr const char* key = \"" + key +
         "\";\n\n}  // namespace detail\n\n"
         "// May be called through pointers, which what is always inlined may not.\n"
         "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)\n#define HJCDIK_API __host__ __device__ inline\n"
         "#else\n#define HJCDIK_API inline\n#endif\n\n" +
         constant("num_joints", chain.joints.size()) +
         "// Of collision: spheres, the links that carry them, and pairs of these links.\n" +
         constant("num_spheres", std::size_t(chain.sphere_tables.f64.spheres)) +
         constant("num_links", link_names.size()) +
         constant("num_self_pairs", chain.sphere_tables.f64.pairs.size()) +
         "// The last of the links are the base's, which meet other links alone.\n" +
         constant("num_base_links", base_links) + "\n" + names + "\n" + part("kinematics.h") +
         (has_spheres
              ? part("collision.h")
              : "namespace detail {\nHJCDIK_FN hjcdik::core::SphereTable<double> sphere_table(double) { "
                "return {}; }\n}  // namespace detail\n\n") +
         part("registration.h") + "}  // namespace " + name_space +
         "\n\n"
         "#if defined(__CUDACC__) && !defined(__clang__)\n#pragma nv_diagnostic pop\n"
         "#elif defined(__clang__)\n#pragma clang diagnostic pop\n"
         "#elif defined(__GNUC__)\n#pragma GCC diagnostic pop\n#endif\n"
         "#undef HJCDIK_API\n#undef HJCDIK_CORE\n#undef HJCDIK_FN\n#undef HJCDIK_UNROLL\n#undef "
         "HJCDIK_CONSTANT\n"
         "#undef HJCDIK_TABLE\n#undef HJCDIK_ROLLED\n"
         "#endif\n";
}

}  // namespace hjcdik
