// A CUDA driver without a GPU, for tests. Streams keep their work until somebody waits for it, pinned memory
// is read and written only then, device addresses are no addresses of the host's, and every access is
// checked. Kernels do not solve anything: they write rows from which a test sees that each target's result
// came to its place.
//
// Compiled with FAKE_PLAIN it is an old driver: its functions are plain symbols and it has no
// cuGetProcAddress.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "core/random.h"
#include "cuda/driver.hpp"
#include "cuda/kernels/params.h"
#include "fakes/fake.hpp"

using namespace hjcdik::cuda;
using hjcdik::test::FakeDriver;
using hjcdik::test::kLost;

#define EXPORTED extern "C" __attribute__((visibility("default")))
#ifdef FAKE_PLAIN
#define DRIVER_API EXPORTED
#else
#define DRIVER_API static
#endif

EXPORTED FakeDriver* fake_driver() {
  static FakeDriver fake;
  return &fake;
}

namespace hjcdik::cuda {
struct CUctx_st {
  int device, retained = 0;
};
struct CUmod_st {
  int dof;
};
struct CUfunc_st {
  int dof;
  bool is_search, is_judge;
};
struct CUstream_st {
  std::vector<std::function<void()>> work;
  std::thread::id owner;  // who used it last
};
}  // namespace hjcdik::cuda

