#include "cuda/device.hpp"

#include <unistd.h>

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "cuda/kernels/params.h"
#include "cuda/nvrtc.hpp"
#include "model/embedded.hpp"
#include "store/store.hpp"

namespace hjcdik::cuda {
namespace {

constexpr const char* kMainSource = "cuda/kernels/solve.cu";

// In the entry's key: a number for what changes the program but stands in no source.
constexpr const char* kBuild = "solve 1";

// The GPU whose context is current on this thread, else 0.
int current_index() {
  const Driver& d = driver();
  CUcontext current = nullptr;
  CUdevice device = 0;
  // In the primary contexts that we use, a device's handle is its index.
  const bool found =
      d.CtxGetCurrent(&current) == kSuccess && current != nullptr && d.CtxGetDevice(&device) == kSuccess;
  return found ? device : 0;
}

}  // namespace

std::shared_ptr<Device> Device::get(int index) {
  static std::mutex mutex;
  static auto& devices = *new std::map<int, std::weak_ptr<Device>>;
  cuda::driver();  // in a forked child nothing below may run
  if (index < 0) index = current_index();
  std::lock_guard lock(mutex);
  if (auto device = devices[index].lock()) return device;
  auto device = std::shared_ptr<Device>(new Device(index));
  device->inspect();
  device->check(device->driver_->DevicePrimaryCtxRetain(&device->context_, device->handle_),
                "cuDevicePrimaryCtxRetain");
  devices[index] = device;
  return device;
}

std::string device_problem() try {
  Device(current_index()).inspect();
  return "";
} catch (const DeviceError& error) {
  return error.what();
}

int current_device() { return driver_problem().empty() ? current_index() : -1; }

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  if (!driver_problem().empty()) return names;
  const Driver& d = driver();
  int count = 0;
  if (d.DeviceGetCount(&count) != kSuccess) return names;
  for (int index = 0; index < count; index++) {
    CUdevice device = 0;
    char name[256] = {};
    if (d.DeviceGet(&device, index) != kSuccess ||
        d.DeviceGetName(name, int(sizeof name) - 1, device) != kSuccess) {
      name[0] = '?';
    }
    names.emplace_back(name);
  }
  return names;
}

Device::Device(int index) : driver_(&cuda::driver()), index_(index), process_(getpid()) {}

void Device::inspect() {
  int count = 0;
  check(driver_->DeviceGetCount(&count), "cuDeviceGetCount");
  if (index_ >= count) {
    throw DeviceError("there is no GPU " + std::to_string(index_) + ": this machine has " +
                      (count == 0 ? "none; use device 'cpu'"
                                  : std::to_string(count) + "; use device 'cpu' or one of cuda:0 .. cuda:" +
                                        std::to_string(count - 1)));
  }
  check(driver_->DeviceGet(&handle_, index_), "cuDeviceGet");
  char name[256] = {};
  check(driver_->DeviceGetName(name, int(sizeof name) - 1, handle_), "cuDeviceGetName");
  name_ = name;
  const auto attribute = [&](DeviceAttribute which, int& value) {
    check(driver_->DeviceGetAttribute(&value, int(which), handle_), "cuDeviceGetAttribute");
  };
  attribute(DeviceAttribute::compute_major, major_);
  attribute(DeviceAttribute::compute_minor, minor_);
  attribute(DeviceAttribute::multiprocessors, multiprocessors_);
  if (10 * major_ + minor_ < 75) {
    throw DeviceError("GPU " + std::to_string(index_) + " (" + name_ + ") has compute capability " +
                      std::to_string(major_) + "." + std::to_string(minor_) +
                      ", 7.5 or newer is needed; use device 'cpu'");
  }
}

Device::~Device() {
  if (context_ != nullptr && usable_here()) driver_->DevicePrimaryCtxRelease(handle_);
}

void Device::check(CUresult result, const char* what) const {
  if (result == kSuccess) return;
  std::string message = describe(*driver_, what, result) + " on GPU " + std::to_string(index_) +
                        (name_.empty() ? "" : " (" + name_ + ")");
  if (result == kErrorOutOfMemory) {
    message += "; free memory of this GPU, solve fewer targets or candidates at once, or use device 'cpu'";
  } else if (result >= 700 && result < 800) {
    message += "; the CUDA context of this process is lost: restart the process";
  }
  throw DeviceError(message);
}

bool Device::usable_here() const { return process_ == getpid(); }

void Device::check_usable_here() const {
  if (!usable_here()) throw DeviceError(driver_problem());
}

Device::Scope::Scope(const Device& device) : device_(device) {
  device.check_usable_here();
  device.check(device.driver_->CtxPushCurrent(device.context_), "cuCtxPushCurrent");
}

Device::Scope::~Scope() {
  CUcontext popped = nullptr;
  device_.driver_->CtxPopCurrent(&popped);
}

