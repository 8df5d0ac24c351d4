#include "cuda/driver.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include <hjcdik/error.hpp>

namespace hjcdik::cuda {
namespace {

// The ABI whose function versions the declarations in driver.hpp follow.
constexpr int kAbiVersion = 12000;

using GetProcAddress = CUresult (*)(const char*, void**, int, std::uint64_t);
using GetProcAddress2 = CUresult (*)(const char*, void**, int, std::uint64_t, int*);

// Asks the driver for the version of a function that kAbiVersion means; a driver too old to be asked
// has the versioned names as symbols.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {
    get2_ = reinterpret_cast<GetProcAddress2>(dlsym(library, "cuGetProcAddress_v2"));
    get_ = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress"));
  }

  void* find(const std::string& name, const char* versioned) const {
    void* address = nullptr;
    int status = 0;
    if (get2_ != nullptr && get2_(name.c_str(), &address, kAbiVersion, 0, &status) == kSuccess &&
        address != nullptr) {
      return address;
    }
    if (get_ != nullptr && get_(name.c_str(), &address, kAbiVersion, 0) == kSuccess && address != nullptr) {
      return address;
    }
    return dlsym(library_, versioned);
  }

 private:
  void* library_;
  GetProcAddress2 get2_;
  GetProcAddress get_;
};

struct Loaded {
  Driver driver{};
  std::string problem;
  int process = getpid();
};

void load(Loaded& loaded) {
  const char* chosen = std::getenv("HJCDIK_LIBCUDA");
  const std::string file = chosen != nullptr && *chosen != '\0' ? chosen : "libcuda.so.1";
  // Never closed: the driver keeps threads and handlers of its own.
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.problem = "no CUDA driver on this machine (" + std::string(dlerror()) +
                     "); install NVIDIA's driver, or use device 'cpu'";
    return;
  }
  const Symbols symbols(library);
  Driver& d = loaded.driver;
  const auto get = [&](auto& function, const std::string& name, const char* version = "") {
    void* address = symbols.find("cu" + name, ("cu" + name + version).c_str());
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    if (address == nullptr && loaded.problem.empty()) {
      loaded.problem = "the CUDA driver '" + file + "' lacks cu" + name +
                       "; update NVIDIA's driver to one of CUDA 12 or newer, or use device 'cpu'";
    }
  };
  get(d.Init, "Init");
  get(d.DriverGetVersion, "DriverGetVersion");
  get(d.GetErrorName, "GetErrorName");
  get(d.GetErrorString, "GetErrorString");
  get(d.DeviceGetCount, "DeviceGetCount");
  get(d.DeviceGet, "DeviceGet");
  get(d.DeviceGetName, "DeviceGetName");
  get(d.DeviceGetAttribute, "DeviceGetAttribute");
  get(d.DevicePrimaryCtxRetain, "DevicePrimaryCtxRetain");
  get(d.DevicePrimaryCtxRelease, "DevicePrimaryCtxRelease", "_v2");
  get(d.CtxGetCurrent, "CtxGetCurrent");
  get(d.CtxGetDevice, "CtxGetDevice");
  get(d.CtxPushCurrent, "CtxPushCurrent", "_v2");
  get(d.CtxPopCurrent, "CtxPopCurrent", "_v2");
  get(d.ModuleLoadData, "ModuleLoadData");
  get(d.ModuleUnload, "ModuleUnload");
  get(d.ModuleGetFunction, "ModuleGetFunction");
  get(d.OccupancyMaxActiveBlocksPerMultiprocessor, "OccupancyMaxActiveBlocksPerMultiprocessor");
  get(d.MemAlloc, "MemAlloc", "_v2");
  get(d.MemFree, "MemFree", "_v2");
  get(d.MemHostAlloc, "MemHostAlloc");
  get(d.MemFreeHost, "MemFreeHost");
  get(d.MemHostGetDevicePointer, "MemHostGetDevicePointer", "_v2");
  get(d.MemcpyHtoDAsync, "MemcpyHtoDAsync", "_v2");
  get(d.MemcpyDtoHAsync, "MemcpyDtoHAsync", "_v2");
  get(d.MemsetD32Async, "MemsetD32Async");
  get(d.StreamCreate, "StreamCreate");
  get(d.StreamDestroy, "StreamDestroy", "_v2");
  get(d.StreamSynchronize, "StreamSynchronize");
  get(d.StreamQuery, "StreamQuery");
  get(d.LaunchKernelEx, "LaunchKernelEx");
  if (!loaded.problem.empty()) return;

  if (const CUresult result = d.DriverGetVersion(&d.version); result != kSuccess) {
    loaded.problem = describe(d, "cuDriverGetVersion", result);
  } else if (d.version < kAbiVersion) {
    loaded.problem = "the CUDA driver supports CUDA " + std::to_string(d.version / 1000) + "." +
                     std::to_string(d.version % 1000 / 10) +
                     ", 12.0 or newer is needed; update NVIDIA's driver, or use device 'cpu'";
  } else if (const CUresult status = d.Init(0); status != kSuccess) {
    loaded.problem = describe(d, "cuInit", status) + "; no usable GPU, use device 'cpu'";
  }
}

const Loaded& the_driver() {
  static const Loaded* loaded = [] {
    auto* l = new Loaded;  // for the process's life
    load(*l);
    return l;
  }();
  return *loaded;
}

}  // namespace

const Driver& driver() {
  if (const std::string problem = driver_problem(); !problem.empty()) throw DeviceError(problem);
  return the_driver().driver;
}

std::string driver_problem() {
  const Loaded& loaded = the_driver();
  if (loaded.problem.empty() && loaded.process != getpid()) {
    return "the CUDA driver was already in use when this process was forked, and CUDA cannot go on in the "
           "child; start workers with the 'spawn' method, or use device 'cpu' in them";
  }
  return loaded.problem;
}

std::string describe(const Driver& driver, const char* what, CUresult result) {
  const char *name = nullptr, *text = nullptr;
  if (driver.GetErrorName == nullptr || driver.GetErrorName(result, &name) != kSuccess || name == nullptr)
    name = "?";
  if (driver.GetErrorString == nullptr || driver.GetErrorString(result, &text) != kSuccess ||
      text == nullptr) {
    text = "unknown error";
  }
  return std::string(what) + " failed: " + text + " (" + name + ", " + std::to_string(result) + ")";
}

}  // namespace hjcdik::cuda
