// The file of diagnostics that write_stats appends to.
#pragma once

#include <string>

#include <hjcdik/result.hpp>

namespace hjcdik::native {

// One row, and before the first of a file its heading. Throws std::runtime_error: "cannot open ..." or
// "cannot write ...".
void append_stats(const std::string& path, const TargetStats& stats);

}  // namespace hjcdik::native
