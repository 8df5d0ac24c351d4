#include "model/text.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include <hjcdik/error.hpp>

#include "model/names.hpp"
#include "model/read_file.hpp"

namespace hjcdik::model {

namespace {

constexpr std::size_t kLargestFile = 64u << 20;
constexpr std::string_view kBlanks = " \t\r\n";

}  // namespace

std::string read_text_file(const std::string& path, const std::string& kind) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw ModelError(path, 0, "", "the file does not exist");
  if (std::filesystem::is_directory(status))
    throw ModelError(path, 0, "", "is a directory; " + kind + " file is expected");

  auto text = read_file(path, kLargestFile);
  if (!text) throw ModelError(path, 0, "", "the file cannot be read; check its permissions");
  if (text->size() > kLargestFile)
    throw ModelError(path, 0, "", "the file is larger than 64 MiB; " + kind + " is expected");
  return *std::move(text);
}

SourceText::SourceText(std::string_view text, std::string source, const std::string& kind)
    : text_(text), source_(std::move(source)) {
  if (text.size() > kLargestFile) fail(0, "", "the text is larger than 64 MiB; " + kind + " is expected");
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') line_ends_.push_back(i);
  }
  if (text.find_first_not_of(kBlanks) == std::string_view::npos) fail(0, "", "the file is empty");
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    fail(line_at(nul), "", "not a text file in UTF-8; " + kind + " is expected");
  }
  if (const std::size_t bad = invalid_utf8(text); bad != std::string_view::npos) {
    fail(line_at(bad), "", "not UTF-8 text; " + kind + " is expected, saved in UTF-8");
  }
}

int SourceText::line_at(std::size_t offset) const {
  return 1 + static_cast<int>(std::lower_bound(line_ends_.begin(), line_ends_.end(), offset) -
                              line_ends_.begin());
}

void SourceText::fail(int line, const std::string& label, const std::string& reason) const {
  throw ModelError(source_, line, label, reason);
}

}  // namespace hjcdik::model
