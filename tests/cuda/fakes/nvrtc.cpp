// An NVRTC that compiles nothing, for tests: its images are texts that the fake driver takes. Compiled with
// FAKE_NO_CUBIN it is one too old to make them. A file named libnvrtc.so.N says that it is version N.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "fakes/fake.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

using hjcdik::test::FakeNvrtc;

EXPORTED FakeNvrtc* fake_nvrtc() {
  static FakeNvrtc fake;
  return &fake;
}

namespace {

FakeNvrtc& fake = *fake_nvrtc();

struct Program {
  std::string image;
};

constexpr int kFailure = 6;  // NVRTC_ERROR_COMPILATION

int status(const char* name) { return fake.fail_function == name ? kFailure : 0; }

// With the terminating zero, as NVRTC counts it for texts.
int size_of(const char* name, const std::string& text, std::size_t* size) {
  *size = text.size() + 1;
  return status(name);
}

int copy(const char* name, const std::string& text, char* to) {
  std::memcpy(to, text.c_str(), text.size() + 1);
  return status(name);
}

}  // namespace

EXPORTED int nvrtcVersion(int* major, int* minor) {
  Dl_info info;
  *major = fake.major;
  *minor = fake.minor;
  if (dladdr(reinterpret_cast<void*>(&nvrtcVersion), &info) != 0) {
    const char* number = std::strstr(info.dli_fname, "libnvrtc.so.");
    if (number != nullptr) *major = std::atoi(number + std::strlen("libnvrtc.so."));
  }
  return status("nvrtcVersion");
}

EXPORTED const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_OF_THE_TEST"; }

EXPORTED int nvrtcCreateProgram(void** program, const char* source, const char*, int count,
                                const char* const* texts, const char* const* names) {
  if (const int failure = status("nvrtcCreateProgram")) return failure;
  // The source must be the kernels', and come with the robot's chain.
  int dof = 0;
  for (int i = 0; i < count; i++) {
    const char* at = std::strstr(texts[i], "constexpr int dof = ");
    if (std::strcmp(names[i], "robot.h") == 0 && at != nullptr) dof = std::atoi(at + 20);
  }
  if (dof == 0 || std::strstr(source, "hjcdik_search") == nullptr) return kFailure;
  *program = new Program{"fake image dof " + std::to_string(dof)};
  fake.programs++;
  return 0;
}

EXPORTED int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  fake.programs--;
  return 0;
}

EXPORTED int nvrtcCompileProgram(void*, int count, const char* const* options) {
  fake.options.assign(options, options + count);
  if (const int failure = status("nvrtcCompileProgram")) return failure;
  fake.compiled++;
  return 0;
}

EXPORTED int nvrtcGetPTXSize(void* p, std::size_t* size) {
  return size_of("nvrtcGetPTXSize", static_cast<Program*>(p)->image + " ptx", size);
}
EXPORTED int nvrtcGetPTX(void* p, char* to) {
  return copy("nvrtcGetPTX", static_cast<Program*>(p)->image + " ptx", to);
}
EXPORTED int nvrtcGetCUBINSize(void* p, std::size_t* size) {
  return size_of("nvrtcGetCUBINSize", static_cast<Program*>(p)->image, size);
}
#ifndef FAKE_NO_CUBIN
EXPORTED int nvrtcGetCUBIN(void* p, char* to) {
  return copy("nvrtcGetCUBIN", static_cast<Program*>(p)->image, to);
}
#endif
EXPORTED int nvrtcGetProgramLogSize(void*, std::size_t* size) {
  return size_of("nvrtcGetProgramLogSize", fake.log, size);
}
EXPORTED int nvrtcGetProgramLog(void*, char* to) { return copy("nvrtcGetProgramLog", fake.log, to); }

EXPORTED int nvrtcGetNumSupportedArchs(int* count) {
  *count = int(fake.architectures.size());
  return status("nvrtcGetNumSupportedArchs");
}
EXPORTED int nvrtcGetSupportedArchs(int* architectures) {
  std::memcpy(architectures, fake.architectures.data(), fake.architectures.size() * sizeof(int));
  return status("nvrtcGetSupportedArchs");
}
