// Whole files, through C's library: C++ streams bring locales into a static link.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace hjcdik {

// Nothing where the file cannot be opened or read. A file longer than `limit` comes back cut off behind it.
inline std::optional<std::string> read_file(const std::string& path, std::size_t limit) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file) return std::nullopt;
  std::string text;
  char buffer[1 << 16];
  while (text.size() <= limit) {
    const std::size_t n = std::fread(buffer, 1, sizeof buffer, file.get());
    text.append(buffer, n);
    if (n < sizeof buffer) break;
  }
  if (std::ferror(file.get()) != 0) return std::nullopt;
  return text;
}

}  // namespace hjcdik
