// The one exception type of tril, and the checks that throw it.
//
// A message says what was wrong, where, the values, and what to do. The library never prints, aborts or
// exits; the command line turns an Error into one line on standard error and the exit code of its kind.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tril {

// The value of a kind is the exit code of the command.
enum class ErrorKind {
  kUse = 1,       // wrong arguments, impossible sizes, wrong order of calls
  kData = 2,      // a file or text that cannot be used, a disk that cannot be written
  kNumerics = 3,  // non-finite values
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

// Throws kUse / kData unless `ok`. The arguments are only formatted on failure.
template <class... Args>
void check_use(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) [[unlikely]]
    fail(ErrorKind::kUse, format, std::forward<Args>(args)...);
}

template <class... Args>
void check_data(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) [[unlikely]]
    fail(ErrorKind::kData, format, std::forward<Args>(args)...);
}

}  // namespace tril
