// Random words of base/random.h, many at a time: Philox4x32-10 in vector registers.
#if defined(TRIL_KERNELS_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_PHILOX_INL_H_
#undef TRIL_KERNELS_PHILOX_INL_H_
#else
#define TRIL_KERNELS_PHILOX_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "tril/base/random.h"
#include "tril/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

using WordTag = hn::RebindToUnsigned<FloatTag>;

#if HWY_TARGET == HWY_SCALAR

constexpr size_t kWords = 4;  // drawn at a time

void draw_words(uint64_t key, uint64_t substream, uint64_t block, uint32_t* words) {
  const auto w = philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                             static_cast<uint32_t>(substream), static_cast<uint32_t>(substream >> 32)},
                            {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  std::copy(w.begin(), w.end(), words);
}

#else

using BlockTag = hn::Repartition<uint64_t, FloatTag>;
using Blocks = hn::Vec<BlockTag>;

// Philox4x32-10 on one block a 64-bit lane. The four words of a block are the low halves of four vectors; the
// high halves hold rubbish, which the 32 x 32 bit multiplication does not read.
struct PhiloxState {
  Blocks x0, x1, x2, x3;

  PhiloxState(Blocks block, uint64_t substream)
      : x0(block),
        x1(hn::ShiftRight<32>(block)),
        x2(hn::Set(BlockTag(), substream)),
        x3(hn::Set(BlockTag(), substream >> 32)) {}

  HWY_INLINE void round(Blocks key0, Blocks key1) {
    const WordTag d;
    const Blocks p0 = hn::MulEven(hn::BitCast(d, x0), hn::Set(d, 0xD2511F53));
    const Blocks p1 = hn::MulEven(hn::BitCast(d, x2), hn::Set(d, 0xCD9E8D57));
    x0 = hn::Xor3(hn::ShiftRight<32>(p1), x1, key0);
    x1 = p1;
    x2 = hn::Xor3(hn::ShiftRight<32>(p0), x3, key1);
    x3 = p0;
  }

  // The words in the order of the blocks, if the lanes hold the blocks as in draw_words.
  HWY_INLINE void store(uint32_t* words) const {
    const BlockTag d;
    const WordTag dw;
    const auto low = [&](Blocks a, Blocks b) HWY_ATTR {  // pairs of low halves
      return hn::BitCast(d, hn::OddEven(hn::BitCast(dw, hn::ShiftLeft<32>(b)), hn::BitCast(dw, a)));
    };
    const Blocks w01 = low(x0, x1), w23 = low(x2, x3);
    hn::StoreU(hn::BitCast(dw, hn::InterleaveLower(d, w01, w23)), dw, words);
    hn::StoreU(hn::BitCast(dw, hn::InterleaveUpper(d, w01, w23)), dw, words + hn::Lanes(dw));
  }
};

constexpr size_t kLanes = hn::MaxLanes(BlockTag());
constexpr size_t kWords = 2 * 4 * kLanes;  // drawn at a time: two states hide each other's latency

void draw_words(uint64_t key, uint64_t substream, uint64_t block, uint32_t* words) {
  const BlockTag d;
  // Interleaving works within 128 bits, so neighbouring lanes get blocks half a vector apart: then the lower
  // interleaving holds the first half of the blocks in order, the upper one the second half.
  HWY_ALIGN uint64_t order[kLanes];
  for (size_t i = 0; i < kLanes; ++i) order[i] = i / 2 + (i % 2) * (kLanes / 2);
  const Blocks first = hn::Add(hn::Set(d, block), hn::Load(d, order));
  PhiloxState a(first, substream), b(hn::Add(first, hn::Set(d, kLanes)), substream);
  Blocks key0 = hn::Set(d, key), key1 = hn::Set(d, key >> 32);
  for (int round = 0; round < 10; ++round) {
    a.round(key0, key1);
    b.round(key0, key1);
    key0 = hn::Add(key0, hn::Set(d, uint64_t{0x9E3779B9}));
    key1 = hn::Add(key1, hn::Set(d, uint64_t{0xBB67AE85}));
  }
  a.store(words);
  b.store(words + kWords / 2);
}

#endif

// use(i, n, words) for the words of elements first + i .. first + i + n - 1, until there were `count`. Behind
// the n words lies room for the last vector, which may start late.
template <class Use>
HWY_INLINE void for_each_words(uint64_t key, uint64_t substream, uint64_t first, size_t count,
                               const Use& use) {
  HWY_ALIGN uint32_t words[kWords + hn::MaxLanes(WordTag())] = {};
  uint64_t block = first / 4;
  size_t skip = first % 4;
  for (size_t i = 0; i < count; block += kWords / 4, skip = 0) {
    draw_words(key, substream, block, words);
    const size_t n = std::min(kWords - skip, count - i);
    use(i, n, words + skip);
    i += n;
  }
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
