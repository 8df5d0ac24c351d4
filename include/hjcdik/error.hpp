// The exceptions of the library. What a search finds, or does not find, is data
// (Outcome in result.hpp); misuse and failure are exceptions.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace hjcdik {

// A value handed to the library is unusable. The message names the argument,
// the row and the field. Nothing was computed and nothing has changed.
class InvalidArgument : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// A robot description is unusable. what() reads "file:line: element: reason".
class ModelError : public InvalidArgument {
 public:
  ModelError(std::string file, int line, std::string element, const std::string& reason)
      : InvalidArgument(file + (line > 0 ? ":" + std::to_string(line) : "") + ": " +
                        (element.empty() ? "" : element + ": ") + reason),
        file_(std::move(file)),
        line_(line),
        element_(std::move(element)) {}

  const std::string& file() const noexcept { return file_; }
  // 1-based; 0 where the fault belongs to no single line.
  int line() const noexcept { return line_; }
  // Such as "joint 'shoulder'" or "link 'arm'"; empty for the document itself.
  const std::string& element() const noexcept { return element_; }

 private:
  std::string file_;
  int line_;
  std::string element_;
};

// The device asked for is not usable. The message says what to do.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Compiling a robot's program failed.
class BuildError : public std::runtime_error {
 public:
  BuildError(const std::string& message, std::string log)
      : std::runtime_error(log.empty() ? message : message + "\n" + log), log_(std::move(log)) {}

  // What the compiler said.
  const std::string& log() const noexcept { return log_; }

 private:
  std::string log_;
};

// The device failed during a solve. Nothing of the solve is returned.
class SolveError : public std::runtime_error {
 public:
  SolveError(const std::string& message, std::int64_t target_index, std::int64_t completed)
      : std::runtime_error(message), target_index_(target_index), completed_(completed) {}

  // The first target of the chunk that failed, and how many targets had been solved.
  std::int64_t target_index() const noexcept { return target_index_; }
  std::int64_t completed() const noexcept { return completed_; }

 private:
  std::int64_t target_index_, completed_;
};

}  // namespace hjcdik
