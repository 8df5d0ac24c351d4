// One GPU: its context, its memory and the programs loaded on it.
#pragma once

#include <compare>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hjcdik/error.hpp>

#include "cuda/driver.hpp"
#include "model/chain.hpp"

namespace hjcdik::cuda {

// Throws DeviceError. Every call of the driver goes through it.
class Device {
 public:
  // Shared by all solvers of a process. index -1: the context that is current on the calling thread, else
  // GPU 0. Throws DeviceError.
  static std::shared_ptr<Device> get(int index);
  ~Device();

  int index() const { return index_; }
  const std::string& name() const { return name_; }
  int major() const { return major_; }
  int minor() const { return minor_; }
  int multiprocessors() const { return multiprocessors_; }
  const Driver& driver() const { return *driver_; }

  // Makes the context current on this thread for its life.
  class Scope {
   public:
    explicit Scope(const Device& device);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const Device& device_;
  };

  void check(CUresult result, const char* what) const;
  // False in a forked child, where nothing of the driver may be called.
  bool usable_here() const;
  void check_usable_here() const;

 private:
  Device(int index);
  friend std::string device_problem();
  friend std::pair<int, int> architecture(int index);
  void inspect();

  const Driver* driver_;
  CUdevice handle_ = 0;
  CUcontext context_ = nullptr;
  int index_, major_ = 0, minor_ = 0, multiprocessors_ = 0;
  int process_;
  std::string name_;
};

// The GPU that Device::get(-1) would take; -1 without a driver.
int current_device();

// Of every GPU, by index; empty without a driver.
std::vector<std::string> device_names();

// Why Device::get(-1) would throw, found without a context; empty where it would not.
std::string device_problem();

// Compute capability of GPU `index` (-1: the current one), found without a context. Throws DeviceError.
std::pair<int, int> architecture(int index);

// What a program can do besides, at a cost in registers.
struct Variant {
  bool coarse = false;     // the coarse search
  bool collision = false;  // judging what it finds, and nothing else
  auto operator<=>(const Variant&) const = default;
};

// Where programs are kept, and whether missing ones are compiled.
struct StoreAccess {
  std::string folder = {};  // "": the default one
  bool allow_build = true;
  auto operator<=>(const StoreAccess&) const = default;
};

// The kernels of one robot on one GPU.
class Program {
 public:
  // From this process's programs, else from the store, else compiled. Throws DeviceError or BuildError.
  static std::shared_ptr<const Program> get(const std::shared_ptr<Device>& device, const model::Chain& chain,
                                            Variant variant = {}, const StoreAccess& access = {});
  ~Program();

  CUfunction search, polish;
  CUfunction judge = nullptr;  // of a program that judges
  int search_blocks;           // that the whole GPU runs at once
  std::string compiler;        // version of NVRTC
  std::string path;  // of the file it is from; empty for one of the packaged store, or stored nowhere

 private:
  Program(std::shared_ptr<Device> device, CUmodule module, Variant variant);

  std::shared_ptr<Device> device_;
  CUmodule module_ = nullptr;
};

// What a program is compiled for: machine code for a compute capability, which later ones of the same major
// version run too, or PTX, which a driver compiles for any later one.
struct Target {
  int major, minor;
  bool ptx = false;
};
std::string to_string(const Target& target);  // "sm_90", "compute_90"

struct Image {
  std::string key, compiler, image;
  std::string path = {};  // of the file it is from; empty for one of the packaged store, or stored nowhere
  bool compiled = false;
};

// The content key that the program is stored under.
std::string program_key(const model::Chain& chain, Variant variant, const Target& target);

// What the stores, `folder` and the packaged one, have for a GPU of this compute capability, best first: its
// own machine code, that of lower minor versions, and, with `ptx`, PTX. Calls `take` with one after the
// other until it returns true; returns whether it did.
bool each_stored(const model::Chain& chain, Variant variant, int major, int minor, bool ptx,
                 const std::string& folder, const std::function<bool(Image&)>& take);

// What to compile for a GPU: one newer than the compiler gets PTX of the newest architecture that it knows,
// which the driver finishes. Throws DeviceError for one that the compiler is too new for.
Target buildable(const Target& own, int max_cuda_major);

// Compiles, without a GPU and without a store. `report`: as for compile().
Image compile_image(const model::Chain& chain, Variant variant, const Target& target, int max_cuda_major,
                    std::string* report = nullptr);

// The program in `folder` for just this target, put there if it is not there yet, or anew with `force`; with
// the reason in `problem`, if given, where it could not be. Threads that ask for the same at once share one
// compilation.
Image build_image(const model::Chain& chain, Variant variant, const Target& target, int max_cuda_major,
                  const std::string& folder, bool force = false, std::string* problem = nullptr);

// Device memory that grows as needed and is never given back while its owner lives.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(const Device& device) : device_(&device) {}
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void reserve(std::size_t bytes);
  CUdeviceptr address() const { return address_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(address_);
  }

 private:
  const Device* device_;
  CUdeviceptr address_ = 0;
  std::size_t size_ = 0;
};

// The same, pinned on the host and visible to the device.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(const Device& device) : device_(&device) {}
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  bool reserve(std::size_t bytes);  // whether the memory is new
  void* data() const { return data_; }
  CUdeviceptr address() const { return address_; }

 private:
  const Device* device_;
  void* data_ = nullptr;
  CUdeviceptr address_ = 0;
  std::size_t size_ = 0;
};

}  // namespace hjcdik::cuda