namespace {

constexpr CUresult kInvalidValue = 1, kNotInitialized = 3, kInvalidDevice = 101, kInvalidImage = 200,
                   kInvalidContext = 201, kNotFound = 500;
// Added to addresses of buffers: what uses them as the host's own crashes.
constexpr CUdeviceptr kDevice = CUdeviceptr{1} << 60;

std::recursive_mutex mutex;
FakeDriver& fake = *fake_driver();
int process = 0;  // that called cuInit
CUresult lost = kSuccess;
std::map<int, CUctx_st> contexts;
std::map<CUdeviceptr, std::size_t> device_buffers, pinned_buffers;  // by the host's address
std::map<CUstream, bool> streams;
std::map<CUfunction, bool> functions;
CUstream_st default_stream;
thread_local std::vector<CUcontext> current;

void misuse(const std::string& text) { fake.misuse.push_back(text); }

enum Need { kNothing, kInit, kContext };
// What gives something back does so even where it reports a failure.
enum Kind { kPlain, kRelease };

CUresult call(const char* name, Need need, Kind kind, const std::function<CUresult()>& body) {
  std::lock_guard lock(mutex);
  fake.calls++;
  fake.calls_of[name]++;
  CUresult failure = kSuccess;
  if (fake.fail_at > 0 && (fake.fail_function.empty() || fake.fail_function == name) && --fake.fail_at == 0) {
    failure = fake.fail_code;
    fake.failed = name;
    if (failure >= 700 && failure < 720) lost = failure;
    if (kind != kRelease) return failure;
  }
  if (need != kNothing && process != getpid()) return kNotInitialized;
  if (need == kContext) {
    if (lost != kSuccess && kind != kRelease) return lost;
    if (current.empty()) {
      misuse(std::string(name) + " without a context");
      return kInvalidContext;
    }
  }
  const CUresult result = body();
  return failure != kSuccess ? failure : lost != kSuccess && need == kContext ? lost : result;
}

// The host's address of `bytes` bytes at a device address, all inside one buffer.
char* memory(CUdeviceptr address, std::size_t bytes) {
  const CUdeviceptr host = address - kDevice;
  for (const auto* buffers : {&device_buffers, &pinned_buffers}) {
    auto after = buffers->upper_bound(host);
    if (after == buffers->begin()) continue;
    const auto& [begin, size] = *--after;
    if (address >= kDevice && host + bytes <= begin + size) return reinterpret_cast<char*>(host);
  }
  throw std::out_of_range("access outside of all buffers");
}

template <class T>
T* array(T* address, long long count) {
  if (count == 0) return nullptr;
  return reinterpret_cast<T*>(memory(reinterpret_cast<CUdeviceptr>(address), std::size_t(count) * sizeof(T)));
}

bool is_pinned(const void* host) {
  const auto address = reinterpret_cast<CUdeviceptr>(host);
  auto after = pinned_buffers.upper_bound(address);
  return after != pinned_buffers.begin() && address < (--after)->first + after->second;
}

CUstream_st& stream_of(CUstream stream) {
  if (stream != nullptr && streams.count(stream) == 0) throw std::invalid_argument("no such stream");
  CUstream_st& s = stream == nullptr ? default_stream : *stream;
  s.owner = std::this_thread::get_id();
  return s;
}

void run_one(CUstream_st& stream) {
  const auto work = std::move(stream.work.front());
  stream.work.erase(stream.work.begin());
  if (lost != kSuccess) return;
  try {
    work();
  } catch (const std::exception& error) {
    misuse(error.what());
    lost = kLost;
  }
}

void run(CUstream_st& stream) {
  while (!stream.work.empty()) run_one(stream);
}

// Freeing memory waits for the GPU.
void run_own_streams() {
  const auto owned = [](const CUstream_st& s) { return s.owner == std::this_thread::get_id(); };
  for (auto& [stream, unused] : streams) {
    if (owned(*stream)) run(*stream);
  }
  if (owned(default_stream)) run(default_stream);
}

CUresult enqueue(CUstream stream, std::function<void()> work) {
  try {
    stream_of(stream).work.push_back(std::move(work));
    return kSuccess;
  } catch (const std::exception& error) {
    misuse(error.what());
    return kInvalidValue;
  }
}

// --- kernels ---

const double* target_pose(const double* targets, const double* one, long long stride, u32 t) {
  return targets == nullptr ? one : array(targets + t * stride, 7);
}

void check_counter(const u32* counter, const char* name) {
  if (*counter != 0) throw std::logic_error(std::string(name) + " is not zero before the launch");
}

void search(const SearchParams& p, int dof) {
  const u32 count = p.list_count != nullptr ? *array(p.list_count, 1) : p.count;
  if (p.next != nullptr) {
    check_counter(array(p.next, 1), "the work counter");
    *array(p.next, 1) = count;
  }
  array(p.seed_pose, 12 * hjcdik::core::kSeedTable);
  array(p.seed_q, hjcdik::core::kSeedTable * dof);
  if (p.leftover_count != nullptr && p.job_begin == 0) {
    check_counter(array(p.leftover_count, 1), "the count of paused targets");
  }
  const u32* list = p.list != nullptr ? array(p.list, count) : nullptr;
  for (u32 k = 0; k < count; k++) {
    const u32 t = list != nullptr ? list[k] : k;
    if (p.job_q != nullptr) {
      const int* range = array(p.job_range + 2 * k, 2);
      array(p.starts + 12ll * t, 12);
      for (int job = range[0]; job < range[1]; job++) {
        const long long row = (long long)k * p.jobs + job - range[0];
        float* q = array(p.job_q + row * dof, dof);
        for (int i = 0; i < dof; i++) q[i] = i == 0 ? -2.0f + 0.1f * float(job % 40) : -1.0f;
        float* errors = array(p.job_errors + 2 * row, 2);
        errors[0] = errors[1] = 0;
      }
      continue;
    }
    int* hit = array(p.hit_job + t, 1);
    if (p.pause_job < p.job_end && p.job_begin == 0 && fake.pause_every > 0 && t % fake.pause_every == 0) {
      *array(p.near_job + t, 1) = 3;
      *array(p.near_score + t, 1) = 1;
      u32* n = array(p.leftover_count, 1);
      *array(p.leftover + *n, 1) = t;
      ++*n;
      continue;
    }
    if (p.job_begin > 0 && *array(p.near_job + t, 1) != 3) throw std::logic_error("nearest end forgotten");
    *hit = p.resume ? *hit + 1 : p.job_begin;
    const double* pose = target_pose(p.targets, p.target, p.target_stride, t);
    float* q = array(p.hit_q + (long long)t * dof, dof);
    for (int i = 0; i < dof; i++) q[i] = float(pose[0]) + 0.125f * float(i);
  }
}

void polish(const PolishParams& p, int dof) {
  const u32* list = p.list != nullptr ? array(p.list, p.count) : nullptr;
  for (u32 place = 0; place < p.count; place++) {
    const u32 r = list != nullptr ? list[place] : place;
    const long long at = p.of_targets && p.compact ? place : r;
    *array(p.distance + at, 1) = 1e-12;
    *array(p.angle + at, 1) = 2e-12;
    if (!p.of_targets) {
      const double* start = array(p.starts + 12ll * r, 12);
      if (start[0] == 0 && start[1] == 0 && start[2] == 0) throw std::logic_error("a start is no frame");
      array(p.row_q + (long long)r * dof, dof);
      double* tool = array(p.tool + 12ll * r, 12);
      for (int k = 0; k < 12; k++) tool[k] = k == 0 || k == 4 || k == 8 ? 1 : 0;
      continue;
    }
    const double* pose = target_pose(p.targets, p.target, p.target_stride, r);
    const float* hit_q = array(p.hit_q + (long long)r * dof, dof);
    double* q = array(p.q + at * dof, dof);
    for (int i = 0; i < dof; i++) q[i] = hit_q[i];
    std::memcpy(array(p.pose + at * 7, 7), pose, 7 * sizeof(double));
    *array(p.found + at, 1) = 1;
    // Up to three times, so that the lists of what is to be tried again differ.
    const u32 every = u32(fake.retry_every);
    const bool retry = every > 0 && r % every == 0 && *array(p.hit_job + r, 1) < int(1 + r / every % 3);
    *array(p.outcome + at, 1) = retry ? kRetry : 0;
    if (retry && p.retry != nullptr) {
      u32& n = array(p.counters, kCounters)[kRetryCount];
      *array(p.retry + n, 1) = r;
      n++;
    }
  }
  if (p.counters == nullptr) return;
  u32* counters = array(p.counters, kCounters);
  check_counter(counters + kBlocksDone, "the count of blocks");
  const u32 retries = counters[kRetryCount];
  std::fill_n(counters, int(kCounters), 0u);
  if (p.mailbox != nullptr) *array(p.mailbox, 1) = {retries, p.ticket};
}

}  // namespace

