// The cache of programs on disk: what is damaged or cannot be read is not there, what cannot be written is no
// error.
#include "store/store.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
  const Environment environment(values);
  EXPECT_EQ(default_folder(), "");
  const Environment nothing({});
  EXPECT_EQ(default_folder(), "");
}

}  // namespace
}  // namespace hjcdik::store
