#include "tril/base/huge_pages.h"

#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tril {

void* allocate_table(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20, kLeast = kHugePage / 2, kLine = 64;
  if (bytes > SIZE_MAX - kHugePage) throw std::bad_alloc();
  const size_t unit = bytes >= kLeast ? kHugePage : kLine;
  const size_t whole = (bytes + unit - 1) / unit * unit;
  void* const table = std::aligned_alloc(unit, whole);
  if (table == nullptr) throw std::bad_alloc();
#if defined(__linux__)
  if (unit == kHugePage) madvise(table, whole, MADV_HUGEPAGE);  // advice: without it pages are small
#endif
  return table;
}

void free_table(void* table) noexcept { std::free(table); }

}  // namespace tril
