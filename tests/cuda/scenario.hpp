// A GPU that is not there: the library with the fake driver and the fake NVRTC, each test in a process of
// its own, since both are loaded once a process.
#pragma once

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "cuda/device.hpp"
#include "cuda/driver.hpp"
#include "fakes/fake.hpp"
#include "support.hpp"

namespace hjcdik::test {

template <class Fake>
Fake& fake_in(const char* variable, const char* function) {
  void* library = dlopen(std::getenv(variable), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return *reinterpret_cast<Fake* (*)()>(dlsym(library, function))();
}
// The fakes that this process's library uses, or will use.
inline FakeDriver& fake_driver() { return fake_in<FakeDriver>("HJCDIK_LIBCUDA", "fake_driver"); }
inline FakeNvrtc& fake_nvrtc() { return fake_in<FakeNvrtc>("HJCDIK_NVRTC", "fake_nvrtc"); }

// A folder for the life of the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "hjcdik_test_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path;
};

// Runs `body` in a child of this process. Failures in it are failures of the test.
inline void in_child(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSanitized ? 300 : 60);  // a hang is a failure too
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "unexpected: " << error.what();
    }
    // Not exit(): LeakSanitizer cannot look through a forked child with loaded libraries.
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The same with the fakes and an empty store. Afterwards nothing may be left behind.
inline void with_fakes(const std::function<void()>& body, const char* driver = FAKE_DRIVER,
                       const char* nvrtc = FAKE_NVRTC) {
  const TemporaryFolder store;
  in_child([&] {
    setenv("HJCDIK_LIBCUDA", driver, 1);
    setenv("HJCDIK_NVRTC", nvrtc, 1);
    setenv("HJCDIK_CACHE_DIR", store.path.c_str(), 1);
    body();
    if (dlopen(driver, RTLD_NOW | RTLD_NOLOAD) != nullptr) {
      const FakeDriver& fake = fake_driver();
      EXPECT_EQ(fake.context_resets, 0);
      EXPECT_EQ(fake.alive(), 0) << fake.contexts << " contexts, " << fake.modules << " modules, "
                                 << fake.streams << " streams, " << fake.device_buffers << " + "
                                 << fake.pinned_buffers << " buffers";
      EXPECT_TRUE(fake.misuse.empty()) << fake.misuse.size() << " times, first: " << fake.misuse[0];
    }
    if (dlopen(nvrtc, RTLD_NOW | RTLD_NOLOAD) != nullptr) {
      EXPECT_EQ(fake_nvrtc().programs, 0);
    }
  });
}

// Expects an E and returns its message; "" where there was none.
template <class E, class Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an error of another type: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
#define EXPECT_CONTAINS(text, part) EXPECT_TRUE(contains(text, part)) << (text)

// Targets whose rows the fake makes recognisable, in host or in device memory, and where they go.
class Work {
 public:
  Work(std::int64_t targets, std::int64_t num_solutions = 1) : count_(targets) {
    options.num_solutions = num_solutions;
    for (std::int64_t t = 0; t < targets; t++) {
      const double x = double(t % 512) / 1024, y = 0.25 * double(t) / double(targets);
      for (const double value : {x, y, 0.25, 1.0, 0.0, 0.0, 0.0}) targets_.push_back(value);
    }
    const std::size_t rows = std::size_t(targets * num_solutions);
    q_.resize(rows * kDof);
    pose_.resize(rows * 7);
    distance_.resize(rows);
    angle_.resize(rows);
    found_.resize(std::size_t(targets));
    outcome_.resize(std::size_t(targets));
    stats_.resize(std::size_t(targets));
  }

  virtual ~Work() = default;

  // What is left to the device's memory for the run, the run alone, and what is fetched from there.
  virtual void prepare() { forget(); }
  virtual void run(const Solver& solver) {
    const TargetView view{targets_.data(), count_};
    solver.solve_into(view, options,
                      {q_.data(), pose_.data(), distance_.data(), angle_.data(), found_.data(),
                       outcome_.data(), options.stats ? stats_.data() : nullptr});
  }
  virtual void fetch() {}

  void run_and_check(const Solver& solver) {
    prepare();
    run(solver);
    fetch();
    check();
  }

  // Whether every target has the rows that are its own.
  void check() const {
    const std::int64_t s = options.num_solutions;
    for (std::int64_t t = 0; t < count_; t++) {
      SCOPED_TRACE("target " + std::to_string(t));
      const double* target = &targets_[std::size_t(7 * t)];
      ASSERT_EQ(outcome_[std::size_t(t)], Outcome::solved);
      ASSERT_EQ(found_[std::size_t(t)], s);
      for (std::int64_t r = t * s; r < (t + 1) * s; r++) {
        for (std::size_t k = 0; k < 7; k++) ASSERT_EQ(pose_[std::size_t(7 * r) + k], target[k]);
        ASSERT_LT(distance_[std::size_t(r)], 1e-9);
        ASSERT_LT(angle_[std::size_t(r)], 1e-9);
      }
      const double* q = &q_[std::size_t(t * s * kDof)];
      if (s == 1 && !options.stats) {
        for (int i = 0; i < kDof; i++) ASSERT_EQ(q[i], double(float(target[0]) + 0.125f * float(i)));
      }
      for (std::int64_t r = 1; r < s; r++) ASSERT_GT(std::abs(q[r * kDof] - q[(r - 1) * kDof]), 0.05);
    }
  }

