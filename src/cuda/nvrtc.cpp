#include "cuda/nvrtc.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include <hjcdik/error.hpp>

namespace hjcdik::cuda {
namespace {

namespace fs = std::filesystem;

using nvrtcResult = int;
using nvrtcProgram = struct nvrtcProgram_st*;

struct Compiler {
  nvrtcResult (*Version)(int*, int*);
  const char* (*GetErrorString)(nvrtcResult);
  nvrtcResult (*CreateProgram)(nvrtcProgram*, const char*, const char*, int, const char* const*,
                               const char* const*);
  nvrtcResult (*DestroyProgram)(nvrtcProgram*);
  nvrtcResult (*CompileProgram)(nvrtcProgram, int, const char* const*);
  nvrtcResult (*GetPTXSize)(nvrtcProgram, std::size_t*);
  nvrtcResult (*GetPTX)(nvrtcProgram, char*);
  nvrtcResult (*GetCUBINSize)(nvrtcProgram, std::size_t*);
  nvrtcResult (*GetCUBIN)(nvrtcProgram, char*);
  nvrtcResult (*GetProgramLogSize)(nvrtcProgram, std::size_t*);
  nvrtcResult (*GetProgramLog)(nvrtcProgram, char*);
  nvrtcResult (*GetNumSupportedArchs)(int*);
  nvrtcResult (*GetSupportedArchs)(int*);
  int major = 0, minor = 0;
};

// Majors that the dynamic linker is asked for by name.
constexpr int kNewestKnown = 16;

std::mutex mutex;
std::vector<std::string> extra_folders;

// The number after "libnvrtc.so." of a library's file name; 0 for other files.
int major_of(const fs::path& file) {
  const std::string name = file.filename().string(), prefix = "libnvrtc.so.";
  if (name.rfind(prefix, 0) != 0) return 0;
  const std::string rest = name.substr(prefix.size());
  const std::string digits = rest.substr(0, rest.find('.'));
  if (digits.empty() || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string::npos)
    return 0;
  return std::atoi(digits.c_str());
}

// Library files in the order they are tried: newest first within a folder.
std::vector<std::string> candidates(int max_major) {
  std::vector<std::string> files;
  if (const char* chosen = std::getenv("HJCDIK_NVRTC"); chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::string> folders = extra_folders;
  if (const char* home = std::getenv("CUDA_HOME")) folders.push_back(std::string(home) + "/lib64");
  folders.push_back("/usr/local/cuda/lib64");
  for (const std::string& folder : folders) {
    std::vector<std::pair<int, std::string>> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const int major = major_of(entry.path());
      if (major > 0 && major <= max_major) found.emplace_back(major, entry.path().string());
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second.size() < b.second.size();
    });
    for (auto& f : found) files.push_back(std::move(f.second));
  }
  // The dynamic linker's own places, and libraries that are loaded already.
  for (int major = std::min(max_major, kNewestKnown); major >= 12; major--)
    files.push_back("libnvrtc.so." + std::to_string(major));
  return files;
}

bool load(const std::string& file, Compiler& c, std::string& problem) {
  // NVRTC asks for its builtins by bare name: load the ones beside it first.
  if (file.find('/') != std::string::npos) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(fs::path(file).parent_path(), ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("libnvrtc-builtins.so.", 0) == 0) dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
    }
  }
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    problem = dlerror();
    return false;
  }
  bool complete = true;
  const auto get = [&](auto& function, const char* name) {
    void* address = dlsym(library, name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    if (address == nullptr) {
      problem = file + " lacks " + name;
      complete = false;
    }
  };
  get(c.Version, "nvrtcVersion");
  get(c.GetErrorString, "nvrtcGetErrorString");
  get(c.CreateProgram, "nvrtcCreateProgram");
  get(c.DestroyProgram, "nvrtcDestroyProgram");
  get(c.CompileProgram, "nvrtcCompileProgram");
  get(c.GetPTXSize, "nvrtcGetPTXSize");
  get(c.GetPTX, "nvrtcGetPTX");
  get(c.GetCUBINSize, "nvrtcGetCUBINSize");
  get(c.GetCUBIN, "nvrtcGetCUBIN");
  get(c.GetProgramLogSize, "nvrtcGetProgramLogSize");
  get(c.GetProgramLog, "nvrtcGetProgramLog");
  get(c.GetNumSupportedArchs, "nvrtcGetNumSupportedArchs");
  get(c.GetSupportedArchs, "nvrtcGetSupportedArchs");
  if (complete && c.Version(&c.major, &c.minor) != 0) {
    problem = file + ": nvrtcVersion failed";
    complete = false;
  }
  if (!complete) dlclose(library);
  return complete;
}

