// Names as users type them: suggestions for wrong ones, quoting for messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hjcdik::model {

// "a", "b" and "c": at most five candidates, those with the smallest edit distance to `wanted` first.
std::string nearest_names(std::string_view wanted, const std::vector<std::string>& candidates);

// The text in single quotes, shortened if it is long.
std::string in_quotes(std::string_view text);

// The shortest decimal text that reads back as the same number, with a point in every locale; nan, inf, -inf.
std::string to_text(double value);

// The first byte that is not part of valid UTF-8, or npos.
std::size_t invalid_utf8(std::string_view text);

}  // namespace hjcdik::model
