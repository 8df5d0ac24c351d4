#include "store/store.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>

namespace hjcdik::store {
namespace {

namespace fs = std::filesystem;

// First line of an entry; a number that grows with the format.
constexpr std::string_view kFormat = "hjcdik program 1";

fs::path entry_path(const std::string& folder, const std::string& key) {
  return fs::path(folder) / "programs" / (key + ".bin");
}

std::string header(const std::string& key, const Entry& entry) {
  std::ostringstream text;
  text << kFormat << '\n'
       << "key " << key << '\n'
       << "compiler " << entry.compiler << '\n'
       << "size " << entry.image.size() << '\n'
       << "sha256 " << content_key({key, entry.compiler, entry.image}) << '\n';
  return text.str();
}

}  // namespace

std::string content_key(const std::vector<std::string_view>& parts) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  bool ok = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const std::string_view part : parts) {
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = static_cast<unsigned char>(part.size() >> (8 * i));
    ok = ok && EVP_DigestUpdate(context.get(), length, 8) == 1 &&
         EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1;
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (!ok || EVP_DigestFinal_ex(context.get(), digest, &size) != 1)
    throw std::runtime_error("SHA-256 failed");
  std::string text;
  for (unsigned i = 0; i < size; i++) {
    constexpr char digits[] = "0123456789abcdef";
    text += digits[digest[i] >> 4];
    text += digits[digest[i] & 15];
  }
  return text;
}

std::string default_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  if (const std::string own = variable("HJCDIK_CACHE_DIR"); !own.empty()) return own;
  if (const std::string grid = variable("GRID_RBD_CACHE_DIR"); !grid.empty())
    return grid + "/consumers/hjcdik";
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/hjcdik";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/hjcdik";
  return "";
}

std::optional<Entry> read(const std::string& folder, const std::string& key) {
  if (folder.empty()) return std::nullopt;
  std::ifstream file(entry_path(folder, key), std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream content;
  content << file.rdbuf();
  const std::string text = std::move(content).str();
  // The header is rebuilt from what it says and must come out the same: no byte goes unchecked.
  std::istringstream lines(text);
  std::string format, word, compiler;
  std::size_t size = 0;
  std::getline(lines, format);
  std::string key_line, compiler_line;
  std::getline(lines, key_line);
  std::getline(lines, compiler_line);
  if (compiler_line.rfind("compiler ", 0) != 0 || !(lines >> word >> size) || size > text.size())
    return std::nullopt;
  Entry entry{compiler_line.substr(9), text.substr(text.size() - size)};
  if (header(key, entry) + entry.image != text) return std::nullopt;
  return entry;
}

bool publish(const std::string& folder, const std::string& key, const Entry& entry) {
  if (folder.empty()) return false;
  const fs::path path = entry_path(folder, key);
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  // Not mkstemp: its files are the user's alone, and a folder may be shared.
  std::string temporary;
  int descriptor = -1;
  for (int attempt = 0; descriptor < 0 && attempt < 100; attempt++) {
    static std::atomic<unsigned> count{0};
    temporary = path.string() + "." + std::to_string(getpid()) + "." + std::to_string(count++) + ".tmp";
    descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno != EEXIST) return false;
  }
  if (descriptor < 0) return false;
  const std::string text = header(key, entry) + entry.image;
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = ::write(descriptor, text.data() + written, text.size() - written);
    if (n <= 0) break;
    written += std::size_t(n);
  }
  const bool complete = written == text.size() && ::fsync(descriptor) == 0;
  ::close(descriptor);
  if (complete) fs::rename(temporary, path, error);
  if (!complete || error) {
    ::unlink(temporary.c_str());
    return false;
  }
  return true;
}

}  // namespace hjcdik::store
