// Arena: one allocation per lifetime, cut into views.
//
// A dry arena hands out views that must not be touched and only counts. So the code that lays out an arena
// runs twice, first dry to learn the size, then for real:
//
//   Arena dry = Arena::dry();  plan(dry);
//   Arena arena(dry.peak());   plan(arena);
#pragma once

#include "tril/tensor/tensor.h"

namespace tril {

class Arena {
 public:
  static constexpr int64_t kAlignment = 64;

  explicit Arena(int64_t bytes) : memory_(allocate_aligned(bytes)), capacity_(bytes) {}
  static Arena dry() { return Arena(); }
  Arena(Arena&&) noexcept = default;
  Arena& operator=(Arena&&) noexcept = default;

  bool is_dry() const { return memory_ == nullptr; }
  int64_t used() const { return used_; }
  int64_t peak() const { return peak_; }  // the largest used() so far
  int64_t capacity() const { return capacity_; }

  // Not cleared when memory is used again after a Scope. Throws kUse when the arena is full.
  View allocate(const Shape& shape, DType dtype = DType::kF32);
  float* allocate_f32(int64_t count) { return reinterpret_cast<float*>(allocate({count}).data); }

  // Gives back, when it ends, all that was allocated since it began: a stack of temporaries.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), used_(arena.used_) {}
    ~Scope() { arena_.used_ = used_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    int64_t used_;
  };

 private:
  Arena() = default;

  AlignedBytes memory_;
  int64_t capacity_ = 0;
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

}  // namespace tril
