// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011). A draw is a pure function of (seed, stream, substream, index): it does not
// depend on the order of calls, the number of threads, or what was drawn before.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tril {

// One Philox block: four 32-bit words from a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The key of a named stream: a hash (FNV-1a, finished with splitmix64) of seed and name.
uint64_t stream_key(uint64_t seed, std::string_view name);

class RandomStream {
 public:
  // `substream` separates uses of one stream: a step, a layer, a document.
  RandomStream(uint64_t seed, std::string_view name, uint64_t substream = 0)
      : key_(stream_key(seed, name)), substream_(substream) {}

  uint64_t key() const { return key_; }
  uint64_t substream() const { return substream_; }

  // Word (index & 3) of the block with counter {index >> 2 (64 bits), substream (64 bits)}.
  uint32_t bits(uint64_t index) const;
  // 64 bits: words 2*(index & 1) and the next of block index >> 1.
  uint64_t bits64(uint64_t index) const;
  // In [0, 1), 24 bits.
  float uniform(uint64_t index) const { return static_cast<float>(bits(index) >> 8) * 0x1p-24f; }
  // In [0, 1), 53 bits.
  double uniform64(uint64_t index) const { return static_cast<double>(bits64(index) >> 11) * 0x1p-53; }
  // Standard normal (Box-Muller in double); index is the index of the normal number.
  double normal(uint64_t index) const;
  // In [0, n), n > 0, without bias worth the name (128-bit multiply-shift of 64 bits).
  uint64_t below(uint64_t index, uint64_t n) const;

 private:
  uint64_t key_;
  uint64_t substream_;
};

}  // namespace tril