// --- the driver's functions ---

DRIVER_API CUresult cuInit(unsigned) {
  return call("cuInit", kNothing, kPlain, [] {
    process = getpid();
    return kSuccess;
  });
}

DRIVER_API CUresult cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", kNothing, kPlain, [&] {
    *version = fake.version;
    return kSuccess;
  });
}

DRIVER_API CUresult cuGetErrorName(CUresult error, const char** name) {
  return call("cuGetErrorName", kNothing, kPlain, [&] {
    *name = error == kErrorOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_THE_TEST";
    return kSuccess;
  });
}

DRIVER_API CUresult cuGetErrorString(CUresult error, const char** text) {
  return call("cuGetErrorString", kNothing, kPlain, [&] {
    *text = error == kErrorOutOfMemory ? "out of memory" : "made to fail";
    return kSuccess;
  });
}

DRIVER_API CUresult cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", kInit, kPlain, [&] {
    *count = fake.devices;
    return kSuccess;
  });
}

DRIVER_API CUresult cuDeviceGet(CUdevice* device, int index) {
  return call("cuDeviceGet", kInit, kPlain, [&] {
    if (index < 0 || index >= fake.devices) return kInvalidDevice;
    *device = index;
    return kSuccess;
  });
}

DRIVER_API CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  return call("cuDeviceGetName", kInit, kPlain, [&] {
    std::strncpy(name, "Fake GPU", std::size_t(size));
    return kSuccess;
  });
}