  std::int64_t count() const { return count_; }

  SolveOptions options = open();

 protected:
  static constexpr int kDof = 7;

  void forget() {
    std::fill(q_.begin(), q_.end(), -9);
    std::fill(pose_.begin(), pose_.end(), -9);
    std::fill(found_.begin(), found_.end(), -9);
    std::fill(distance_.begin(), distance_.end(), 9);
    std::fill(angle_.begin(), angle_.end(), 9);
    std::fill(outcome_.begin(), outcome_.end(), Outcome::no_accurate);
  }

  std::int64_t count_;
  std::vector<double> targets_, q_, pose_, distance_, angle_;
  std::vector<std::int64_t> found_;
  std::vector<Outcome> outcome_;
  std::vector<TargetStats> stats_;
};

// The same through device memory and a stream of the caller's.
class DeviceWork : public Work {
 public:
  DeviceWork(std::int64_t targets, std::int64_t num_solutions = 1)
      : Work(targets, num_solutions), device_(cuda::Device::get(0)), scope_(*device_), memory_(*device_) {
    memory_.reserve(bytes());
    require(device_->driver().StreamCreate(&stream_, cuda::kStreamNonBlocking));
    auto at = memory_.address();
    const auto take = [&](std::size_t size) { return std::exchange(at, at + size); };
    device_targets_ = reinterpret_cast<double*>(take(targets_.size() * 8));
    view_.q = reinterpret_cast<double*>(take(q_.size() * 8));
    view_.pose = reinterpret_cast<double*>(take(pose_.size() * 8));
    view_.pos_err_m = reinterpret_cast<double*>(take(distance_.size() * 8));
    view_.ori_err_rad = reinterpret_cast<double*>(take(angle_.size() * 8));
    view_.count = reinterpret_cast<std::int64_t*>(take(found_.size() * 8));
    view_.outcome = reinterpret_cast<Outcome*>(take(outcome_.size()));
    view_.memory = MemoryKind::device;
    upload(device_targets_, targets_);
  }
  ~DeviceWork() override { device_->driver().StreamDestroy(stream_); }

  void prepare() override {
    forget();
    upload(view_.q, q_);
    upload(view_.pose, pose_);
    upload(view_.pos_err_m, distance_);
    upload(view_.ori_err_rad, angle_);
    upload(view_.count, found_);
    upload(view_.outcome, outcome_);
  }
  void run(const Solver& solver) override {
    TargetView view{device_targets_, count_};
    view.memory = MemoryKind::device;
    view.stream = stream_;
    view_.stats = stats_.data();
    solver.solve_into(view, options, view_);
  }
  void fetch() override {
    download(q_, view_.q);
    download(pose_, view_.pose);
    download(distance_, view_.pos_err_m);
    download(angle_, view_.ori_err_rad);
    download(found_, view_.count);
    download(outcome_, view_.outcome);
  }

 private:
  std::size_t bytes() const {
    return 8 * (targets_.size() + q_.size() + pose_.size() + 2 * distance_.size() + found_.size()) +
           outcome_.size();
  }
  void require(cuda::CUresult result) { device_->check(result, "the test"); }
  template <class T>
  void upload(T* to, const std::vector<T>& from) {
    require(device_->driver().MemcpyHtoDAsync(reinterpret_cast<cuda::CUdeviceptr>(to), from.data(),
                                              from.size() * sizeof(T), stream_));
    require(device_->driver().StreamSynchronize(stream_));
  }
  template <class T>
  void download(std::vector<T>& to, const T* from) {
    require(device_->driver().MemcpyDtoHAsync(to.data(), reinterpret_cast<cuda::CUdeviceptr>(from),
                                              to.size() * sizeof(T), stream_));
    require(device_->driver().StreamSynchronize(stream_));
  }

  std::shared_ptr<cuda::Device> device_;
  cuda::Device::Scope scope_;
  cuda::DeviceBuffer memory_;
  cuda::CUstream stream_ = nullptr;
  double* device_targets_ = nullptr;
  ResultView view_;
};

inline Solver gpu_solver(int threads = 1) {
  return Solver(Robot::preset("panda"), {.device = "cuda:0", .threads = threads});
}

}  // namespace hjcdik::test
