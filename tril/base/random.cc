#include "tril/base/random.h"

#include <cmath>
#include <numbers>

namespace tril {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> x, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * x[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<uint32_t>(p1 >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return x;
}

namespace {

uint64_t splitmix64(uint64_t z) {
  z += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

std::array<uint32_t, 4> block(uint64_t key, uint64_t counter, uint64_t substream) {
  return philox4x32({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                     static_cast<uint32_t>(substream), static_cast<uint32_t>(substream >> 32)},
                    {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
}

}  // namespace

uint64_t stream_key(uint64_t seed, std::string_view name) {
  uint64_t h = 0xCBF29CE484222325;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return splitmix64(h ^ splitmix64(seed));
}

uint32_t RandomStream::bits(uint64_t index) const { return block(key_, index >> 2, substream_)[index & 3]; }

uint64_t RandomStream::bits64(uint64_t index) const {
  const auto words = block(key_, index >> 1, substream_);
  const size_t first = 2 * (index & 1);
  return words[first] | uint64_t{words[first + 1]} << 32;
}

double RandomStream::normal(uint64_t index) const {
  const auto words = block(key_, index, substream_);  // the block of bits64(2 index) and bits64(2 index + 1)
  const auto uniform = [&](size_t first) {
    return static_cast<double>((words[first] | uint64_t{words[first + 1]} << 32) >> 11) * 0x1p-53;
  };
  const double u = 1.0 - uniform(0);  // (0, 1]
  const double v = uniform(2);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

uint64_t RandomStream::below(uint64_t index, uint64_t n) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((Wide{bits64(index)} * n) >> 64);
}

}  // namespace tril
