// What an executor must offer: three loops over many rows. The worker builds a solve from them.
#pragma once

#include "solver/tasks.h"

namespace hjcdik {

class Engine {
 public:
  virtual ~Engine() = default;
  virtual void search(SearchTask& task) = 0;
  virtual void polish(PolishTask& task) = 0;
  virtual void evaluate(EvaluateTask& task) = 0;
  // False where the engine has no way that beats judging hits in the search.
  virtual bool judge(JudgeTask&) { return false; }
};

}  // namespace hjcdik