DRIVER_API CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice) {
  return call("cuDeviceGetAttribute", kInit, kPlain, [&] {
    switch (DeviceAttribute(attribute)) {
      case DeviceAttribute::compute_major: *value = fake.major; return kSuccess;
      case DeviceAttribute::compute_minor: *value = fake.minor; return kSuccess;
      case DeviceAttribute::multiprocessors: *value = 4; return kSuccess;
      case DeviceAttribute::warp_size: *value = 32; return kSuccess;
    }
    return kInvalidValue;
  });
}

DRIVER_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return call("cuDevicePrimaryCtxRetain", kInit, kPlain, [&] {
    CUctx_st& c = contexts.try_emplace(device, CUctx_st{device}).first->second;
    c.retained++;
    fake.contexts++;
    *context = &c;
    return kSuccess;
  });
}

DRIVER_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return call("cuDevicePrimaryCtxRelease", kInit, kRelease, [&] {
    CUctx_st& c = contexts.at(device);
    if (c.retained-- <= 0) misuse("a context released more often than retained");
    fake.contexts--;
    return kSuccess;
  });
}

DRIVER_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice) {
  return call("cuDevicePrimaryCtxReset", kInit, kPlain, [] {
    fake.context_resets++;
    return kSuccess;
  });
}

DRIVER_API CUresult cuCtxDestroy_v2(CUcontext) {
  return call("cuCtxDestroy", kInit, kPlain, [] {
    fake.context_resets++;
    return kSuccess;
  });
}

DRIVER_API CUresult cuCtxGetCurrent(CUcontext* context) {
  return call("cuCtxGetCurrent", kInit, kPlain, [&] {
    *context = current.empty() ? nullptr : current.back();
    return kSuccess;
  });
}

DRIVER_API CUresult cuCtxGetDevice(CUdevice* device) {
  return call("cuCtxGetDevice", kContext, kPlain, [&] {
    *device = current.back()->device;
    return kSuccess;
  });
}

DRIVER_API CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return call("cuCtxPushCurrent", kInit, kPlain, [&] {
    if (context->retained == 0) return kInvalidContext;
    current.push_back(context);
    return kSuccess;
  });
}

DRIVER_API CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return call("cuCtxPopCurrent", kContext, kRelease, [&] {
    *context = current.back();
    current.pop_back();
    return kSuccess;
  });
}

// Images are texts that the fake NVRTC wrote.
DRIVER_API CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return call("cuModuleLoadData", kContext, kPlain, [&] {
    int dof = 0;
    if (std::sscanf(static_cast<const char*>(image), "fake image dof %d", &dof) != 1) return kInvalidImage;
    *module = new CUmod_st{dof};
    fake.modules++;
    return kSuccess;
  });
}

DRIVER_API CUresult cuModuleUnload(CUmodule module) {
  return call("cuModuleUnload", kContext, kRelease, [&] {
    run_own_streams();
    delete module;
    fake.modules--;
    return kSuccess;
  });
}

DRIVER_API CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return call("cuModuleGetFunction", kContext, kPlain, [&] {
    static std::map<std::pair<int, std::string>, CUfunc_st> all;
    const std::string text = name;
    if (text != "hjcdik_search" && text != "hjcdik_polish" && text != "hjcdik_judge") return kNotFound;
    const CUfunc_st f{module->dof, text == "hjcdik_search", text == "hjcdik_judge"};
    *function = &all.try_emplace({module->dof, text}, f).first->second;
    functions[*function] = true;
    return kSuccess;
  });
}

DRIVER_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, std::size_t) {
  return call("cuOccupancyMaxActiveBlocksPerMultiprocessor", kContext, kPlain, [&] {
    *blocks = 2;
    return kSuccess;
  });
}

