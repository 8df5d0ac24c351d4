#include "cpu/isa.hpp"

#include <cstdlib>

#include <hjcdik/error.hpp>
#include <hjcdik/solver.hpp>

namespace hjcdik::cpu {

#if defined(__x86_64__)
extern const Lanes lanes_x86_64, lanes_avx2, lanes_avx512;
#else
extern const Lanes lanes_generic;
#endif

const std::vector<const Lanes*>& available_lanes() {
  static const std::vector<const Lanes*> lanes = [] {
#if defined(__x86_64__)
    std::vector<const Lanes*> list{&lanes_x86_64};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
      list.push_back(&lanes_avx2);
      if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
          __builtin_cpu_supports("avx512cd")) {
        list.push_back(&lanes_avx512);
      }
    }
    return list;
#else
    return std::vector<const Lanes*>{&lanes_generic};
#endif
  }();
  return lanes;
}

std::string isa_name(const Lanes& lanes) {
  const std::string name = lanes.isa;
  return name == "x86_64" ? "x86-64" : name;
}

const Lanes& choose_lanes(const std::string& isa) {
  std::string wanted = isa;
  if (wanted.empty()) {
    if (const char* env = std::getenv("HJCDIK_ISA")) wanted = env;
  }
  if (wanted.empty()) return *available_lanes().back();
  std::string names;
  for (const Lanes* lanes : available_lanes()) {
    if (isa_name(*lanes) == wanted) return *lanes;
    names += (names.empty() ? "" : ", ") + isa_name(*lanes);
  }
  throw InvalidArgument("instruction set '" + wanted + "' (" + (isa.empty() ? "HJCDIK_ISA" : "isa") +
                        ") is not available on this processor; choose one of: " + names);
}

}  // namespace hjcdik::cpu

namespace hjcdik {

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const cpu::Lanes* lanes : cpu::available_lanes()) names.push_back(cpu::isa_name(*lanes));
  return names;
}

}  // namespace hjcdik
