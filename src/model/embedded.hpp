// Files of robots/ as text, compiled in. The build writes their definitions (cmake/embed.cmake).
#pragma once

#include <string_view>

namespace hjcdik::embedded {

struct File {
  std::string_view name;  // bare, such as "panda"
  std::string_view text;
};

extern const File robots[];
extern const int robot_count;

}  // namespace hjcdik::embedded
