#include "model/names.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

namespace hjcdik::model {

namespace {

constexpr std::size_t kLongestQuote = 60;
constexpr std::size_t kMostSuggestions = 5;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Levenshtein's distance, one row at a time; upper and lower case count as equal.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(a[i]) != lower(b[j]));
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_names(std::string_view wanted, const std::vector<std::string>& candidates) {
  // What was typed may be anything; only its beginning is compared.
  wanted = wanted.substr(0, 200);
  std::vector<std::pair<std::size_t, std::string>> ranked;
  ranked.reserve(candidates.size());
  for (const std::string& name : candidates) {
    ranked.emplace_back(edit_distance(wanted, std::string_view(name).substr(0, 200)), name);
  }
  std::sort(ranked.begin(), ranked.end());
  ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
  if (ranked.size() > kMostSuggestions) ranked.resize(kMostSuggestions);
  if (ranked.empty()) return "(none)";

  std::string text;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    if (i > 0) text += i + 1 < ranked.size() ? ", " : " and ";
    text += in_quotes(ranked[i].second);
  }
  return text;
}

std::string in_quotes(std::string_view text) {
  if (text.size() <= kLongestQuote) return "'" + std::string(text) + "'";
  std::size_t end = kLongestQuote;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // whole characters only
  return "'" + std::string(text.substr(0, end)) + "...'";
}

std::string to_text(double value) {
  if (std::isnan(value)) return "nan";
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, result.ptr);
}

std::size_t invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[i + k]); };
    std::size_t length = 1;
    unsigned code = byte(0), smallest = 0;
    if (code >= 0x80) {
      if (code >= 0xC0 && code < 0xE0) {
        length = 2, smallest = 0x80, code &= 0x1F;
      } else if (code >= 0xE0 && code < 0xF0) {
        length = 3, smallest = 0x800, code &= 0x0F;
      } else if (code >= 0xF0 && code < 0xF8) {
        length = 4, smallest = 0x10000, code &= 0x07;
      } else {
        return i;
      }
      if (i + length > text.size()) return i;
      for (std::size_t k = 1; k < length; ++k) {
        if ((byte(k) & 0xC0) != 0x80) return i;
        code = code << 6 | (byte(k) & 0x3F);
      }
      const bool surrogate = code >= 0xD800 && code < 0xE000;
      if (code < smallest || surrogate || code > 0x10FFFF) return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace hjcdik::model
