// An IntegerArray that lies in one piece in a file.
#pragma once

#include "tril/containers/integer_array.h"

namespace tril {

class MappedIntegers final : public IntegerArray {
 public:
  // Numbers of `type` from byte `begin`: `size` of them, which the caller has found to lie within the file.
  MappedIntegers(MappedFile file, int64_t begin, int64_t size, IntegerType type);
  int64_t size() const override { return size_; }
  IntegerType type() const override { return type_; }
  void read(int64_t begin, std::span<int64_t> out) override;

 private:
  MappedFile file_;
  int64_t begin_, size_;
  IntegerType type_;
};

}  // namespace tril
