// What the tests of kernels share: every instruction set, every number of threads, guarded buffers.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tril/base/parallel.h"

namespace tril::testing {

// Under a sanitizer the instruction set without vectors, whose loops are the same with one lane, takes most
// of the time: it is left out.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
inline constexpr int64_t kTestedTargets = kSanitized ? HWY_TARGETS & ~HWY_SCALAR : HWY_TARGETS;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Calls body() under each instruction set of this machine that the kernels are compiled for.
template <class Body>
void for_each_target(const Body& body) {
#ifdef HWY_COMPILE_ONLY_STATIC
  body();
#else
  struct Restore {
    ~Restore() { hwy::SetSupportedTargetsForTest(0); }
  } restore;
  for (int64_t left = hwy::SupportedTargets() & kTestedTargets; left != 0; left &= left - 1) {
    const int64_t target = left & -left;
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    body();
    if (::testing::Test::HasFatalFailure()) return;
  }
#endif
}

// The result of run(executor) must be the same bits with 1, 2, 3 and 4 threads.
template <class Run>
void expect_same_for_any_threads(const std::string& what, const Run& run) {
  SerialExecutor serial;
  const std::vector<float> expected = run(serial);
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    expect_same_bits(what + " on " + std::to_string(threads) + " threads", run(pool), expected);
  }
}

// A buffer of exactly `size` floats that starts off alignment, with guard words around it: a NaN of one bit
// pattern, so that reading them poisons a result and writing them is seen.
class Guarded {
 public:
  explicit Guarded(const std::vector<float>& values, size_t misalignment = 1)
      : front_(kGuard + misalignment), size_(values.size()), memory_(front_ + size_ + kGuard, guard()) {
    std::copy(values.begin(), values.end(), data());
  }
  explicit Guarded(size_t size, size_t misalignment = 1)
      : Guarded(std::vector<float>(size, guard()), misalignment) {}

  float* data() { return memory_.data() + front_; }
  std::span<const float> span() { return {data(), size_}; }
  std::vector<float> values() { return {data(), data() + size_}; }
  // Fails the test if something was written around the buffer.
  void expect_intact(const std::string& what) const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (i >= front_ && i < front_ + size_) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(memory_[i]), kPattern)
          << what << ": written " << static_cast<int64_t>(i - front_) << " of " << size_;
    }
  }

 private:
  static constexpr uint32_t kPattern = 0x7FC5A5A5;
  static constexpr size_t kGuard = 64;
  static float guard() { return std::bit_cast<float>(kPattern); }

  size_t front_;
  size_t size_;
  std::vector<float> memory_;
};

}  // namespace tril::testing
