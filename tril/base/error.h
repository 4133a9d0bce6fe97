// The one exception type of tril, and the checks that throw it.
//
// A message says what was wrong, where, the values, and what to do. The library never prints, aborts or
// exits; the command line turns an Error into one line on standard error and the exit code of its kind.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

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

// The message is made by fmt's rules.
[[noreturn]] void fail_with(ErrorKind kind, fmt::string_view format, fmt::format_args args);

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, const Args&... args) {
  fail_with(kind, format, fmt::make_format_args(args...));
}

// Throws kUse / kData unless `ok`. The arguments are only formatted on failure.
template <class... Args>
void check_use(bool ok, fmt::format_string<Args...> format, const Args&... args) {
  if (!ok) [[unlikely]]
    fail_with(ErrorKind::kUse, format, fmt::make_format_args(args...));
}

template <class... Args>
void check_data(bool ok, fmt::format_string<Args...> format, const Args&... args) {
  if (!ok) [[unlikely]]
    fail_with(ErrorKind::kData, format, fmt::make_format_args(args...));
}

}  // namespace tril
