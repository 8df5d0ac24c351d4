// Which program a GPU gets: from the packaged store, from the user's, compiled, or none.
#include <thread>

#include "scenario.hpp"
#include "store/store.hpp"

namespace hjcdik::test {
namespace {

const Robot& panda() {
  static const Robot robot = Robot::preset("panda");
  return robot;
}

Solver solver(const std::string& folder, bool allow_build = true) {
  return Solver(panda(), {.device = "cuda:0", .cache_dir = folder, .allow_build = allow_build});
}

// Puts a program there without counting as compiled by the solvers.
void prepare(const std::string& folder, const cuda::Target& target, cuda::Variant variant = {}) {
  std::string problem;
  EXPECT_TRUE(cuda::build_image(panda().chain(), variant, target, 99, folder, false, &problem).compiled);
  EXPECT_EQ(problem, "");
}

void pretend(int major, int minor) {
  fake_driver().major = major;
  fake_driver().minor = minor;
}

TEST(Programs, each_store_is_its_own) {
  with_fakes([] {
    const TemporaryFolder a, b;
    const Solver first = solver(a.path);
    EXPECT_EQ(fake_nvrtc().compiled, 1);
    EXPECT_EQ(first.program_path().substr(0, a.path.size()), a.path);
    const Solver second = solver(a.path), third = solver(b.path);
    EXPECT_EQ(fake_nvrtc().compiled, 2);
    EXPECT_EQ(third.program_path().substr(0, b.path.size()), b.path);
    EXPECT_FALSE(std::filesystem::exists(std::string(std::getenv("HJCDIK_CACHE_DIR")) + "/programs"));
    Work(3).run_and_check(third);
  });
}

TEST(Programs, nothing_is_built_where_that_is_not_allowed) {
  with_fakes([] {
    const TemporaryFolder store;
    const auto make = [&] { solver(store.path, false); };
    EXPECT_CONTAINS(message_of<BuildError>(make), "no open-world program");
    EXPECT_CONTAINS(message_of<BuildError>(make), "compute capability 9.0");
    EXPECT_CONTAINS(message_of<BuildError>(make), store.path);
    { const Solver builder = solver(store.path); }
    EXPECT_CONTAINS(message_of<BuildError>(make), "no collision-aware program");
    prepare(store.path, {9, 0}, {false, true});
    EXPECT_EQ(fake_nvrtc().compiled, 2);
    const Solver prepared = solver(store.path, false);
    Work(3).run_and_check(prepared);
    Work coarse(1);
    coarse.options.coarse_sweeps = 1;
    EXPECT_CONTAINS(message_of<BuildError>([&] { coarse.run(prepared); }), "no coarse open-world program");
    EXPECT_EQ(fake_nvrtc().compiled, 2);
    // A solver that may choose its device is not one that may do without what it was told to load.
    EXPECT_CONTAINS(message_of<BuildError>([&] {
                      Solver(Robot::preset("ur5e"), {.cache_dir = store.path, .allow_build = false});
                    }),
                    "open-world");
    EXPECT_EQ(Solver(Robot::preset("ur5e"), {.device = "cpu", .allow_build = false}).device(), "cpu");
  });
}

TEST(Programs, the_packaged_store_needs_no_compiler) {
  const TemporaryFolder packaged, own;
  with_fakes([&] { prepare(packaged.path, {9, 0}), prepare(packaged.path, {9, 0}, {false, true}); });
  std::filesystem::permissions(packaged.path, std::filesystem::perms::owner_write,
                               std::filesystem::perm_options::remove);
  with_fakes(
      [&] {
        setenv("HJCDIK_STORE", packaged.path.c_str(), 1);
        for (const bool allow : {true, false}) {
          const Solver loaded = solver(own.path, allow);
          EXPECT_EQ(loaded.program_path(), "");
          EXPECT_EQ(loaded.compiler(), "13.0");
          Work(3).run_and_check(loaded);
        }
        EXPECT_TRUE(std::filesystem::is_empty(own.path));
      },
      FAKE_DRIVER, "/nowhere/libnvrtc.so.13");
}

TEST(Programs, code_of_a_lower_minor_version_and_ptx_serve_too) {
  const TemporaryFolder store;
  with_fakes([&] {
    prepare(store.path, {8, 6}), prepare(store.path, {9, 0, true});
    std::vector<std::string> options = fake_nvrtc().options;
    EXPECT_NE(std::find(options.begin(), options.end(), "-arch=compute_90"), options.end());
  });
  const auto path_on = [&](int major, int minor, const char* nvrtc = "/nowhere/libnvrtc.so.13") {
    std::string path;
    with_fakes(
        [&] {
          pretend(major, minor);
          const Solver loaded = solver(store.path);
          const std::string expected = store::program_path(
              store.path,
              cuda::program_key(panda().chain(), {}, {major == 8 ? 8 : 9, major == 8 ? 6 : 0, major != 8}));
          EXPECT_EQ(loaded.program_path(), expected);
          Work(3).run_and_check(loaded);
        },
        FAKE_DRIVER, nvrtc);
  };
  path_on(8, 6);
  path_on(8, 9);
  path_on(8, 9, FAKE_NVRTC);  // what runs is not compiled
  path_on(9, 0);
  path_on(12, 1);
  for (const auto& [major, minor] : {std::pair{8, 0}, std::pair{7, 5}}) {
    with_fakes(
        [&, major = major, minor = minor] {
          pretend(major, minor);
          EXPECT_CONTAINS(message_of<DeviceError>([&] { solver(store.path); }), "no NVRTC");
          EXPECT_CONTAINS(message_of<BuildError>([&] { solver(store.path, false); }), "open-world program");
        },
        FAKE_DRIVER, "/nowhere/libnvrtc.so.13");
  }
  // With a compiler a GPU gets machine code of its own rather than PTX.
  with_fakes([&] {
    pretend(10, 0);
    EXPECT_EQ(solver(store.path).program_path(),
              store::program_path(store.path, cuda::program_key(panda().chain(), {}, {10, 0})));
    EXPECT_EQ(fake_nvrtc().compiled, 1);
  });
}

TEST(Programs, what_the_driver_cannot_read_is_compiled_again) {
  const TemporaryFolder packaged, own;
  with_fakes([&] { prepare(packaged.path, {9, 0}); });
  const std::string mine = store::program_path(own.path, cuda::program_key(panda().chain(), {}, {9, 0}));
  for (const long compiled : {1, 0}) {
    with_fakes([&] {
      setenv("HJCDIK_STORE", packaged.path.c_str(), 1);
      dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
      fake_driver().fail("cuModuleLoadData", 1, 200);  // the packaged one
      const Solver loaded = solver(own.path);
      EXPECT_EQ(loaded.program_path(), mine);
      EXPECT_EQ(fake_nvrtc().compiled, compiled) << "what was compiled is found the next time";
      Work(3).run_and_check(loaded);
    });
  }
  with_fakes([&] {  // one's own as well
    dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    fake_driver().fail("cuModuleLoadData", 1, 209);
    EXPECT_EQ(solver(own.path).program_path(), mine);
    EXPECT_EQ(fake_nvrtc().compiled, 1);
  });
  with_fakes([&] {
    dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    fake_driver().fail("cuModuleLoadData", 1, 200);
    EXPECT_CONTAINS(message_of<BuildError>([&] { solver(own.path, false); }), "open-world program");
  });
  with_fakes([&] {  // an error that is none of the image's
    dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    fake_driver().fail("cuModuleLoadData", 1, 2);
    EXPECT_CONTAINS(message_of<DeviceError>([&] { solver(own.path); }), "cuModuleLoadData");
  });
}

TEST(Programs, a_damaged_program_is_compiled_again_with_a_note) {
  const TemporaryFolder store;
  with_fakes([&] {
    const std::string path = solver(store.path).program_path();
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    take_store_notes();
    const Solver again = solver(store.path);
    EXPECT_EQ(fake_nvrtc().compiled, 2);
    const auto notes = take_store_notes();
    ASSERT_FALSE(notes.empty());
    EXPECT_CONTAINS(notes[0], path);
    EXPECT_CONTAINS(notes[0], "damaged");
    { const Solver third = solver(store.path); }
    EXPECT_TRUE(take_store_notes().empty());
    EXPECT_TRUE(take_store_notes().empty());
  });
}

TEST(Programs, a_store_that_cannot_be_written_is_noted) {
  with_fakes([] {
    const TemporaryFolder folder;
    const std::string blocked = folder.path + "/file";
    std::filesystem::copy_file("/proc/self/comm", blocked);
    const Solver made = solver(blocked);
    EXPECT_EQ(made.program_path(), "");
    const auto notes = take_store_notes();
    ASSERT_FALSE(notes.empty());
    EXPECT_CONTAINS(notes.back(), "compiled again next time");
    Work(3).run_and_check(made);
  });
}

TEST(Programs, threads_share_one_compilation) {
  with_fakes([] {
    const TemporaryFolder store;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++) {
      threads.emplace_back([&, i] {
        if (i % 2 == 0) Work(3).run_and_check(solver(store.path));
        if (i % 2 == 1) cuda::build_image(panda().chain(), {}, {9, 0}, 99, store.path);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(fake_nvrtc().compiled, 1);
  });
}

// What is not part of a robot is not part of its key.
TEST(Programs, keys) {
  const auto key = [](const Robot& robot, cuda::Variant variant = {}, cuda::Target target = {9, 0}) {
    return cuda::program_key(robot.chain(), variant, target);
  };
  std::vector<std::string> keys = {key(panda()),
                                   key(panda(), {true, false}),
                                   key(panda(), {false, true}),
                                   key(panda(), {}, {8, 9}),
                                   key(panda(), {}, {9, 0, true}),
                                   key(Robot::preset("ur5e"))};
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
  std::string renamed = preset_urdf("panda");
  renamed.replace(renamed.find("name=\"panda\""), 12, "name=\"other\"");
  RobotOptions options;
  options.ee_link = panda().ee_link();
  options.spheres = "panda_foam";
  EXPECT_EQ(key(Robot::from_urdf_text(renamed, options)), key(panda()));
}

}  // namespace
}  // namespace hjcdik::test
