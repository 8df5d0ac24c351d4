// NVIDIA's run-time compiler, loaded when a program must be compiled.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hjcdik::cuda {

// Of every compilation, and so a part of a program's key. Division and square roots of float are
// right to 2 ulp: the search converges on its own result.
constexpr const char* kCompileOptions[] = {"-std=c++20", "-prec-div=false", "-prec-sqrt=false", "-ftz=true"};

struct CompileResult {
  std::string image;     // cubin or PTX text
  std::string compiler;  // "13.0"
};

// Compiles `source` with the texts it includes for compute capability `major`.`minor`. Throws BuildError
// with the compiler's log or where it does not know the architecture, or DeviceError that says where a
// compiler was looked for and how to get one. `max_major`: no compiler of a newer CUDA than this. `report`,
// if given, receives the compiler's log with the registers, stack and spills of every kernel (none for PTX).
// `ptx`: PTX instead of machine code.
CompileResult compile(const std::string& source,
                      const std::vector<std::pair<std::string, std::string_view>>& headers, int major,
                      int minor, int max_major, std::string* report = nullptr, bool ptx = false);

// What it compiles for: 75, 80, ... Throws DeviceError without a compiler.
std::vector<int> known_architectures(int max_major);

// "13.0", or "" with the reason in `problem`.
std::string compiler_version(int max_major, std::string* problem = nullptr);

// Folders to look into before the usual ones, such as those of Python packages.
void set_compiler_folders(std::vector<std::string> folders);

}  // namespace hjcdik::cuda
