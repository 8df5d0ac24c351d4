// The functions of hjcd_kernel.h before main, when nothing of the library is constructed yet for sure; and
// the header of a robot that comes too late for them.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include <hjcd_kernel.h>

#include "native/linked_robot.hpp"

extern "C" void hjcdik_link_robot(const void* robot);

namespace {

double target[7] = {0.5, 0.1, 0.4, 0, 1, 0, 0};
const int joints = grid_num_joints();
const Result<double> early = generate_ik_solutions<double>(target, 100);

struct Settings {
  static const int kCandidates = 100;  // without a definition
};

int fail(const char* what) {
  std::printf("%s\n", what);
  return 1;
}

}  // namespace

int main() {
  if (joints != 7 || !grid_has_collision()) return fail("another robot than the packaged one");
  if (early.count != 1 || early.pos_errors[0] > 1e-3) return fail("no solution before main");

  // Whatever an int parameter takes; more rows than there can be cost nothing.
  enum { kCandidates = 100 };
  if (generate_ik_solutions<double>(target, kCandidates).count != 1) return fail("an enumerator");
  if (generate_ik_solutions<double>(target, 1e2).count != 1) return fail("a floating-point number");
  const std::atomic<int> shared{100};
  if (generate_ik_solutions<double>(target, shared).count != 1) return fail("an atomic");
  if (generate_ik_solutions<double>(target, Settings::kCandidates).count != 1) return fail("a constant");
  const Result<double> all = generate_ik_solutions<double>(target, 10, 0x7fffffff);
  if (all.count < 2 || all.elapsed_time > 1000) return fail("as many rows as there are");
  try {
    generate_ik_solutions<double>(target, -3);
    return fail("a negative number of candidates");
  } catch (const std::invalid_argument& error) {
    if (std::strstr(error.what(), "b_size is -3") == nullptr) return fail(error.what());
  }

  {
    char name[] = "late";  // as of a plugin that goes again
    hjcdik::native::LinkedRobot late{};
    late.key = "another";
    late.robot = name;
    hjcdik_link_robot(&late);
    name[0] = 'h';
  }
  for (int k = 0; k < 2; k++) {
    try {
      grid_num_joints();
      return fail("a header that came too late");
    } catch (const std::runtime_error& error) {
      if (std::strstr(error.what(), "'late' came after") == nullptr) return fail(error.what());
    }
  }
  return 0;
}
