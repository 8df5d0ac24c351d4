// Programs and builds on disk: what is damaged or cannot be read is never used, what cannot be written is no
// error, and nothing of it gets lost among processes that are killed.
#include "store/store.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

namespace hjcdik::store {
namespace {

namespace fs = std::filesystem;

class Store : public testing::Test {
 protected:
  Store() {
    std::string name = fs::temp_directory_path() / "hjcdik_test_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    folder = name;
  }
  ~Store() override {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }

  // The one file of the store.
  fs::path file() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    EXPECT_EQ(files.size(), 1u);
    return files.at(0);
  }

  std::string content() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void overwrite(const std::string& text) const {
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << text;
  }

  std::string folder;
  const std::string key = content_key({"some", "parts"});
};

// A program's image: any bytes, line ends and zeros among them.
Entry some_entry(std::size_t size = 3000) {
  Entry entry{"13.0", std::string(size, '\0')};
  for (std::size_t i = 0; i < size; i++) entry.image[i] = char(i * i / 7);
  return entry;
}

bool same(const Entry& a, const Entry& b) { return a.compiler == b.compiler && a.image == b.image; }

TEST_F(Store, gives_back_what_it_got) {
  EXPECT_FALSE(read(folder, key));
  const Entry entries[] = {some_entry(), {"12.8", ""}, {"13.0", "key x\nsize 3\n\nabc"}, some_entry(200000)};
  for (const Entry& entry : entries) {
    ASSERT_TRUE(publish(folder, key, entry));  // the later one replaces the one before
    const auto back = read(folder, key);
    ASSERT_TRUE(back);
    EXPECT_TRUE(same(*back, entry));
  }
  EXPECT_EQ(content_key({"some", "parts"}), key);
  const std::string other = content_key({"other"});
  EXPECT_FALSE(read(folder, other));
  ASSERT_TRUE(publish(folder, other, some_entry(10)));
  EXPECT_TRUE(same(*read(folder, other), some_entry(10)));
  EXPECT_TRUE(same(*read(folder, key), entries[3]));
}

TEST_F(Store, makes_its_folder) {
  const std::string deep = folder + "/a/b/c";
  ASSERT_TRUE(publish(deep, key, some_entry()));
  EXPECT_TRUE(read(deep, key));
}

// Known digests of sha256sum: 8 bytes of length, little endian, before every part.
TEST(ContentKey, is_sha256_over_lengths_and_parts) {
  EXPECT_EQ(content_key({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(content_key({"abc"}), "ce91dc5eec0139adf091900d225971d6ad246a845bad791b5693a9d0d55dd391");
  // Where one part ends and the next begins matters.
  EXPECT_NE(content_key({"ab", "c"}), content_key({"a", "bc"}));
  EXPECT_NE(content_key({"abc"}), content_key({"abc", ""}));
}

TEST_F(Store, refuses_flipped_bytes) {
  ASSERT_TRUE(publish(folder, key, some_entry(300)));
  const std::string good = content();
  for (std::size_t i = 0; i < good.size(); i++) {
    std::string bad = good;
    bad[i] = char(bad[i] ^ (1 << (i % 8)));
    overwrite(bad);
    ASSERT_FALSE(read(folder, key)) << "byte " << i;
  }
  overwrite(good);
  EXPECT_TRUE(read(folder, key));
}

TEST_F(Store, refuses_other_lengths) {
  ASSERT_TRUE(publish(folder, key, some_entry(300)));
  const std::string good = content();
  for (std::size_t size = 0; size < good.size(); size++) {
    overwrite(good.substr(0, size));
    ASSERT_FALSE(read(folder, key)) << "cut to " << size;
    overwrite(good.substr(size));
    ASSERT_TRUE(size == 0 || !read(folder, key)) << "the first " << size << " cut off";
  }
  for (const std::string& more : {std::string("\n"), std::string(1, '\0'), good}) {
    overwrite(good + more);
    EXPECT_FALSE(read(folder, key));
  }
}

// An entry under another's name, such as by a careless copy.
TEST_F(Store, refuses_another_keys_entry) {
  ASSERT_TRUE(publish(folder, key, some_entry()));
  const std::string other = content_key({"other"});
  fs::copy_file(file(), file().parent_path() / (other + ".bin"));
  EXPECT_FALSE(read(folder, other));
  EXPECT_TRUE(read(folder, key));
}

TEST_F(Store, refuses_what_is_no_file) {
  fs::create_directories(fs::path(folder) / "programs" / (key + ".bin"));
  EXPECT_FALSE(read(folder, key));
  EXPECT_FALSE(publish(folder, key, some_entry()));  // a folder is in the way
  EXPECT_FALSE(read(folder, key));
}

// A damaged entry is replaced by the next build.
TEST_F(Store, replaces_a_damaged_entry) {
  ASSERT_TRUE(publish(folder, key, some_entry()));
  overwrite("nonsense");
  EXPECT_FALSE(read(folder, key));
  EXPECT_TRUE(publish(folder, key, some_entry()));
  EXPECT_TRUE(read(folder, key));
}

TEST_F(Store, many_processes_at_once) {
  constexpr int kWriters = 8, kRounds = 40;
  ASSERT_TRUE(publish(folder, key, some_entry(100000)));
  std::vector<pid_t> children;
  for (int k = 0; k < kWriters; k++) {
    const pid_t child = fork();
    if (child == 0) {
      bool good = true;
      for (int round = 0; round < kRounds && good; round++) {
        good = publish(folder, key, some_entry(100000 + std::size_t(k)));
        const auto seen = read(folder, key);  // whoever was last: whole
        good = good && seen && same(*seen, some_entry(seen->image.size())) && seen->image.size() >= 100000;
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  file();  // one, and no temporary files
}

TEST_F(Store, no_place_is_no_error) {
  EXPECT_FALSE(publish("", key, some_entry()));
  EXPECT_FALSE(read("", key));
  // A file where a folder should be: not even root can write below.
  const std::string blocked = folder + "/file";
  std::ofstream(blocked) << "x";
  EXPECT_FALSE(publish(blocked, key, some_entry()));
  EXPECT_FALSE(read(blocked, key));
  EXPECT_FALSE(publish("/proc/nowhere", key, some_entry()));
  EXPECT_FALSE(read("/proc/nowhere", key));
}

TEST_F(Store, full_disk_is_no_error) {
  ASSERT_TRUE(publish(folder, key, some_entry()));
  // A limit on the size of files stands for the full disk: writing stops half way.
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(publish(folder, key, some_entry(50000)) ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(same(*read(folder, key), some_entry()));  // the old one, and no half of the new
  file();
}

TEST_F(Store, folder_without_permission) {
  ASSERT_TRUE(publish(folder, key, some_entry()));
  const std::string programs = folder + "/programs";
  chmod(folder.c_str(), 0755);
  const auto as_another_user = [&](mode_t mode, bool readable) {
    chmod(programs.c_str(), mode);
    const pid_t child = fork();
    if (child == 0) {
      // Root may do everything: be nobody.
      const bool nobody = geteuid() != 0 || setuid(65534) == 0;
      const bool refused = !publish(folder, content_key({"other"}), some_entry());
      _exit(nobody && refused && read(folder, key).has_value() == readable ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    chmod(programs.c_str(), 0700);
    return status;
  };
  EXPECT_EQ(as_another_user(geteuid() == 0 ? 0755 : 0500, true), 0);
  EXPECT_EQ(as_another_user(0000, false), 0);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(Store, notes_what_is_damaged_and_only_that) {
  take_notes();
  EXPECT_FALSE(read(folder, key));
  ASSERT_TRUE(publish(folder, key, some_entry()));
  EXPECT_TRUE(read(folder, key));
  EXPECT_TRUE(take_notes().empty());
  const std::string good = content();
  for (const auto& [text, what] :
       {std::pair<std::string, std::string>{good.substr(0, good.size() - 1), "is damaged"},
        {"hjcdik store 3\n" + good.substr(15), "another version"},
        {"hjcdik program 1\n" + good, "another version"}}) {
    overwrite(text);
    EXPECT_FALSE(read(folder, key));
    const auto notes = take_notes();
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_TRUE(contains(notes[0], what)) << notes[0];
    EXPECT_TRUE(contains(notes[0], file().string())) << notes[0];
    EXPECT_EQ(content(), text) << "a reader removes nothing";
  }
  for (int i = 0; i < 200; i++) read(folder, key);
  EXPECT_EQ(take_notes().size(), 100u);
}

TEST_F(Store, says_why_it_cannot_write) {
  std::string problem;
  EXPECT_FALSE(publish("", key, some_entry(), &problem));
  EXPECT_TRUE(contains(problem, "HJCDIK_CACHE_DIR")) << problem;
  std::ofstream(folder + "/file") << "x";
  EXPECT_FALSE(publish(folder + "/file", key, some_entry(), &problem));
  EXPECT_TRUE(contains(problem, folder + "/file")) << problem;
  EXPECT_TRUE(contains(problem, "irectory")) << problem;
  EXPECT_FALSE(publish_build(folder + "/file", {"arm", {}, "text"}, &problem));
  EXPECT_EQ(publish_header(folder + "/file", "text", &problem), "");
  EXPECT_FALSE(publish_build("", {"arm", {}, "text"}, &problem));
  EXPECT_EQ(publish_header("", "text", &problem), "");
}

// --- builds -----------------------------------------------------------------------------------------------

// Every name stays inside, and is its own.
TEST_F(Store, builds_of_any_name) {
  const std::vector<std::string> names = {"arm",
                                          "Arm",
                                          "my arm",
                                          "a/b",
                                          "a\\b",
                                          "../../x",
                                          "..",
                                          ".",
                                          "",
                                          "/etc/x",
                                          "con",
                                          "nul.txt",
                                          "arm.build",
                                          "Gr\xc3\xbc\xc3\x9f"
                                          "e",
                                          "\xe8\x87\x82",
                                          "-rf",
                                          "*",
                                          std::string(5000, 'x'),
                                          std::string(5000, 'x') + "y",
                                          std::string("a\0b", 3),
                                          "keeps x"};
  for (const std::string& name : names) {
    const fs::path path = build_path(folder, name);
    EXPECT_EQ(path.parent_path(), fs::path(folder) / "builds") << name;
    EXPECT_LT(path.filename().string().size(), 100u);
    ASSERT_TRUE(publish_build(folder, {name, {content_key({name})}, "text of " + name}));
  }
  std::string problem;
  for (const std::string& name : names) {
    const auto build = read_build(folder, name, problem);
    ASSERT_TRUE(build) << problem;
    EXPECT_EQ(build->name, name);
    EXPECT_EQ(build->keys, std::vector{content_key({name})});
    EXPECT_EQ(build->text, "text of " + name);
  }
  EXPECT_EQ(read_builds(folder).size(), names.size());
  EXPECT_FALSE(read_build(folder, "other", problem));
  EXPECT_EQ(problem, "");
  EXPECT_FALSE(publish_build(folder, {"two\nlines", {}, "text"}, &problem));
  EXPECT_TRUE(take_notes().empty());
  for (const auto& entry : fs::directory_iterator(folder)) EXPECT_EQ(entry.path().filename(), "builds");
}

TEST_F(Store, a_damaged_build_is_refused_with_a_reason) {
  const Build build{"arm", {key, content_key({"other"})}, "{\"some\": \"text\"}"};
  ASSERT_TRUE(publish_build(folder, build));
  const std::string good = content();
  std::string problem;
  for (std::size_t i = 0; i < good.size(); i++) {
    std::string bad = good;
    bad[i] = char(bad[i] ^ (1 << (i % 8)));
    for (const std::string& text : {bad, good.substr(0, i)}) {
      overwrite(text);
      ASSERT_FALSE(read_build(folder, "arm", problem)) << "byte " << i;
      ASSERT_TRUE(contains(problem, "damaged") || contains(problem, "another version")) << problem;
      ASSERT_TRUE(read_builds(folder).empty());
      ASSERT_EQ(take_notes().size(), 1u);
    }
  }
  // Another's build in its place.
  overwrite(good);
  fs::rename(file(), build_path(folder, "other"));
  EXPECT_FALSE(read_build(folder, "other", problem));
  EXPECT_TRUE(contains(problem, "damaged")) << problem;
  EXPECT_TRUE(read_builds(folder).empty());
  EXPECT_EQ(take_notes().size(), 1u);
  // A folder in its place.
  fs::create_directories(build_path(folder, "third"));
  EXPECT_FALSE(read_build(folder, "third", problem));
  EXPECT_TRUE(contains(problem, "cannot be read")) << problem;
  ASSERT_TRUE(publish_build(folder, build));
  EXPECT_TRUE(read_build(folder, "arm", problem));
  take_notes();
}

TEST_F(Store, headers_by_their_hash) {
  const std::string path = publish_header(folder, "some text");
  EXPECT_EQ(path, folder + "/headers/b94f6f125c79e3a5ffaa826f584c10d52ada669e6762051b826b55776d05aed2.cuh");
  EXPECT_EQ(content(), "some text");
  overwrite("damaged");
  EXPECT_EQ(publish_header(folder, "some text"), path);
  EXPECT_EQ(content(), "some text");
}

// --- the sweep --------------------------------------------------------------------------------------------

class Sweep : public Store {
 protected:
  // Keys of entries of about 1000 bytes, each used an hour after the one before.
  std::vector<std::string> fill(int count) {
    std::vector<std::string> keys;
    for (int i = 0; i < count; i++) {
      keys.push_back(content_key({std::to_string(i)}));
      EXPECT_TRUE(publish(folder, keys.back(), some_entry(1000)));
      age(program_path(folder, keys.back()), 24 - i);
    }
    return keys;
  }
  static void age(const std::string& path, int hours) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  }
  std::string there(const std::vector<std::string>& keys) {
    std::string text;
    for (const std::string& one : keys) text += fs::exists(program_path(folder, one)) ? '1' : '0';
    return text;
  }
};

TEST_F(Sweep, removes_what_was_unused_for_longest) {
  const auto keys = fill(6);
  sweep(folder, 1 << 20, 0);
  EXPECT_EQ(there(keys), "111111");
  sweep(folder, 0, 0);  // no limit
  EXPECT_EQ(there(keys), "111111");
  EXPECT_TRUE(read(folder, keys[1]));  // counts as use
  EXPECT_TRUE(read(folder, keys[0], false));
  sweep(folder, 4900, 0);
  EXPECT_EQ(there(keys), "010111");
  sweep(folder, 1, 0);
  EXPECT_EQ(there(keys), "000000");
}

TEST_F(Sweep, keeps_what_is_named_and_what_is_new) {
  const auto keys = fill(6);
  ASSERT_TRUE(publish_build(folder, {"arm", {keys[0], keys[3]}, "text"}));
  const std::string named = publish_header(folder, "named"), other = publish_header(folder, "other");
  age(named, 30), age(other, 30);
  ASSERT_TRUE(publish_build(folder, {"header", {fs::path(named).stem()}, "text"}));
  EXPECT_TRUE(read(folder, keys[5]));
  sweep(folder, 1, 600);
  EXPECT_EQ(there(keys), "100101");
  EXPECT_TRUE(fs::exists(named));
  EXPECT_FALSE(fs::exists(other));
  // A build that cannot be read, or is of a version to come, still holds what it names.
  for (const auto& [from, to] : {std::pair{"text", "texx"}, std::pair{"store 2", "store 7"}}) {
    const std::string path = build_path(folder, "arm");
    std::ifstream in(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    text.replace(text.find(from), std::string(from).size(), to);
    std::ofstream(path, std::ios::binary) << text;
    sweep(folder, 1, 0);
    EXPECT_EQ(there(keys), "100100");
  }
  fs::remove(build_path(folder, "arm"));
  sweep(folder, 1, 0);
  EXPECT_EQ(there(keys), "000000");
}

TEST_F(Sweep, removes_what_killed_writers_left) {
  ASSERT_TRUE(publish(folder, key, some_entry()));
  ASSERT_TRUE(publish_build(folder, {"arm", {}, "text"}));
  std::vector<std::string> left;
  for (const std::string& path : {program_path(folder, key), build_path(folder, "arm")}) {
    for (const int hours : {0, 2}) {
      left.push_back(path + ".1." + std::to_string(hours) + ".tmp");
      std::ofstream(left.back()) << "half";
      age(left.back(), hours);
    }
  }
  sweep(folder, 0, 600);
  EXPECT_TRUE(fs::exists(left[0]) && fs::exists(left[2])) << "someone may be writing them";
  EXPECT_FALSE(fs::exists(left[1]) || fs::exists(left[3]));
  EXPECT_EQ(read_builds(folder).size(), 1u);
  EXPECT_TRUE(read(folder, key));
}

// Processes that build, name and sweep, killed at any moment: no name is ever without its programs, and
// nothing is damaged.
TEST_F(Sweep, survives_killed_processes) {
  constexpr int kProcesses = 16, kRounds = 3;
  std::srand(1);
  for (int round = 0; round < kRounds; round++) {
    std::vector<pid_t> children;
    for (int k = 0; k < kProcesses; k++) {
      const pid_t child = fork();
      if (child == 0) {
        for (unsigned i = 0;; i++) {
          // Half of the robots are everyone's.
          const std::string name = (i + unsigned(k)) % 2 == 0
                                       ? "common" + std::to_string(i % 3)
                                       : "own" + std::to_string(k) + std::to_string(i % 5);
          const std::string first = content_key({name, "a"}), second = content_key({name, "b"});
          bool good = true;
          for (const std::string& one : {first, second}) {
            const auto there = read(folder, one);
            if (there) good = good && same(*there, some_entry(3000));
            if (!there) good = good && publish(folder, one, some_entry(3000));
          }
          good = good && publish_build(folder, {name, {first, second}, "text of " + name});
          sweep(folder, 50000, 600);
          if (!good || !take_notes().empty()) _exit(1);
        }
      }
      children.push_back(child);
    }
    int failed = 0;
    for (const pid_t child : children) {
      usleep(useconds_t(std::rand() % 20000));
      kill(child, SIGKILL);
      int status = -1;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      failed += WIFEXITED(status) ? 1 : 0;
    }
    EXPECT_EQ(failed, 0);
    const auto builds = read_builds(folder);
    EXPECT_GT(builds.size(), 3u);
    for (const Build& build : builds) {
      EXPECT_EQ(build.text, "text of " + build.name);
      for (const std::string& one : build.keys) {
        const auto entry = read(folder, one);
        ASSERT_TRUE(entry) << build.name;
        EXPECT_TRUE(same(*entry, some_entry(3000)));
      }
    }
    EXPECT_TRUE(take_notes().empty());
  }
}

// Environment variables for the life of the object; null: not set.
class Environment {
 public:
  explicit Environment(const std::map<std::string, const char*>& values) {
    for (const char* name : {"HJCDIK_CACHE_DIR", "GRID_RBD_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}) {
      const char* old = std::getenv(name);
      saved_[name] = old != nullptr ? std::optional<std::string>(old) : std::nullopt;
      const auto value = values.find(name);
      set(name, value != values.end() ? value->second : nullptr);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : saved_) set(name.c_str(), value ? value->c_str() : nullptr);
  }

 private:
  static void set(const char* name, const char* value) {
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  std::map<std::string, std::optional<std::string>> saved_;
};

TEST(DefaultFolder, own_variable_then_grid_then_xdg_then_home) {
  std::map<std::string, const char*> values{{"HJCDIK_CACHE_DIR", "/own"},
                                            {"GRID_RBD_CACHE_DIR", "/grid"},
                                            {"XDG_CACHE_HOME", "/xdg"},
                                            {"HOME", "/home/user"}};
  const std::pair<const char*, const char*> expected[] = {{"HJCDIK_CACHE_DIR", "/own"},
                                                          {"GRID_RBD_CACHE_DIR", "/grid/consumers/hjcdik"},
                                                          {"XDG_CACHE_HOME", "/xdg/hjcdik"},
                                                          {"HOME", "/home/user/.cache/hjcdik"}};
  for (const auto& [variable, folder] : expected) {
    {
      const Environment environment(values);
      EXPECT_EQ(default_folder(), folder);
    }
    // Empty counts as not set.
    values[variable] = "";
  }
  {
    // Relative ones are meant from here; but for XDG's, which do not count.
    values["HJCDIK_CACHE_DIR"] = "own", values["XDG_CACHE_HOME"] = "xdg", values["HOME"] = "/home/user";
    const Environment environment(values);
    EXPECT_EQ(default_folder(), (std::filesystem::current_path() / "own").string());
    values["HJCDIK_CACHE_DIR"] = "";
    const Environment without(values);
    EXPECT_EQ(default_folder(), "/home/user/.cache/hjcdik");
    values["HOME"] = "";
  }
  const Environment environment(values);
  EXPECT_EQ(default_folder(), "");
  const Environment nothing({});
  EXPECT_EQ(default_folder(), "");
}

TEST(PackagedFolder, the_variable_before_the_setting) {
  EXPECT_EQ(packaged_folder(), "");
  set_packaged_folder("/installed");
  EXPECT_EQ(packaged_folder(), "/installed");
  setenv("HJCDIK_STORE", "/chosen", 1);
  EXPECT_EQ(packaged_folder(), "/chosen");
  unsetenv("HJCDIK_STORE");
  set_packaged_folder("");
}

TEST(SizeLimit, by_the_variable) {
  constexpr std::uint64_t standard = std::uint64_t{1} << 30;
  EXPECT_EQ(size_limit(), standard);
  for (const auto& [text, limit] : {std::pair<const char*, std::uint64_t>{"", standard},
                                    {"0", 0},
                                    {"7", 7 << 20},
                                    {"x", standard},
                                    {"7 MB", standard},
                                    {"-1", standard},
                                    {"99999999999999", std::uint64_t{1} << 60}}) {
    setenv("HJCDIK_CACHE_LIMIT_MB", text, 1);
    EXPECT_EQ(size_limit(), limit) << text;
  }
  unsetenv("HJCDIK_CACHE_LIMIT_MB");
}

}  // namespace
}  // namespace hjcdik::store
