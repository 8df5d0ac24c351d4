#include "cuda/device.hpp"

#include <unistd.h>

#include <future>
#include <map>
#include <mutex>
#include <optional>
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

std::pair<int, int> architecture(int index) {
  cuda::driver();
  Device device(index < 0 ? current_index() : index);
  device.inspect();
  return {device.major(), device.minor()};
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

std::string to_string(const Target& target) {
  return (target.ptx ? "compute_" : "sm_") + std::to_string(10 * target.major + target.minor);
}

namespace {

std::string definitions(Variant variant) {
  return std::string(variant.coarse ? "#define HJCDIK_COARSE_SEARCH\n" : "") +
         (variant.collision ? "#define HJCDIK_COLLISION\n" : "");
}

const std::string& sources_key() {
  static const std::string key = [] {
    std::vector<std::string_view> parts{kBuild};
    parts.insert(parts.end(), std::begin(kCompileOptions), std::end(kCompileOptions));
    for (int i = 0; i < embedded::gpu_sources_count; i++) {
      parts.push_back(embedded::gpu_sources[i].name);
      parts.push_back(embedded::gpu_sources[i].text);
    }
    return store::content_key(parts);
  }();
  return key;
}

// Runs one of the calls that give the same key at once; the others wait for its result, which they did not
// compile.
class Shared {
 public:
  Image run(const std::string& key, const std::function<std::shared_ptr<const Image>()>& work) {
    std::promise<std::shared_ptr<const Image>> promise;
    {
      std::unique_lock lock(mutex_);
      if (const auto running = running_.find(key); running != running_.end()) {
        const auto result = running->second;
        lock.unlock();
        Image image = *result.get();
        image.compiled = false;
        return image;
      }
      running_.emplace(key, promise.get_future().share());
    }
    // Waiting threads hold the future; those that come later look into the store.
    const auto done = [&] {
      std::lock_guard lock(mutex_);
      running_.erase(key);
    };
    try {
      auto image = work();
      promise.set_value(image);
      done();
      return *image;
    } catch (...) {
      promise.set_exception(std::current_exception());
      done();
      throw;
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_future<std::shared_ptr<const Image>>> running_;
};

// The stored image of one target; nothing where there is none.
std::optional<Image> stored(const std::string& folder, const std::string& key, bool packaged) {
  auto entry = store::read(folder, key, !packaged);
  if (!entry) return std::nullopt;
  return Image{key, std::move(entry->compiler), std::move(entry->image),
               packaged ? "" : store::program_path(folder, key)};
}

}  // namespace

std::string program_key(const model::Chain& chain, Variant variant, const Target& target) {
  return store::content_key({sources_key(), definitions(variant), chain.header_text, to_string(target)});
}

bool each_stored(const model::Chain& chain, Variant variant, int major, int minor, bool ptx,
                 const std::string& folder, const std::function<bool(Image&)>& take) {
  std::vector<Target> targets;
  for (int m = minor; m >= 0; m--) targets.push_back({major, m});
  if (ptx) {
    for (int version = 10 * major + minor; version >= 75; version--)
      targets.push_back({version / 10, version % 10, true});
  }
  const std::string packaged = store::packaged_folder();
  for (const Target& target : targets) {
    const std::string key = program_key(chain, variant, target);
    for (const bool is_packaged : {true, false}) {
      auto image = stored(is_packaged ? packaged : folder, key, is_packaged);
      if (image && take(*image)) return true;
    }
  }
  return false;
}

Target buildable(const Target& own, int max_cuda_major) {
  const int wanted = 10 * own.major + own.minor;
  int newest = 0;
  for (const int arch : known_architectures(max_cuda_major)) {
    if (arch == wanted) return own;
    if (arch < wanted) newest = std::max(newest, arch);
  }
  if (newest == 0) {
    throw DeviceError("a GPU of compute capability " + std::to_string(own.major) + "." +
                      std::to_string(own.minor) + " is older than NVRTC " + compiler_version(max_cuda_major) +
                      " supports; use device 'cpu'");
  }
  return {newest / 10, newest % 10, true};
}

Image compile_image(const model::Chain& chain, Variant variant, const Target& target, int max_cuda_major,
                    std::string* report) {
  std::string source;
  std::vector<std::pair<std::string, std::string_view>> headers;
  for (int i = 0; i < embedded::gpu_sources_count; i++) {
    const auto& file = embedded::gpu_sources[i];
    if (file.name == kMainSource) {
      source = definitions(variant) + std::string(file.text);
    } else {
      headers.emplace_back(file.name, file.text);
    }
  }
  headers.emplace_back("robot.h", chain.header_text);
  CompileResult result =
      compile(source, headers, target.major, target.minor, max_cuda_major, report, target.ptx);
  return {program_key(chain, variant, target), std::move(result.compiler), std::move(result.image), "", true};
}

Image build_image(const model::Chain& chain, Variant variant, const Target& target, int max_cuda_major,
                  const std::string& folder, bool force, std::string* problem) {
  static auto& shared = *new Shared;
  const std::string key = program_key(chain, variant, target);
  const auto work = [&]() -> std::shared_ptr<const Image> {
    std::optional<Image> image;
    if (!force) {
      image = stored(folder, key, false);
      if (image) return std::make_shared<const Image>(std::move(*image));
      image = stored(store::packaged_folder(), key, true);
    }
    if (!image) image = compile_image(chain, variant, target, max_cuda_major);
    std::string reason;
    if (store::publish(folder, key, {image->compiler, image->image}, &reason)) {
      image->path = store::program_path(folder, key);
    } else if (problem != nullptr) {
      *problem = reason;
    } else {
      store::note("the compiled program of a robot cannot be kept, and is compiled again next time: " +
                  reason);
    }
    return std::make_shared<const Image>(std::move(*image));
  };
  Image image = shared.run(folder + '\0' + key + (force ? "!" : ""), work);
  if (image.path.empty() && problem != nullptr && problem->empty()) *problem = "the store cannot be written";
  return image;
}

namespace {

// For one robot, variant, GPU and store: built once, while others wait for it alone.
struct Slot {
  std::mutex mutex;
  std::weak_ptr<const Program> program;
};

std::shared_ptr<Slot> slot_of(const std::tuple<int, Variant, StoreAccess, std::string>& key) {
  static std::mutex mutex;
  static auto& slots =
      *new std::map<std::tuple<int, Variant, StoreAccess, std::string>, std::shared_ptr<Slot>>;
  std::lock_guard lock(mutex);
  std::erase_if(slots, [](const auto& entry) {
    return entry.second.use_count() == 1 && entry.second->program.expired();
  });
  auto& slot = slots[key];
  if (!slot) slot = std::make_shared<Slot>();
  return slot;
}

}  // namespace

std::shared_ptr<const Program> Program::get(const std::shared_ptr<Device>& device, const model::Chain& chain,
                                            Variant variant, const StoreAccess& access) {
  const std::string folder = access.folder.empty() ? store::default_folder() : access.folder;
  const auto slot = slot_of({device->index(), variant, {folder, access.allow_build}, chain.header_text});
  std::lock_guard lock(slot->mutex);
  if (auto program = slot->program.lock()) return program;
  const Driver& d = device->driver();
  const Device::Scope scope(*device);
  CUmodule module = nullptr;
  Image image;
  const Target own{device->major(), device->minor()};
  const std::string own_key = program_key(chain, variant, own);
  bool own_refused = false;
  // False where this driver cannot read the image, such as one by a newer compiler.
  const auto load = [&](Image& from) {
    const CUresult result = d.ModuleLoadData(&module, from.image.c_str());
    if (!from.compiled && result >= kErrorInvalidImage && result < kErrorInvalidImage + 100) {
      own_refused |= from.key == own_key;
      return false;
    }
    device->check(result, "cuModuleLoadData");
    image = std::move(from);
    return true;
  };
  const auto load_stored = [&](bool ptx) {
    return each_stored(chain, variant, device->major(), device->minor(), ptx, folder, load);
  };
  if (!load_stored(!access.allow_build)) {
    if (!access.allow_build) {
      throw BuildError("no " + std::string(variant.coarse ? "coarse " : "") +
                           (variant.collision ? "collision-aware" : "open-world") +
                           " program of this robot for compute capability " +
                           std::to_string(device->major()) + "." + std::to_string(device->minor()) +
                           " is prepared in '" + folder + "', and building is not allowed",
                       "");
    }
    std::optional<Image> built;
    try {
      const int cuda_major = d.version / 1000;
      built = build_image(chain, variant, buildable(own, cuda_major), cuda_major, folder, own_refused);
    } catch (const DeviceError&) {  // no compiler
      if (!load_stored(true)) throw;
    }
    if (built) {
      built->compiled = true;  // the last resort
      load(*built);
    }
  }
  auto program = std::shared_ptr<Program>(new Program(device, module, variant));
  program->compiler = image.compiler;
  program->path = image.path;
  slot->program = program;
  return program;
}

Program::Program(std::shared_ptr<Device> device, CUmodule module, Variant variant)
    : device_(std::move(device)), module_(module) {
  const Driver& d = device_->driver();
  try {
    device_->check(d.ModuleGetFunction(&search, module_, "hjcdik_search"),
                   "cuModuleGetFunction(hjcdik_search)");
    device_->check(d.ModuleGetFunction(&polish, module_, "hjcdik_polish"),
                   "cuModuleGetFunction(hjcdik_polish)");
    if (variant.collision) {
      device_->check(d.ModuleGetFunction(&judge, module_, "hjcdik_judge"),
                     "cuModuleGetFunction(hjcdik_judge)");
    }
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
