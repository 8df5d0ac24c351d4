// Which instruction set the lanes use.
#pragma once

#include <string>
#include <vector>

#include "cpu/lanes.h"

namespace hjcdik::cpu {

// Those of this build that this processor runs, best last.
const std::vector<const Lanes*>& available_lanes();

// `isa` by name; empty: HJCDIK_ISA, else the best. Throws InvalidArgument for one that is not there.
const Lanes& choose_lanes(const std::string& isa);

// The name users see: "x86-64", "avx2", "avx512" or "generic".
std::string isa_name(const Lanes& lanes);

}  // namespace hjcdik::cpu
