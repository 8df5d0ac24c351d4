#include "native/stats_file.hpp"

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>

namespace hjcdik::native {
namespace {

// In the order of TargetStats, under the names that the file has always had.
constexpr const char* kHeading =
    "b_size,krep,n_ik_accurate,n_coll_free_refined,n_feasible,n_ik_lost,n_coll_in_refined,n_coll_in_coarse,"
    "env_cost_min_mm,env_cost_max_mm,env_cost_mean_mm,n_returned,n_returned_ik_accurate,n_returned_coll_free,"
    "pct_returned_coll_free,n_returned_feasible\n";

template <class Number>
void append(std::string& row, Number value) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  if (!row.empty()) row += ',';
  row.append(digits, end);
}

[[noreturn]] void fail(const char* what, const std::string& path) {
  const int error = errno;
  throw std::runtime_error(std::string("cannot ") + what + " " + path + ": " + std::strerror(error));
}

bool has_heading(std::FILE* file) {
  std::string line;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF && c != '\n' && line.size() < 1000; c = std::fgetc(file))
    line += char(c);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line + '\n' == kHeading;
}

}  // namespace

void append_stats(const std::string& path, const TargetStats& s) {
  std::string row;
  append(row, s.batch_size);
  for (const auto n : {s.n_refined, s.n_ik_accurate, s.n_coll_free_refined, s.n_feasible, s.n_ik_lost,
                       s.n_coll_in_refined, s.n_coll_in_coarse}) {
    append(row, n);
  }
  append(row, s.env_cost_min_mm), append(row, s.env_cost_max_mm), append(row, s.env_cost_mean_mm);
  append(row, s.n_returned), append(row, s.n_returned_ik_accurate), append(row, s.n_returned_coll_free);
  append(row, s.pct_returned_coll_free), append(row, s.n_returned_feasible);
  row += '\n';

  // Two threads must not both find the file empty.
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "a+e"), std::fclose);
  if (!file) fail("open", path);
  // Nor must two processes.
  while (::flock(::fileno(file.get()), LOCK_EX) != 0 && errno == EINTR) {
  }
  std::fseek(file.get(), 0, SEEK_END);
  struct stat status {};
  const bool plain = ::fstat(::fileno(file.get()), &status) == 0 && S_ISREG(status.st_mode);
  if (!plain || status.st_size == 0) {
    row.insert(0, kHeading);
  } else {
    if (!has_heading(file.get())) {
      throw std::runtime_error("cannot append to " + path +
                               ": it begins with another heading than ik_stats.csv has; move it away");
    }
    // Behind a row that was cut off.
    if (std::fseek(file.get(), -1, SEEK_END) == 0 && std::fgetc(file.get()) != '\n') row.insert(0, "\n");
    std::fseek(file.get(), 0, SEEK_END);
  }
  if (std::fwrite(row.data(), 1, row.size(), file.get()) != row.size()) fail("write", path);
  if (std::fclose(file.release()) != 0) fail("write", path);
}

}  // namespace hjcdik::native
