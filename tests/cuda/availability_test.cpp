// What is missing for a GPU is said once, with the remedy, and the CPU does the work.
#include "cuda/nvrtc.hpp"
#include "scenario.hpp"

namespace hjcdik::test {
namespace {

// A solver for device "cuda:0" is refused with a DeviceError, one for "" is on the CPU and knows why, and
// gpu_problem() says the same.
void expect_refused(const std::vector<std::string>& parts) {
  const std::string asked = message_of<DeviceError>([] { gpu_solver(); });
  const Solver solver(Robot::preset("panda"));
  EXPECT_EQ(solver.device(), "cpu");
  EXPECT_EQ(solver.compiler(), "");
  const Result result = solver.solve(solver.sample_targets(1)[0], open());
  EXPECT_EQ(result.outcome[0], Outcome::solved);
  for (const std::string& part : parts) {
    EXPECT_CONTAINS(asked, part);
    EXPECT_CONTAINS(solver.gpu_refusal(), part);
    EXPECT_CONTAINS(gpu_problem(), part);
  }
}

TEST(Availability, everything_is_there) {
  with_fakes([] {
    EXPECT_EQ(gpu_problem(), "");
    EXPECT_EQ(fake_driver().contexts, 0) << "asking takes no context";
    const Solver solver(Robot::preset("panda"));
    EXPECT_EQ(solver.device(), "cuda:0");
    EXPECT_EQ(solver.compiler(), "13.0");
    EXPECT_EQ(solver.gpu_refusal(), "");
    Work(3).run_and_check(solver);
  });
}

TEST(Availability, driver_of_plain_symbols) {
  with_fakes([] { Work(3).run_and_check(gpu_solver()); }, FAKE_DRIVER_PLAIN);
}

TEST(Availability, no_library) {
  with_fakes(
      [] {
        expect_refused({"no CUDA driver", "/nowhere/libcuda.so.1", "device 'cpu'"});
      },
      "/nowhere/libcuda.so.1");
}

TEST(Availability, every_symbol_missing) {
  with_fakes([] {
    fake_driver().lacks = "cuMemAlloc";
    expect_refused({"lacks cuMemAlloc", "update NVIDIA's driver"});
  });
  for (const char* symbol : {"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString",
                             "cuDevicePrimaryCtxRelease", "cuStreamQuery", "cuLaunchKernelEx"}) {
    with_fakes([symbol] {
      fake_driver().lacks = symbol;
      EXPECT_CONTAINS(message_of<DeviceError>([] { gpu_solver(); }), std::string("lacks ") + symbol);
    });
  }
}

TEST(Availability, driver_too_old) {
  with_fakes([] {
    fake_driver().version = 11080;
    expect_refused({"supports CUDA 11.8", "12.0 or newer", "update NVIDIA's driver"});
  });
}

TEST(Availability, driver_does_not_start) {
  with_fakes([] {
    fake_driver().fail("cuInit", 1, 803);
    expect_refused({"cuInit failed", "CUDA_ERROR_OF_THE_TEST, 803", "device 'cpu'"});
  });
  with_fakes([] {
    fake_driver().fail("cuDriverGetVersion");
    expect_refused({"cuDriverGetVersion failed"});
  });
}

TEST(Availability, no_gpu) {
  with_fakes([] {
    fake_driver().devices = 0;
    expect_refused({"this machine has none; use device 'cpu'"});
  });
}

TEST(Availability, index_out_of_range) {
  with_fakes([] {
    fake_driver().devices = 2;
    const auto make = [] { Solver(Robot::preset("panda"), {.device = "cuda:2"}); };
    EXPECT_CONTAINS(message_of<DeviceError>(make), "there is no GPU 2: this machine has 2");
    EXPECT_CONTAINS(message_of<DeviceError>(make), "cuda:0 .. cuda:1");
    EXPECT_EQ(gpu_problem(), "");
    EXPECT_EQ(Solver(Robot::preset("panda"), {.device = "cuda:1"}).device(), "cuda:1");
  });
}

TEST(Availability, current_gpu_is_the_default) {
  with_fakes([] {
    fake_driver().devices = 3;
    const auto second = cuda::Device::get(1);
    const cuda::Device::Scope scope(*second);
    EXPECT_EQ(Solver(Robot::preset("panda")).device(), "cuda:1");
    EXPECT_EQ(Solver(Robot::preset("panda"), {.device = "cuda"}).device(), "cuda:1");
  });
}

TEST(Availability, compute_capability_too_old) {
  with_fakes([] {
    fake_driver().major = 7;
    fake_driver().minor = 0;
    expect_refused({"Fake GPU", "compute capability 7.0", "7.5 or newer"});
  });
}

TEST(Availability, no_nvrtc) {
  with_fakes(
      [] {
        expect_refused({"pip install", "HJCDIK_NVRTC", "/nowhere/libnvrtc.so.13"});
      },
      FAKE_DRIVER, "/nowhere/libnvrtc.so.13");
}

TEST(Availability, nvrtc_lacks_a_symbol) {
  with_fakes(
      [] {
        expect_refused({"lacks nvrtcGetCUBIN", "pip install"});
      },
      FAKE_DRIVER, FAKE_NVRTC_NO_CUBIN);
}

// A program in the store needs no compiler.
TEST(Availability, stored_program_without_nvrtc) {
  const TemporaryFolder store;
  for (const char* nvrtc : {FAKE_NVRTC, "/nowhere/libnvrtc.so.13"}) {
    with_fakes(
        [&] {
          setenv("HJCDIK_CACHE_DIR", store.path.c_str(), 1);
          const Solver solver(Robot::preset("panda"));
          EXPECT_EQ(solver.device(), "cuda:0") << solver.gpu_refusal();
          EXPECT_EQ(solver.compiler(), "13.0");
          Work(3).run_and_check(solver);
        },
        FAKE_DRIVER, nvrtc);
  }
}

TEST(Availability, compilation_fails) {
  with_fakes([] {
    fake_nvrtc().fail_function = "nvrtcCompileProgram";
    try {
      gpu_solver();
      ADD_FAILURE() << "no error";
    } catch (const BuildError& error) {
      EXPECT_EQ(error.log(), fake_nvrtc().log);
      EXPECT_CONTAINS(error.what(), fake_nvrtc().log);
      EXPECT_CONTAINS(error.what(), "NVRTC_ERROR_OF_THE_TEST");
    }
    EXPECT_EQ(fake_nvrtc().programs, 0);
    EXPECT_EQ(fake_driver().alive(), 0);
    fake_nvrtc().fail_function.clear();
    Work(3).run_and_check(gpu_solver());
  });
}

TEST(Availability, every_call_of_nvrtc_fails) {
  with_fakes([] {
    for (const char* function : {"nvrtcCreateProgram", "nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs",
                                 "nvrtcGetCUBINSize", "nvrtcGetCUBIN"}) {
      fake_nvrtc().fail_function = function;
      message_of<BuildError>([] { gpu_solver(); });
      EXPECT_EQ(fake_nvrtc().programs, 0) << function;
      EXPECT_EQ(fake_driver().alive(), 0) << function;
    }
    fake_nvrtc().fail_function.clear();
    Work(3).run_and_check(gpu_solver());
  });
}

TEST(Availability, newest_nvrtc_that_the_driver_allows) {
  const TemporaryFolder folder;
  for (const char* name : {"libnvrtc.so.11", "libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so.99"})
    std::filesystem::copy_file(FAKE_NVRTC, folder.path + "/" + name);
  for (const char* name : {"libnvrtc.so.13.junk", "libnvrtc.so", "libnvrtc.so.x"})
    std::fclose(std::fopen((folder.path + "/" + name).c_str(), "w"));
  for (const auto& [version, compiler] : {std::pair{13010, "13.0"}, {12040, "12.0"}}) {
    with_fakes([&, version = version, compiler = compiler] {
      fake_driver().version = version;
      unsetenv("HJCDIK_NVRTC");
      cuda::set_compiler_folders({"/nowhere", folder.path});
      EXPECT_EQ(gpu_solver().compiler(), compiler);
      setenv("HJCDIK_NVRTC", FAKE_NVRTC, 1);
    });
  }
}

// A GPU newer than the compiler: its driver finishes the program. An older one is out of luck.
TEST(Availability, architectures) {
  const auto option = [](int major, int minor) {
    std::string found;
    with_fakes([&] {
      fake_driver().major = major;
      fake_driver().minor = minor;
      fake_nvrtc().architectures = {80, 90};
      Work(3).run_and_check(gpu_solver());
      const auto& options = fake_nvrtc().options;
      const std::string expected = major == 9    ? "-arch=sm_90"
                                   : major == 10 ? "-arch=compute_90"
                                                 : "-arch=compute_80";
      EXPECT_NE(std::find(options.begin(), options.end(), expected), options.end());
    });
  };
  option(9, 0);
  option(10, 3);
  option(8, 6);
  with_fakes([] {
    fake_driver().major = 7;
    fake_driver().minor = 5;
    fake_nvrtc().architectures = {80, 90};
    EXPECT_CONTAINS(message_of<DeviceError>([] { gpu_solver(); }), "capability 7.5 is older than NVRTC 13.0");
  });
}

TEST(Availability, driver_refuses_the_program) {
  with_fakes([] {
    fake_driver().fail("cuModuleLoadData", 1, 218);
    EXPECT_CONTAINS(message_of<DeviceError>([] { gpu_solver(); }), "cuModuleLoadData failed");
    EXPECT_EQ(fake_driver().alive(), 0);
    Work(3).run_and_check(gpu_solver());
    EXPECT_EQ(fake_nvrtc().compiled, 1);
    // From the store, such as after the driver was set back: compiled once more.
    fake_driver().fail("cuModuleLoadData", 1, 222);
    Work(3).run_and_check(gpu_solver());
    EXPECT_EQ(fake_nvrtc().compiled, 2);
    Work(3).run_and_check(gpu_solver());
    EXPECT_EQ(fake_nvrtc().compiled, 2);
  });
}

TEST(Availability, one_compilation_for_all) {
  with_fakes([] {
    const Solver first = gpu_solver(), second = gpu_solver();
    EXPECT_EQ(fake_nvrtc().compiled, 1);
    EXPECT_EQ(fake_driver().modules, 1);
    EXPECT_EQ(fake_driver().contexts, 1);
    const Solver other(Robot::preset("ur5e"), {.device = "cuda:0"});
    EXPECT_EQ(fake_nvrtc().compiled, 2);
    EXPECT_EQ(fake_driver().modules, 2);
  });
}

// Every call that making a solver is made of.
TEST(Availability, every_call_of_the_driver_fails) {
  with_fakes([] {
    gpu_problem();  // the driver loads
    FakeDriver& fake = fake_driver();
    const std::vector<std::string> harmless = {"cuCtxGetCurrent", "cuCtxPopCurrent"};
    for (int n = 1;; n++) {
      ASSERT_LT(n, 100);
      fake.fail("", n);
      std::string message;
      try {
        const Solver solver = gpu_solver();
        fake.fail_at = 0;
        if (fake.failed.empty()) break;
        EXPECT_NE(std::find(harmless.begin(), harmless.end(), fake.failed), harmless.end()) << fake.failed;
      } catch (const DeviceError& error) {
        EXPECT_CONTAINS(error.what(), fake.failed);
        EXPECT_CONTAINS(error.what(), "GPU 0");
      }
      EXPECT_EQ(fake.alive(), 0) << "after " << fake.failed;
      fake.work_again();
      Work(1).run_and_check(gpu_solver());
    }
  });
}

}  // namespace
}  // namespace hjcdik::test
