// The loops of lanes.cpp, compiled once per instruction set and reached through a table of function
// pointers. Plain data only, as in solver/tasks.h.
#pragma once

#include "solver/tasks.h"

namespace hjcdik::cpu {

struct Lanes {
  const char* isa;
  int width;  // float lanes
  void (*search)(SearchTask&);
  void (*polish)(PolishTask&);
  void (*evaluate)(EvaluateTask&);
  void (*judge)(JudgeTask&);
};

}  // namespace hjcdik::cpu
