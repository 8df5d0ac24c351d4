// Obstacles from MotionBenchMaker's problems as JSON text.
#pragma once

#include <string>
#include <string_view>

#include <hjcdik/world.hpp>

namespace hjcdik::native {

// Of problem `index` (not negative) of a set. The last text is kept as parsed, so that solving one problem of
// a large file after the other reads it once. Throws std::runtime_error, which names the obstacle.
World scene(std::string_view text, const std::string& set_name, int index);

}  // namespace hjcdik::native
