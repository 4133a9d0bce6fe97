// Permutation: a pseudo-random order of 0 .. size - 1 that is computed element by element, with no list in
// memory.
#pragma once

#include <cstdint>

namespace tril {

// The generalised Feistel cipher of Black and Rogaway, "Ciphers with arbitrary finite domains" (CT-RSA 2002):
// i is a pair of numbers below a and below b, where a b is little more than `size`; a round adds a random
// function of one half to the other, and what falls outside `size` goes through again (cycle walking). The
// random function is Philox4x32-10. Sixteen rounds: with eight, some orders of six elements come up a third
// more often than others.
class Permutation {
 public:
  // Each key gives another order. Throws kUse unless 1 <= size <= 2^62.
  Permutation(int64_t size, uint64_t key);

  int64_t size() const { return static_cast<int64_t>(size_); }
  int64_t operator()(int64_t i) const;  // where i goes; throws kUse unless 0 <= i < size()

 private:
  uint64_t size_, key_;
  uint64_t left_, right_;  // how many values each half has
};

}  // namespace tril
