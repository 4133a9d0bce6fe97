#include "tril/kernels/dropout.h"

#include <algorithm>
#include <cmath>

#include "tril/base/random.h"
#include "tril/kernels/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/dropout.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/rows-inl.h"

#ifndef TRIL_KERNELS_DROPOUT_CONSTANTS_
#define TRIL_KERNELS_DROPOUT_CONSTANTS_
namespace tril {
namespace {

struct DropoutConstants {
  uint64_t key;
  uint64_t substream;
  uint32_t threshold;  // words below are dropped
  float scale;
};

// The elements of one Philox block that lie in [skip, skip + count).
inline void dropout_block(const DropoutConstants& k, uint64_t block, size_t skip, size_t count,
                          const float* x, float* y) {
  const auto words =
      philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                  static_cast<uint32_t>(k.substream), static_cast<uint32_t>(k.substream >> 32)},
                 {static_cast<uint32_t>(k.key), static_cast<uint32_t>(k.key >> 32)});
  for (size_t i = 0; i < count; ++i) y[i] = words[skip + i] < k.threshold ? 0.0f : x[i] * k.scale;
}

}  // namespace
}  // namespace tril
#endif

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR

using WordTag = hn::RebindToUnsigned<FloatTag>;
using BlockTag = hn::Repartition<uint64_t, FloatTag>;
using Words = hn::Vec<WordTag>;
using Blocks = hn::Vec<BlockTag>;

// Philox4x32-10 on one block a 64-bit lane. The four words of a block are kept in the low halves of four
// vectors; the high halves hold rubbish, which the 32 x 32 multiplication does not read.
struct PhiloxState {
  Blocks x0, x1, x2, x3;
};

HWY_INLINE PhiloxState philox(Blocks block, uint64_t substream, uint64_t key) {
  const BlockTag d;
  const WordTag dw;
  const auto product = [&](Blocks x, uint32_t factor)
                           HWY_ATTR { return hn::MulEven(hn::BitCast(dw, x), hn::Set(dw, factor)); };
  PhiloxState s{block, hn::ShiftRight<32>(block), hn::Set(d, substream), hn::Set(d, substream >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Blocks p0 = product(s.x0, 0xD2511F53);
    const Blocks p1 = product(s.x2, 0xCD9E8D57);
    s.x0 = hn::Xor3(hn::ShiftRight<32>(p1), s.x1, hn::Set(d, k0));
    s.x1 = p1;
    s.x2 = hn::Xor3(hn::ShiftRight<32>(p0), s.x3, hn::Set(d, k1));
    s.x3 = p0;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return s;
}

// The low halves of a and b as pairs.
HWY_INLINE Blocks pack_low(Blocks a, Blocks b) {
  const BlockTag d;
  const WordTag dw;
  return hn::BitCast(d, hn::OddEven(hn::BitCast(dw, hn::ShiftLeft<32>(b)), hn::BitCast(dw, a)));
}

template <class Access>
HWY_INLINE void select_words(const DropoutConstants& k, Words words, Access access, const float* x,
                             float* y) {
  const FloatTag d;
  const auto dropped = hn::RebindMask(d, hn::Lt(words, hn::Set(WordTag(), k.threshold)));
  // Selected after the product: a dropped NaN is 0.
  access.store(hn::IfThenZeroElse(dropped, hn::Mul(access.load(x), hn::Set(d, k.scale))), y);
}

// Elements from the start of `block` on, as many whole vectors of blocks as fit; returns how many elements.
HWY_INLINE size_t dropout_vectors(const DropoutConstants& k, uint64_t block, size_t count, const float* x,
                                  float* y) {
  const BlockTag d;
  const size_t lanes = hn::Lanes(d);  // blocks a step
  const size_t floats = 2 * lanes;    // in a vector
  // Interleaving 64-bit lanes works within 128 bits, so neighbours get blocks half a vector apart: the
  // lower interleaving then holds the first half of the blocks in order, the upper one the second half.
  HWY_ALIGN uint64_t order[hn::MaxLanes(BlockTag())];
  for (size_t i = 0; i < lanes; ++i) order[i] = i / 2 + (i % 2) * (lanes / 2);
  const Blocks offsets = hn::Load(d, order);
  size_t i = 0;
  for (; i + 2 * floats <= count; i += 2 * floats) {
    const Blocks counter = hn::Add(hn::Set(d, block + i / 4), offsets);
    const PhiloxState s = philox(counter, k.substream, k.key);
    const Blocks w01 = pack_low(s.x0, s.x1), w23 = pack_low(s.x2, s.x3);
    const WordTag dw;
    select_words(k, hn::BitCast(dw, hn::InterleaveLower(d, w01, w23)), WholeVector{}, x + i, y + i);
    select_words(k, hn::BitCast(dw, hn::InterleaveUpper(d, w01, w23)), WholeVector{}, x + i + floats,
                 y + i + floats);
  }
  return i;
}

#else

HWY_INLINE size_t dropout_vectors(const DropoutConstants&, uint64_t, size_t, const float*, float*) {
  return 0;
}

#endif

void dropout_elements(const DropoutConstants& k, uint64_t first, size_t count, const float* x, float* y) {
  size_t i = std::min<size_t>(count, (4 - first % 4) % 4);
  if (i > 0) dropout_block(k, first / 4, first % 4, i, x, y);
  i += dropout_vectors(k, (first + i) / 4, count - i, x + i, y + i);
  for (; i < count; i += 4) {
    dropout_block(k, (first + i) / 4, 0, std::min<size_t>(4, count - i), x + i, y + i);
  }
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(dropout_elements);

void dropout_row(const DropoutMask& mask, int64_t first, int64_t count, const float* x, float* y) {
  const double p = mask.probability;
  // word < p 2^32 for an integer word means word < ceil(p 2^32).
  const DropoutConstants k{mask.key, mask.substream, static_cast<uint32_t>(std::ceil(p * 0x1p32)),
                           static_cast<float>(1.0 / (1.0 - p))};
  if (k.threshold == 0) {
    if (x != y) std::copy(x, x + count, y);
    return;
  }
  HWY_DYNAMIC_DISPATCH(dropout_elements)(k, static_cast<uint64_t>(first), static_cast<size_t>(count), x, y);
}

void dropout(Executor& executor, const DropoutMask& mask, int64_t count, const float* x, float* y) {
  parallel_for(executor, count, kChunkElements, [&](int64_t begin, int64_t end, int) {
    dropout_row(mask, begin, end - begin, x + begin, y + begin);
  });
}

}  // namespace tril
#endif  // HWY_ONCE
