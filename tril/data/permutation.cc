#include "tril/data/permutation.h"

#include <cmath>

#include "tril/base/error.h"
#include "tril/base/random.h"

namespace tril {
namespace {

constexpr uint64_t kRounds = 16;

// Of key, round and half, below n.
uint64_t round_value(uint64_t key, uint64_t round, uint64_t half, uint64_t n) {
  __extension__ using Wide = unsigned __int128;
  const auto words = philox4x32(
      {static_cast<uint32_t>(half), static_cast<uint32_t>(half >> 32), static_cast<uint32_t>(round), 0},
      {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  return static_cast<uint64_t>((Wide{words[0] | uint64_t{words[1]} << 32} * n) >> 64);
}

uint64_t sum_modulo(uint64_t a, uint64_t b, uint64_t n) { return a + b < n ? a + b : a + b - n; }

uint64_t root_rounded_up(uint64_t n) {
  auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root < n) ++root;
  while ((root - 1) * (root - 1) >= n) --root;
  return root;
}

}  // namespace

Permutation::Permutation(int64_t size, uint64_t key) : size_(static_cast<uint64_t>(size)), key_(key) {
  check_use(size >= 1 && size <= int64_t{1} << 62, "permutation of {} elements: give 1 to 2^62", size);
  left_ = root_rounded_up(size_);
  right_ = (size_ + left_ - 1) / left_;
}

int64_t Permutation::operator()(int64_t i) const {
  check_use(i >= 0 && i < size(), "permutation: element {} of {}", i, size());
  auto x = static_cast<uint64_t>(i);
  do {
    uint64_t left = x / right_, right = x % right_;
    for (uint64_t round = 0; round < kRounds; round += 2) {
      left = sum_modulo(left, round_value(key_, round, right, left_), left_);
      right = sum_modulo(right, round_value(key_, round + 1, left, right_), right_);
    }
    x = left * right_ + right;
  } while (x >= size_);
  return static_cast<int64_t>(x);
}

}  // namespace tril
