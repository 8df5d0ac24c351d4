// Files as text, compiled in. The build writes their definitions (cmake/embed.cmake), which are there before
// any initialiser runs.
#pragma once

#include <string_view>

namespace hjcdik::embedded {

struct File {
  std::string_view name;
  std::string_view text;
};

// robots/*.urdf, with bare names such as "panda".
extern const File robots[];
extern const int robots_count;

// robots/spheres/*.json, with bare names such as "panda_foam".
extern const File spheres[];
extern const int spheres_count;

// What GPU programs are compiled from, with paths below src/ such as "core/trig.h".
extern const File gpu_sources[];
extern const int gpu_sources_count;

// Parts of generated headers: src/codegen/*.h, with names such as "kinematics.h".
extern const File codegen[];
extern const int codegen_count;

}  // namespace hjcdik::embedded
