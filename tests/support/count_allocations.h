// Counts every operator new of the program. It replaces the program's own, so one file of a test program
// includes it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

// Sanitizers bring their own operator new.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRIL_COUNT_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TRIL_COUNT_ALLOCATIONS 0
#endif
#endif
#ifndef TRIL_COUNT_ALLOCATIONS
#define TRIL_COUNT_ALLOCATIONS 1
#endif

namespace tril::testing {
inline std::atomic<int64_t> allocations{0};
}

#if TRIL_COUNT_ALLOCATIONS
void* operator new(size_t size) {
  ++tril::testing::allocations;
  if (void* const p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void* operator new(size_t size, std::align_val_t alignment) {
  ++tril::testing::allocations;
  const auto line = static_cast<size_t>(alignment);
  if (void* const p = std::aligned_alloc(line, (size + line - 1) / line * line)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
#endif
