#include "tril/tensor/arena.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tril {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kHugePage = int64_t{2} << 20;

}  // namespace

void AlignedFree::operator()(std::byte* p) const { std::free(p); }

AlignedBytes allocate_aligned(int64_t bytes) {
  const bool large = bytes >= 2 * kHugePage;
  const int64_t alignment = large ? kHugePage : kLine;
  const int64_t size = checked_add(std::max<int64_t>(bytes, 1), alignment - 1) / alignment * alignment;
  void* p = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(size));
  check_use(p != nullptr, "memory: {} bytes could not be allocated; use a smaller model, batch or context",
            bytes);
#if defined(__linux__)
  // Fewer misses of the address translation. A wish: where the system has no huge pages nothing changes.
  // Whole ones only: up to 2 MB behind the last would come into memory for nothing.
  if (large) madvise(p, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
#endif
  std::memset(p, 0, static_cast<size_t>(bytes));
  return AlignedBytes(static_cast<std::byte*>(p));
}

View Arena::allocate(const Shape& shape, DType dtype) {
  const int64_t bytes = dtype_bytes(dtype, shape.elements());
  const int64_t end = checked_add(used_, checked_add(bytes, kAlignment - 1) / kAlignment * kAlignment);
  check_use(is_dry() || end <= capacity_, "arena: {} bytes asked for with {} of {} in use", bytes, used_,
            capacity_);
  // Dry views are distinct and not null, so that "is there a bias?" is answered the same dry as for real.
  std::byte* const data = is_dry() ? reinterpret_cast<std::byte*>(kAlignment + used_) : memory_.get() + used_;
  used_ = end;
  peak_ = std::max(peak_, end);
  return View(data, dtype, shape);
}

}  // namespace tril
