// The CUDA driver, loaded at run time: own declarations of the few functions used, so that the library
// builds and runs on machines that have neither CUDA nor a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hjcdik::cuda {

// Opaque handles and numbers as in NVIDIA's documentation of the driver API.
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;

// As CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id;
  int padding;
  union {
    char bytes[64];
    int value;
  };
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  CUstream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
constexpr int kAttributeProgrammaticStreamSerialization = 6;

constexpr CUresult kSuccess = 0, kErrorOutOfMemory = 2, kErrorInvalidImage = 200, kErrorNotReady = 600;
constexpr unsigned kStreamNonBlocking = 1, kHostAllocPortable = 1, kHostAllocMapped = 2;

enum class DeviceAttribute : int {
  warp_size = 10,
  multiprocessors = 16,
  compute_major = 75,
  compute_minor = 76,
};

struct Driver {
  CUresult (*Init)(unsigned);
  CUresult (*DriverGetVersion)(int*);
  CUresult (*GetErrorName)(CUresult, const char**);
  CUresult (*GetErrorString)(CUresult, const char**);
  CUresult (*DeviceGetCount)(int*);
  CUresult (*DeviceGet)(CUdevice*, int);
  CUresult (*DeviceGetName)(char*, int, CUdevice);
  CUresult (*DeviceGetAttribute)(int*, int, CUdevice);
  CUresult (*DevicePrimaryCtxRetain)(CUcontext*, CUdevice);
  CUresult (*DevicePrimaryCtxRelease)(CUdevice);
  CUresult (*CtxGetCurrent)(CUcontext*);
  CUresult (*CtxGetDevice)(CUdevice*);
  CUresult (*CtxPushCurrent)(CUcontext);
  CUresult (*CtxPopCurrent)(CUcontext*);
  CUresult (*ModuleLoadData)(CUmodule*, const void*);
  CUresult (*ModuleUnload)(CUmodule);
  CUresult (*ModuleGetFunction)(CUfunction*, CUmodule, const char*);
  CUresult (*OccupancyMaxActiveBlocksPerMultiprocessor)(int*, CUfunction, int, std::size_t);
  CUresult (*MemAlloc)(CUdeviceptr*, std::size_t);
  CUresult (*MemFree)(CUdeviceptr);
  CUresult (*MemHostAlloc)(void**, std::size_t, unsigned);
  CUresult (*MemFreeHost)(void*);
  CUresult (*MemHostGetDevicePointer)(CUdeviceptr*, void*, unsigned);
  CUresult (*MemcpyHtoDAsync)(CUdeviceptr, const void*, std::size_t, CUstream);
  CUresult (*MemcpyDtoHAsync)(void*, CUdeviceptr, std::size_t, CUstream);
  CUresult (*MemsetD32Async)(CUdeviceptr, unsigned, std::size_t, CUstream);
  CUresult (*StreamCreate)(CUstream*, unsigned);
  CUresult (*StreamDestroy)(CUstream);
  CUresult (*StreamSynchronize)(CUstream);
  CUresult (*StreamQuery)(CUstream);
  CUresult (*LaunchKernelEx)(const LaunchConfig*, CUfunction, void**, void**);

  int version = 0;  // such as 13000
};

// The driver, loaded and initialised on the first call; throws DeviceError with the reason and the
// remedy where that failed, and in a child forked after that. HJCDIK_LIBCUDA names another library file.
const Driver& driver();

// Why driver() would throw; empty where it would not.
std::string driver_problem();

// "cuMemAlloc failed: out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
std::string describe(const Driver& driver, const char* what, CUresult result);

}  // namespace hjcdik::cuda
