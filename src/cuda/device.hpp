// One GPU: its context, its memory and the programs loaded on it.
#pragma once

#include <compare>
#include <memory>
#include <string>
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

// What a program can do besides, at a cost in registers.
struct Variant {
  bool coarse = false;     // the coarse search
  bool collision = false;  // judging what it finds, and nothing else
  auto operator<=>(const Variant&) const = default;
};

// The kernels of one robot on one GPU.
class Program {
 public:
  // From this process's programs, else from the cache on disk, else compiled. Throws DeviceError or
  // BuildError.
  static std::shared_ptr<const Program> get(const std::shared_ptr<Device>& device, const model::Chain& chain,
                                            Variant variant = {});
  ~Program();

  CUfunction search, polish;
  int search_blocks;     // that the whole GPU runs at once
  std::string compiler;  // version of NVRTC

 private:
  Program(std::shared_ptr<Device> device, CUmodule module);

  std::shared_ptr<Device> device_;
  CUmodule module_ = nullptr;
};

// Compiles without a GPU: the image for a compute capability and the content key that it is stored under.
// `folder`: of the store; empty for none. `report` as for compile().
struct Image {
  std::string key, compiler, image;
  bool compiled = false;
};
Image build_image(const model::Chain& chain, Variant variant, int major, int minor, int max_cuda_major,
                  const std::string& folder, std::string* report = nullptr);

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
