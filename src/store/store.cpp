#include "store/store.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "model/read_file.hpp"

namespace hjcdik::store {
namespace {

namespace fs = std::filesystem;

// First line of an entry; a number that grows with the format.
constexpr std::string_view kFormat = "hjcdik program 1";

constexpr std::size_t kLargestEntry = std::size_t{256} << 20;

fs::path entry_path(const std::string& folder, const std::string& key) {
  return fs::path(folder) / "programs" / (key + ".bin");
}

std::string header(const std::string& key, const Entry& entry) {
  return std::string(kFormat) + "\nkey " + key + "\ncompiler " + entry.compiler + "\nsize " +
         std::to_string(entry.image.size()) + "\nsha256 " + content_key({key, entry.compiler, entry.image}) +
         "\n";
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
  const auto text = read_file(entry_path(folder, key).string(), kLargestEntry);
  if (!text) return std::nullopt;
  // The header is rebuilt from what it says and must come out the same: no byte goes unchecked.
  constexpr std::string_view before_compiler = "\ncompiler ", before_size = "\nsize ";
  const std::size_t compiler = text->find(before_compiler), size = text->find(before_size, compiler);
  if (compiler == std::string::npos || size == std::string::npos) return std::nullopt;
  std::size_t image_size = 0;
  const char* digits = text->data() + size + before_size.size();
  if (std::from_chars(digits, text->data() + text->size(), image_size).ec != std::errc()) return std::nullopt;
  if (image_size > text->size()) return std::nullopt;
  const std::size_t name = compiler + before_compiler.size();
  Entry entry{text->substr(name, size - name), text->substr(text->size() - image_size)};
  if (header(key, entry) + entry.image != *text) return std::nullopt;
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