DRIVER_API CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  return call("cuMemAlloc", kContext, kPlain, [&] {
    if (bytes == 0) return kInvalidValue;
    void* host = std::malloc(bytes);
    std::memset(host, 0xee, bytes);  // whatever was there before
    device_buffers[reinterpret_cast<CUdeviceptr>(host)] = bytes;
    *address = reinterpret_cast<CUdeviceptr>(host) + kDevice;
    fake.device_buffers++;
    fake.allocations++;
    return kSuccess;
  });
}

DRIVER_API CUresult cuMemFree_v2(CUdeviceptr address) {
  return call("cuMemFree", kContext, kRelease, [&] {
    run_own_streams();
    if (device_buffers.erase(address - kDevice) == 0) {
      misuse("cuMemFree of what is no buffer");
      return kInvalidValue;
    }
    std::free(reinterpret_cast<void*>(address - kDevice));
    fake.device_buffers--;
    return kSuccess;
  });
}

DRIVER_API CUresult cuMemHostAlloc(void** host, std::size_t bytes, unsigned) {
  return call("cuMemHostAlloc", kContext, kPlain, [&] {
    *host = std::malloc(bytes);
    std::memset(*host, 0xdd, bytes);
    pinned_buffers[reinterpret_cast<CUdeviceptr>(*host)] = bytes;
    fake.pinned_buffers++;
    fake.allocations++;
    return kSuccess;
  });
}

DRIVER_API CUresult cuMemFreeHost(void* host) {
  return call("cuMemFreeHost", kContext, kRelease, [&] {
    run_own_streams();
    if (pinned_buffers.erase(reinterpret_cast<CUdeviceptr>(host)) == 0) {
      misuse("cuMemFreeHost of what is no buffer");
      return kInvalidValue;
    }
    std::free(host);
    fake.pinned_buffers--;
    return kSuccess;
  });
}

DRIVER_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* host, unsigned) {
  return call("cuMemHostGetDevicePointer", kContext, kPlain, [&] {
    *address = reinterpret_cast<CUdeviceptr>(host) + kDevice;
    return kSuccess;
  });
}

// Pinned memory is read when the copy runs, other memory before the call returns.
DRIVER_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes,
                                         CUstream stream) {
  return call("cuMemcpyHtoDAsync", kContext, kPlain, [&] {
    if (is_pinned(from)) {
      return enqueue(stream, [=] { std::memcpy(memory(to, bytes), from, bytes); });
    }
    std::vector<char> copy(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    return enqueue(stream, [to, copy = std::move(copy)] {
      std::memcpy(memory(to, copy.size()), copy.data(), copy.size());
    });
  });
}

// Likewise: a copy to other memory is complete when the call returns.
DRIVER_API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return call("cuMemcpyDtoHAsync", kContext, kPlain, [&] {
    const CUresult result = enqueue(stream, [=] { std::memcpy(to, memory(from, bytes), bytes); });
    if (result == kSuccess && !is_pinned(to)) run(stream_of(stream));
    return result;
  });
}

DRIVER_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  return call("cuMemsetD32Async", kContext, kPlain, [&] {
    return enqueue(stream, [=] {
      char* at = memory(to, 4 * count);
      for (std::size_t i = 0; i < count; i++) std::memcpy(at + 4 * i, &value, 4);
    });
  });
}

DRIVER_API CUresult cuStreamCreate(CUstream* stream, unsigned) {
  return call("cuStreamCreate", kContext, kPlain, [&] {
    *stream = new CUstream_st;
    streams[*stream] = true;
    fake.streams++;
    return kSuccess;
  });
}

DRIVER_API CUresult cuStreamDestroy_v2(CUstream stream) {
  return call("cuStreamDestroy", kContext, kRelease, [&] {
    if (streams.count(stream) == 0) {
      misuse("cuStreamDestroy of what is no stream");
      return kInvalidValue;
    }
    run(*stream);
    streams.erase(stream);
    delete stream;
    fake.streams--;
    return kSuccess;
  });
}

DRIVER_API CUresult cuStreamSynchronize(CUstream stream) {
  return call("cuStreamSynchronize", kContext, kPlain, [&] {
    run(stream_of(stream));
    return kSuccess;
  });
}