Image build_image(const model::Chain& chain, Variant variant, int major, int minor, int max_cuda_major,
                  const std::string& folder, std::string* report) {
  std::string source;
  std::vector<std::pair<std::string, std::string_view>> headers;
  const std::string target = std::to_string(10 * major + minor);
  const std::string definitions = std::string(variant.coarse ? "#define HJCDIK_COARSE_SEARCH\n" : "") +
                                  (variant.collision ? "#define HJCDIK_COLLISION\n" : "");
  std::vector<std::string_view> parts{kBuild, definitions, target, chain.header_text};
  parts.insert(parts.end(), std::begin(kCompileOptions), std::end(kCompileOptions));
  for (int i = 0; i < embedded::gpu_sources_count; i++) {
    const auto& file = embedded::gpu_sources[i];
    parts.push_back(file.name);
    parts.push_back(file.text);
    if (file.name == kMainSource) {
      source = definitions + std::string(file.text);
    } else {
      headers.emplace_back(file.name, file.text);
    }
  }
  headers.emplace_back("robot.h", chain.header_text);
  Image image;
  image.key = store::content_key(parts);
  if (auto entry = store::read(folder, image.key)) {
    image.compiler = std::move(entry->compiler);
    image.image = std::move(entry->image);
    return image;
  }
  CompileResult result = compile(source, headers, major, minor, max_cuda_major, report);
  image.compiler = std::move(result.compiler);
  image.image = std::move(result.image);
  image.compiled = true;
  store::publish(folder, image.key, {image.compiler, image.image});
  return image;
}

std::shared_ptr<const Program> Program::get(const std::shared_ptr<Device>& device, const model::Chain& chain,
                                            Variant variant) {
  static std::mutex mutex;
  static auto& programs = *new std::map<std::tuple<int, Variant, std::string>, std::weak_ptr<const Program>>;
  // One build at a time: a second solver of the same robot waits for the first one's.
  std::lock_guard lock(mutex);
  const std::tuple key{device->index(), variant, chain.header_text};
  if (auto program = programs[key].lock()) return program;
  std::erase_if(programs, [](const auto& entry) { return entry.second.expired(); });
  const Driver& d = device->driver();
  const std::string folder = store::default_folder();
  const auto build = [&](const std::string& from) {
    return build_image(chain, variant, device->major(), device->minor(), d.version / 1000, from);
  };
  Image image = build(folder);
  const Device::Scope scope(*device);
  CUmodule module = nullptr;
  CUresult loaded = d.ModuleLoadData(&module, image.image.c_str());
  if (loaded >= kErrorInvalidImage && loaded < kErrorInvalidImage + 100 && !image.compiled) {
    // The store's entry may be of a newer compiler than this driver can read.
    image = build("");
    store::publish(folder, image.key, {image.compiler, image.image});
    loaded = d.ModuleLoadData(&module, image.image.c_str());
  }
  device->check(loaded, "cuModuleLoadData");
  auto program = std::shared_ptr<Program>(new Program(device, module));
  program->compiler = image.compiler;
  programs[key] = program;
  return program;
}

Program::Program(std::shared_ptr<Device> device, CUmodule module)
    : device_(std::move(device)), module_(module) {
  const Driver& d = device_->driver();
  try {
    device_->check(d.ModuleGetFunction(&search, module_, "hjcdik_search"),
                   "cuModuleGetFunction(hjcdik_search)");
    device_->check(d.ModuleGetFunction(&polish, module_, "hjcdik_polish"),
                   "cuModuleGetFunction(hjcdik_polish)");
    int blocks = 0;
    device_->check(d.OccupancyMaxActiveBlocksPerMultiprocessor(&blocks, search, kBlock, 0),
                   "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    search_blocks = std::max(1, blocks) * device_->multiprocessors();
  } catch (...) {
    d.ModuleUnload(module_);
    throw;
  }
}

Program::~Program() {
  try {
    const Device::Scope scope(*device_);
    device_->driver().ModuleUnload(module_);
  } catch (const DeviceError&) {  // a forked child, or a context that is gone
  }
}

DeviceBuffer::~DeviceBuffer() {
  if (address_ != 0 && device_->usable_here()) device_->driver().MemFree(address_);
}

void DeviceBuffer::reserve(std::size_t bytes) {
  if (bytes <= size_) return;
  const std::size_t wanted = std::max(bytes, std::size_t(4096));
  if (address_ != 0) device_->driver().MemFree(address_);
  address_ = 0;
  size_ = 0;
  device_->check(device_->driver().MemAlloc(&address_, wanted), "cuMemAlloc");
  size_ = wanted;
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr && device_->usable_here()) device_->driver().MemFreeHost(data_);
}

bool PinnedBuffer::reserve(std::size_t bytes) {
  if (bytes <= size_) return false;
  const std::size_t wanted = std::max(bytes, std::size_t(4096));
  if (data_ != nullptr) device_->driver().MemFreeHost(data_);
  data_ = nullptr;
  size_ = 0;
  device_->check(device_->driver().MemHostAlloc(&data_, wanted, kHostAllocPortable | kHostAllocMapped),
                 "cuMemHostAlloc");
  device_->check(device_->driver().MemHostGetDevicePointer(&address_, data_, 0), "cuMemHostGetDevicePointer");
  size_ = wanted;  // not before: a second try must not take a buffer without an address
  return true;
}

}  // namespace hjcdik::cuda
