// 64-bit sizes that never wrap: every product or sum of counts that came from a file or a user goes
// through these.
#pragma once

#include <cstdint>

#include "tril/base/error.h"

namespace tril {

constexpr int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t result = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &result)) [[unlikely]]
    fail(ErrorKind::kUse, "size overflow: {} * {} is not within 0 .. 2^63-1; use smaller sizes", a, b);
  return result;
}

constexpr int64_t checked_add(int64_t a, int64_t b) {
  int64_t result = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &result)) [[unlikely]]
    fail(ErrorKind::kUse, "size overflow: {} + {} is not within 0 .. 2^63-1; use smaller sizes", a, b);
  return result;
}

constexpr int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }
constexpr int64_t round_up(int64_t a, int64_t multiple) {
  return checked_multiply(divide_up(a, multiple), multiple);
}

}  // namespace tril