// Each question finds the stream one piece of work further.
DRIVER_API CUresult cuStreamQuery(CUstream stream) {
  return call("cuStreamQuery", kContext, kPlain, [&] {
    CUstream_st& s = stream_of(stream);
    if (s.work.empty()) return kSuccess;
    run_one(s);
    return kErrorNotReady;
  });
}

DRIVER_API CUresult cuLaunchKernelEx(const LaunchConfig* c, CUfunction function, void** arguments, void**) {
  return call("cuLaunchKernelEx", kContext, kPlain, [&] {
    if (functions.count(function) == 0 || c->grid[0] == 0 || c->grid[1] != 1 || c->grid[2] != 1 ||
        c->block[0] != 128 || c->block[1] != 1 || c->block[2] != 1) {
      misuse("cuLaunchKernelEx with a bad function or shape");
      return kInvalidValue;
    }
    // Launches that overlap the one before came with compute capability 9.0.
    if (c->attribute_count > 0 && fake.major < 9) return kInvalidValue;
    fake.launches++;
    if (fake.drop_results) return enqueue(c->stream, [] {});
    const int dof = function->dof;
    if (function->is_judge) {
      misuse("a launch of hjcdik_judge, which only real GPUs run");
      return kInvalidValue;
    }
    if (function->is_search) {
      return enqueue(c->stream, [dof, p = *static_cast<SearchParams*>(arguments[0])] { search(p, dof); });
    }
    return enqueue(c->stream, [dof, p = *static_cast<PolishParams*>(arguments[0])] { polish(p, dof); });
  });
}

#ifndef FAKE_PLAIN
EXPORTED CUresult cuGetProcAddress_v2(const char* name, void** address, int, std::uint64_t, int* status) {
#define ENTRY(function, version) \
  { "cu" #function, reinterpret_cast<void*>(cu##function##version) }
  static const std::map<std::string, void*> table = {
      ENTRY(Init, ),
      ENTRY(DriverGetVersion, ),
      ENTRY(GetErrorName, ),
      ENTRY(GetErrorString, ),
      ENTRY(DeviceGetCount, ),
      ENTRY(DeviceGet, ),
      ENTRY(DeviceGetName, ),
      ENTRY(DeviceGetAttribute, ),
      ENTRY(DevicePrimaryCtxRetain, ),
      ENTRY(DevicePrimaryCtxRelease, _v2),
      ENTRY(DevicePrimaryCtxReset, _v2),
      ENTRY(CtxDestroy, _v2),
      ENTRY(CtxGetCurrent, ),
      ENTRY(CtxGetDevice, ),
      ENTRY(CtxPushCurrent, _v2),
      ENTRY(CtxPopCurrent, _v2),
      ENTRY(ModuleLoadData, ),
      ENTRY(ModuleUnload, ),
      ENTRY(ModuleGetFunction, ),
      ENTRY(OccupancyMaxActiveBlocksPerMultiprocessor, ),
      ENTRY(MemAlloc, _v2),
      ENTRY(MemFree, _v2),
      ENTRY(MemHostAlloc, ),
      ENTRY(MemFreeHost, ),
      ENTRY(MemHostGetDevicePointer, _v2),
      ENTRY(MemcpyHtoDAsync, _v2),
      ENTRY(MemcpyDtoHAsync, _v2),
      ENTRY(MemsetD32Async, ),
      ENTRY(StreamCreate, ),
      ENTRY(StreamDestroy, _v2),
      ENTRY(StreamSynchronize, ),
      ENTRY(StreamQuery, ),
      ENTRY(LaunchKernelEx, ),
  };
#undef ENTRY
  const auto found = table.find(name);
  const bool has = found != table.end() && fake.lacks != name;
  *address = has ? found->second : nullptr;
  if (status != nullptr) *status = has ? 0 : 1;
  return has ? kSuccess : kNotFound;
}
#endif
