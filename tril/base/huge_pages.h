// Memory of tables that are looked up at random places: in huge pages, where the system gives them, a look-up
// does not wait for its address.
#pragma once

#include <cstddef>
#include <vector>

namespace tril {

// Of 1 MiB or more: whole huge pages. Throws std::bad_alloc.
void* allocate_table(size_t bytes);
void free_table(void* table) noexcept;

template <class T>
struct TableAllocator {
  using value_type = T;
  TableAllocator() = default;
  template <class U>
  TableAllocator(const TableAllocator<U>&) {}  // NOLINT: as std::allocator
  T* allocate(size_t count) {
    static_assert(alignof(T) <= 64);
    return static_cast<T*>(allocate_table(count * sizeof(T)));
  }
  void deallocate(T* table, size_t) noexcept { free_table(table); }
  bool operator==(const TableAllocator&) const { return true; }
};

template <class T>
using Table = std::vector<T, TableAllocator<T>>;

}  // namespace tril
