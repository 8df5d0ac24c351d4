#include "store/store.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>

namespace hjcdik::store {
namespace {

namespace fs = std::filesystem;

// First line of programs and builds; the number grows with the format.
constexpr std::string_view kProduct = "hjcdik store ", kFormat = "hjcdik store 2\n";
constexpr std::string_view kChecksum = "sha256 ";
constexpr std::size_t kHashLength = 64;

constexpr std::size_t kLargestFile = std::size_t{256} << 20;
constexpr std::int64_t kGrace = 600;       // seconds
constexpr std::int64_t kAbandoned = 3600;  // seconds: no writer takes that long
constexpr std::string_view kTemporary = ".tmp";

std::string message_of(int error) { return std::generic_category().message(error); }

std::string sha256(const std::vector<std::string_view>& parts) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  bool ok = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const std::string_view part : parts)
    ok = ok && EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1;
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

bool is_hash(std::string_view text) {
  return text.size() == kHashLength && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  // On some file systems only this tells that the disk is full.
  bool close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

// A whole file; nothing with errno where that fails, which is ENOENT where there is none. `use`: note the
// time for the sweep.
std::optional<std::string> read_whole(const std::string& path, bool use) {
  // O_NONBLOCK: a pipe of that name must not hold us up.
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno == ENOTDIR) errno = ENOENT;
    return std::nullopt;
  }
  struct stat status;
  if (::fstat(file.get(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode) || std::uint64_t(status.st_size) > kLargestFile) {
    errno = S_ISREG(status.st_mode) ? EFBIG : EISDIR;
    return std::nullopt;
  }
  std::string text(std::size_t(status.st_size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t n = ::read(file.get(), text.data() + have, text.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    have += std::size_t(n);
  }
  text.resize(have);
  if (use) ::futimens(file.get(), nullptr);  // fails where it does not matter: in folders that are only read
  return text;
}

// Writes aside and renames: all or nothing.
bool write_whole(const std::string& path, std::string_view text, std::string* problem) {
  const auto fail = [&](const char* what, int error) {
    if (problem != nullptr) *problem = std::string(what) + " " + path + ": " + message_of(error);
    return false;
  };
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) return fail("cannot make the folder of", error.value());
  // Not mkstemp: its files are the user's alone, and a folder may be shared.
  std::string temporary;
  int descriptor = -1;
  do {
    static std::atomic<unsigned> count{0};
    temporary =
        path + "." + std::to_string(getpid()) + "." + std::to_string(count++) + std::string(kTemporary);
    descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EEXIST);
  if (descriptor < 0) return fail("cannot write", errno);
  File file(descriptor);
  std::size_t written = 0;
  int failure = 0;
  while (written < text.size() && failure == 0) {
    const ssize_t n = ::write(file.get(), text.data() + written, text.size() - written);
    if (n > 0) written += std::size_t(n);
    if (n == 0) failure = ENOSPC;
    if (n < 0 && errno != EINTR) failure = errno;
  }
  if (failure == 0 && ::fsync(file.get()) != 0) failure = errno;
  if (!file.close() && failure == 0) failure = errno;
  if (failure == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) failure = errno;
  if (failure == 0) return true;
  ::unlink(temporary.c_str());
  return fail("cannot write", failure);
}

// A manifest and what it describes, with the checksum between them.
std::string sealed(const std::string& manifest, std::string_view content) {
  const std::string head = std::string(kFormat) + manifest;
  std::string text = head + std::string(kChecksum) + sha256({head, content}) + "\n";
  text += content;
  return text;
}

struct Unsealed {
  std::vector<std::pair<std::string_view, std::string_view>> manifest;
  std::string_view content;
};

// Nothing with the reason where any byte is not as it was written.
std::optional<Unsealed> unseal(std::string_view text, std::string& problem) {
  if (text.substr(0, kFormat.size()) != kFormat) {
    problem = text.substr(0, kProduct.size()) == kProduct || text.substr(0, 15) == "hjcdik program "
                  ? "was written by another version of hjcdik"
                  : "is damaged";
    return std::nullopt;
  }
  problem = "is damaged";
  Unsealed result;
  std::size_t at = kFormat.size();
  for (;;) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text.substr(at, end - at);
    if (line.substr(0, kChecksum.size()) == kChecksum) {
      result.content = text.substr(end + 1);
      if (line.substr(kChecksum.size()) != sha256({text.substr(0, at), result.content})) return std::nullopt;
      problem.clear();
      return result;
    }
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    result.manifest.emplace_back(line.substr(0, blank), line.substr(blank + 1));
    at = end + 1;
  }
}

std::string_view value_of(const Unsealed& file, std::string_view field) {
  for (const auto& [name, value] : file.manifest) {
    if (name == field) return value;
  }
  return {};
}

fs::path programs(const std::string& folder) { return fs::path(folder) / "programs"; }
fs::path headers(const std::string& folder) { return fs::path(folder) / "headers"; }
fs::path builds(const std::string& folder) { return fs::path(folder) / "builds"; }

// The names in a folder; nothing where it cannot be read. No folder is an empty one.
std::optional<std::vector<std::string>> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) {
    if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) return names;
    return std::nullopt;
  }
  for (const fs::directory_iterator end; entries != end;) {
    names.push_back(entries->path().filename().string());
    entries.increment(error);
    if (error) return std::nullopt;
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_temporary(std::string_view name) {
  return name.size() > kTemporary.size() && name.substr(name.size() - kTemporary.size()) == kTemporary;
}

std::optional<Build> parse_build(std::string_view text, std::string& problem) {
  const auto file = unseal(text, problem);
  if (!file) return std::nullopt;
  problem = "is damaged";
  if (value_of(*file, "kind") != "build") return std::nullopt;
  Build build{std::string(value_of(*file, "name")), {}, std::string(file->content)};
  for (const auto& [field, value] : file->manifest) {
    if (field == "keeps") build.keys.emplace_back(value);
  }
  problem.clear();
  return build;
}

// The keys that builds name; nothing where that cannot be told. A build that is damaged, or of another
// version, still keeps what can be made out in it.
std::optional<std::set<std::string>> named_keys(const std::string& folder) {
  const auto names = names_in(builds(folder));
  if (!names) return std::nullopt;
  std::set<std::string> keys;
  for (const std::string& name : *names) {
    if (is_temporary(name)) continue;
    const auto text = read_whole((builds(folder) / name).string(), false);
    if (!text) {
      if (errno == ENOENT) continue;  // gone in between
      return std::nullopt;
    }
    constexpr std::string_view field = "\nkeeps ";
    for (std::size_t at = text->find(field); at != std::string::npos; at = text->find(field, at + 1)) {
      const std::string key = text->substr(at + field.size(), kHashLength);
      if (is_hash(key)) keys.insert(key);
    }
  }
  return keys;
}

std::mutex notes_mutex;
std::vector<std::string>& notes() {
  static auto& all = *new std::vector<std::string>;
  return all;
}

std::mutex packaged_mutex;
std::string& packaged() {
  static auto& folder = *new std::string;
  return folder;
}

bool has_folder(const std::string& folder, std::string* problem) {
  if (folder.empty() && problem != nullptr)
    *problem = "there is no folder for the store: set HJCDIK_CACHE_DIR";
  return !folder.empty();
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

std::string content_key(const std::vector<std::string_view>& parts) {
  std::vector<std::string> lengths;
  for (const std::string_view part : parts) {
    std::string length(8, '\0');
    for (std::size_t i = 0; i < 8; i++) length[i] = static_cast<char>(part.size() >> (8 * i));
    lengths.push_back(std::move(length));
  }
  std::vector<std::string_view> all;
  for (std::size_t i = 0; i < parts.size(); i++) {
    all.push_back(lengths[i]);
    all.push_back(parts[i]);
  }
  return sha256(all);
}

std::string default_folder() {
  const auto absolute = [](const std::string& path) {
    std::error_code error;
    const std::string whole = fs::absolute(path, error).string();
    return error ? path : whole;
  };
  if (const std::string own = variable("HJCDIK_CACHE_DIR"); !own.empty()) return absolute(own);
  if (const std::string grid = variable("GRID_RBD_CACHE_DIR"); !grid.empty())
    return absolute(grid + "/consumers/hjcdik");
  // Its specification has relative ones ignored.
  if (const std::string cache = variable("XDG_CACHE_HOME"); cache.starts_with("/")) return cache + "/hjcdik";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/hjcdik";
  return "";
}

std::string packaged_folder() {
  if (const std::string chosen = variable("HJCDIK_STORE"); !chosen.empty()) return chosen;
  std::lock_guard lock(packaged_mutex);
  return packaged();
}

void set_packaged_folder(std::string folder) {
  std::lock_guard lock(packaged_mutex);
  packaged() = std::move(folder);
}

std::string program_path(const std::string& folder, const std::string& key) {
  return (programs(folder) / (key + ".bin")).string();
}

std::optional<Entry> read(const std::string& folder, const std::string& key, bool use) {
  if (folder.empty()) return std::nullopt;
  const std::string path = program_path(folder, key);
  const auto text = read_whole(path, use);
  if (!text) {
    if (errno != ENOENT) note("the stored program " + path + " cannot be read: " + message_of(errno));
    return std::nullopt;
  }
  std::string problem;
  const auto file = unseal(*text, problem);
  if (!file || value_of(*file, "kind") != "program" || value_of(*file, "key") != key) {
    note("the stored program " + path + " " + (problem.empty() ? "is another one" : problem) +
         " and is not used");
    return std::nullopt;
  }
  return Entry{std::string(value_of(*file, "compiler")), std::string(file->content)};
}

bool publish(const std::string& folder, const std::string& key, const Entry& entry, std::string* problem) {
  if (!has_folder(folder, problem)) return false;
  const std::string manifest = "kind program\nkey " + key + "\ncompiler " + entry.compiler + "\n";
  if (!write_whole(program_path(folder, key), sealed(manifest, entry.image), problem)) return false;
  sweep(folder, size_limit(), kGrace);
  return true;
}

std::string build_path(const std::string& folder, const std::string& name) {
  // What is legible of the name, and a hash that tells names apart whatever the file system makes of them.
  std::string file;
  for (const char c : name.substr(0, 60)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    file += plain ? c : '_';
  }
  return (builds(folder) / (file + "-" + sha256({name}).substr(0, 16) + ".build")).string();
}

std::optional<Build> read_build(const std::string& folder, const std::string& name, std::string& problem) {
  problem.clear();
  if (folder.empty()) return std::nullopt;
  const std::string path = build_path(folder, name);
  const auto text = read_whole(path, false);
  if (!text) {
    if (errno != ENOENT) problem = path + " cannot be read: " + message_of(errno);
    return std::nullopt;
  }
  auto build = parse_build(*text, problem);
  if (build && build->name != name) problem = "is damaged";
  if (problem.empty()) return build;
  problem = path + " " + problem;
  return std::nullopt;
}

std::vector<Build> read_builds(const std::string& folder) {
  std::vector<Build> found;
  if (folder.empty()) return found;
  const auto names = names_in(builds(folder));
  if (!names) {
    note(builds(folder).string() + " cannot be read");
    return found;
  }
  for (const std::string& name : *names) {
    if (is_temporary(name)) continue;
    const std::string path = (builds(folder) / name).string();
    const auto text = read_whole(path, false);
    if (!text) {
      if (errno != ENOENT) note("the build " + path + " cannot be read: " + message_of(errno));
      continue;
    }
    std::string problem;
    auto build = parse_build(*text, problem);
    if (build && build_path(folder, build->name) != path) problem = "is not in its place";
    if (problem.empty()) {
      found.push_back(std::move(*build));
    } else {
      note("the build " + path + " " + problem + " and is left out");
    }
  }
  std::sort(found.begin(), found.end(), [](const Build& a, const Build& b) { return a.name < b.name; });
  return found;
}

bool publish_build(const std::string& folder, const Build& build, std::string* problem) {
  if (!has_folder(folder, problem)) return false;
  if (build.name.find('\n') != std::string::npos) {
    if (problem != nullptr) *problem = "a build's name is one line";
    return false;
  }
  std::string manifest = "kind build\nname " + build.name + "\n";
  for (const std::string& key : build.keys) manifest += "keeps " + key + "\n";
  return write_whole(build_path(folder, build.name), sealed(manifest, build.text), problem);
}

std::string publish_header(const std::string& folder, const std::string& text, std::string* problem) {
  if (!has_folder(folder, problem)) return "";
  const std::string path = (headers(folder) / (sha256({text}) + ".cuh")).string();
  if (const auto there = read_whole(path, true); there && *there == text) return path;
  return write_whole(path, text, problem) ? path : "";
}

void sweep(const std::string& folder, std::uint64_t limit, std::int64_t grace) {
  struct Candidate {
    std::string path;
    std::uint64_t size;
    timespec used;
  };
  const std::int64_t now = std::time(nullptr);
  std::vector<Candidate> candidates;
  std::uint64_t total = 0;
  for (const fs::path& part : {programs(folder), headers(folder), builds(folder)}) {
    const auto names = names_in(part);
    if (!names) continue;
    for (const std::string& name : *names) {
      const std::string path = (part / name).string();
      struct stat status;
      if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
      // time() may be a tick behind the clock of files.
      const std::int64_t age = std::max<std::int64_t>(0, now - std::int64_t(status.st_mtim.tv_sec));
      if (is_temporary(name)) {
        if (age > kAbandoned) ::unlink(path.c_str());
        continue;
      }
      if (part == builds(folder)) continue;
      total += std::uint64_t(status.st_size);
      if (age >= grace) candidates.push_back({path, std::uint64_t(status.st_size), status.st_mtim});
    }
  }
  if (limit == 0 || total <= limit || candidates.empty()) return;
  const auto named = named_keys(folder);
  if (!named) return;
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec : a.used.tv_nsec < b.used.tv_nsec;
  });
  for (const Candidate& candidate : candidates) {
    if (total <= limit) return;
    if (named->contains(fs::path(candidate.path).stem().string())) continue;
    // It may have been used, or named, since it was looked at.
    struct stat status;
    if (::lstat(candidate.path.c_str(), &status) != 0 || status.st_mtim.tv_sec != candidate.used.tv_sec ||
        status.st_mtim.tv_nsec != candidate.used.tv_nsec) {
      continue;
    }
    if (::unlink(candidate.path.c_str()) == 0) total -= candidate.size;
  }
}

std::uint64_t size_limit() {
  const std::string megabytes = variable("HJCDIK_CACHE_LIMIT_MB");
  std::uint64_t value = 1024;
  const char* end = megabytes.data() + megabytes.size();
  std::uint64_t given = 0;
  const auto [last, error] = std::from_chars(megabytes.data(), end, given);
  if (!megabytes.empty() && error == std::errc() && last == end) {
    value = given;
  } else if (static std::atomic<bool> said{false}; !megabytes.empty() && !said.exchange(true)) {
    note("HJCDIK_CACHE_LIMIT_MB is '" + megabytes +
         "'; a whole number of megabytes is expected: the limit is " + std::to_string(value));
  }
  return std::min(value, std::uint64_t{1} << 40) << 20;
}

void note(std::string message) {
  std::lock_guard lock(notes_mutex);
  if (notes().size() < 100) notes().push_back(std::move(message));
}

std::vector<std::string> take_notes() {
  std::lock_guard lock(notes_mutex);
  return std::exchange(notes(), {});
}

}  // namespace hjcdik::store
