// Model files without names: a header of numbers, then arrays one after another. Used by llm_c.cc and
// llama2_c*.cc.
#pragma once

#include <span>

#include "tril/base/bytes.h"
#include "tril/base/printable.h"
#include "tril/containers/stored_arrays.h"

namespace tril {

// Goes through a file, handing out its arrays. Nothing is trusted: an array beyond the end is kData.
class FlatFile {
 public:
  FlatFile(std::span<const std::byte> bytes, size_t begin, std::string where)
      : bytes_(bytes), at_(begin), where_(std::move(where)) {}

  // count * rows * columns elements of `element` bytes.
  const std::byte* take(int64_t count, int64_t rows, int64_t columns, int64_t element) {
    const size_t here = at_;
    int64_t size = 0;
    const bool overflow = __builtin_mul_overflow(count, rows, &size) ||
                          __builtin_mul_overflow(size, columns, &size) ||
                          __builtin_mul_overflow(size, element, &size);
    check_data(
        !overflow && static_cast<uint64_t>(size) <= bytes_.size() - at_,
        "{}: the sizes of its header want more than the {} bytes that are there; the file is cut off or "
        "damaged: get it again",
        where_, bytes_.size());
    at_ += static_cast<size_t>(size);
    return bytes_.data() + here;
  }
  void expect_end() const {
    check_data(
        at_ == bytes_.size(),
        "{}: has {} bytes, by the sizes of its header it should have {}; the file is damaged: get it again",
        where_, bytes_.size(), at_);
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_;
  std::string where_;
};

}  // namespace tril