// The first compiler that loads, kept for the process's life; null with the reason where there is none.
const Compiler* find_compiler(int max_major, std::string& problem) {
  static Compiler found;
  static bool have = false;
  std::lock_guard lock(mutex);
  if (have) return &found;
  std::string reasons;
  for (const std::string& file : candidates(max_major)) {
    std::string reason;
    Compiler compiler{};
    if (load(file, compiler, reason)) {
      found = compiler;
      have = true;
      return &found;
    }
    reasons += "\n  " + reason;
  }
  const std::string versions =
      max_major > kNewestKnown ? "" : " of CUDA " + std::to_string(max_major) + " or older";
  problem = "no NVRTC (NVIDIA's run-time compiler)" + versions +
            " was found; install it with: pip install nvidia-cuda-nvrtc" + (max_major == 12 ? "-cu12" : "") +
            ", or set HJCDIK_NVRTC to its library file. Tried:" + reasons;
  return nullptr;
}

const Compiler& need_compiler(int max_major) {
  std::string problem;
  const Compiler* c = find_compiler(max_major, problem);
  if (c == nullptr) throw DeviceError(problem);
  return *c;
}

void check(const Compiler& c, nvrtcResult result, const char* what) {
  if (result != 0) throw BuildError(std::string(what) + " failed: " + c.GetErrorString(result), "");
}

}  // namespace

void set_compiler_folders(std::vector<std::string> folders) {
  std::lock_guard lock(mutex);
  extra_folders = std::move(folders);
}

std::string compiler_version(int max_major, std::string* problem) {
  std::string reason;
  const Compiler* c = find_compiler(max_major, reason);
  if (problem != nullptr) *problem = reason;
  return c == nullptr ? "" : std::to_string(c->major) + "." + std::to_string(c->minor);
}

std::vector<int> known_architectures(int max_major) {
  const Compiler& c = need_compiler(max_major);
  int count = 0;
  check(c, c.GetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> known(std::size_t(std::max(count, 0)));
  if (count > 0) check(c, c.GetSupportedArchs(known.data()), "nvrtcGetSupportedArchs");
  return known;
}

CompileResult compile(const std::string& source,
                      const std::vector<std::pair<std::string, std::string_view>>& headers, int major,
                      int minor, int max_major, std::string* report, bool ptx) {
  const Compiler& c = need_compiler(max_major);

  const std::string arch = (ptx ? "compute_" : "sm_") + std::to_string(10 * major + minor);
  const std::vector<int> known = known_architectures(max_major);
  if (std::find(known.begin(), known.end(), 10 * major + minor) == known.end()) {
    std::string names;
    for (const int number : known) names += (names.empty() ? "" : ", ") + std::to_string(number);
    throw BuildError("NVRTC " + std::to_string(c.major) + "." + std::to_string(c.minor) +
                         " does not compile for " + arch + "; it knows " + names,
                     "");
  }
  const std::string option = "-arch=" + arch;

  std::vector<std::string> texts;
  std::vector<const char*> contents, names;
  for (const auto& [name, text] : headers) texts.emplace_back(text);
  for (std::size_t i = 0; i < headers.size(); i++) {
    contents.push_back(texts[i].c_str());
    names.push_back(headers[i].first.c_str());
  }
  nvrtcProgram program = nullptr;
  check(
      c,
      c.CreateProgram(&program, source.c_str(), "solve.cu", int(names.size()), contents.data(), names.data()),
      "nvrtcCreateProgram");
  struct Destroy {
    const Compiler& c;
    nvrtcProgram* program;
    ~Destroy() { c.DestroyProgram(program); }
  } destroy{c, &program};
  std::vector<const char*> options(std::begin(kCompileOptions), std::end(kCompileOptions));
  options.push_back(option.c_str());
  if (report != nullptr) options.push_back("--ptxas-options=-v");
  const nvrtcResult result = c.CompileProgram(program, int(options.size()), options.data());
  std::size_t size = 0;
  std::string log;
  if ((result != 0 || report != nullptr) && c.GetProgramLogSize(program, &size) == 0 && size > 1) {
    log.resize(size);
    c.GetProgramLog(program, log.data());
    log.resize(size - 1);
  }
  if (report != nullptr) *report = log;
  if (result != 0) {
    throw BuildError(std::string("compiling the robot's GPU program failed: ") + c.GetErrorString(result),
                     log);
  }
  CompileResult out;
  out.compiler = std::to_string(c.major) + "." + std::to_string(c.minor);
  check(c, ptx ? c.GetPTXSize(program, &size) : c.GetCUBINSize(program, &size),
        "reading the compiled program's size");
  out.image.resize(size);
  check(c, ptx ? c.GetPTX(program, out.image.data()) : c.GetCUBIN(program, out.image.data()),
        "reading the compiled program");
  return out;
}

}  // namespace hjcdik::cuda
