// Dropout of attention weights: Philox4x32-10 (see tril/base/random.h) for a vector of queries at once.

// clang-format off
#if defined(TRIL_KERNELS_ATTENTION_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_ATTENTION_DROPOUT_INL_H_
#undef TRIL_KERNELS_ATTENTION_DROPOUT_INL_H_
#else
#define TRIL_KERNELS_ATTENTION_DROPOUT_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include <cmath>

#include "tril/base/random.h"
#include "tril/kernels/attention_softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::Vec<Unsigned>;

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void philox(uint32_t x0, uint32_t x1, uint32_t x2, uint32_t x3, uint64_t key, Words words[4]) {
  const auto block =
      philox4x32({x0, x1, x2, x3}, {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  for (size_t w = 0; w < 4; ++w) words[w] = hn::Set(Unsigned(), block[w]);
}
#else
// The four words of the blocks with counters {x0, x1 (one a lane), x2, x3}. A word stands in the low half of
// a 64-bit lane; the high half is never read: MulEven takes the low halves and gives whole 64-bit products.
struct PhiloxHalf {
  Words x[4];

  HWY_INLINE void round(Words key0, Words key1) {
    const Unsigned du;
    const auto high = [](auto wide) HWY_ATTR { return hn::BitCast(Unsigned(), hn::ShiftRight<32>(wide)); };
    const auto p0 = hn::MulEven(x[0], hn::Set(du, 0xD2511F53u));
    const auto p1 = hn::MulEven(x[2], hn::Set(du, 0xCD9E8D57u));
    x[0] = hn::Xor(hn::Xor(high(p1), x[1]), key0);
    x[1] = hn::BitCast(du, p1);
    x[2] = hn::Xor(hn::Xor(high(p0), x[3]), key1);
    x[3] = hn::BitCast(du, p0);
  }
};

// words[w] lane i = word w of the block with counter {x0, x1 + i, x2, x3}.
HWY_INLINE void philox(uint32_t x0, uint32_t x1, uint32_t x2, uint32_t x3, uint64_t key, Words words[4]) {
  const Unsigned du;
  const hn::Repartition<uint64_t, Unsigned> du64;
  const Words row = hn::Add(hn::Iota(du, 0), hn::Set(du, x1));
  const Words odd_row = hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(du64, row)));
  PhiloxHalf even{{hn::Set(du, x0), row, hn::Set(du, x2), hn::Set(du, x3)}};
  PhiloxHalf odd{{hn::Set(du, x0), odd_row, hn::Set(du, x2), hn::Set(du, x3)}};
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int r = 0; r < 10; ++r, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
    even.round(hn::Set(du, key0), hn::Set(du, key1));
    odd.round(hn::Set(du, key0), hn::Set(du, key1));
  }
  HWY_UNROLL(4)
  for (int w = 0; w < 4; ++w) {
    const auto low = hn::And(hn::BitCast(du64, even.x[w]), hn::Set(du64, 0xFFFFFFFFu));
    words[w] = hn::BitCast(du, hn::Or(low, hn::ShiftLeft<32>(hn::BitCast(du64, odd.x[w]))));
  }
}
#endif

// keep_ij = 0 for a dropped weight, 1 / (1 - dropout) for a kept one; `stream` is b * H + h.
HWY_NOINLINE void draw_dropout(const AttentionOptions& options, const Tile& tile, int64_t stream,
                               float* keep) {
  static_assert(kTile % 4 == 0);
  const Floats d;
  const Unsigned du;
  const uint32_t threshold = static_cast<uint32_t>(std::ceil(static_cast<double>(options.dropout) * 0x1p32));
  const Vector kept = hn::Set(d, 1.0f / (1.0f - options.dropout));
  for (int64_t k = 0; k < tile.keys; k += 4) {
    for (int64_t q = tile.first_query(k / kStrip * kStrip); q < tile.queries; q += kLanes) {
      Words words[4];
      philox(static_cast<uint32_t>((tile.key + k) >> 2), static_cast<uint32_t>(tile.query + q),
             static_cast<uint32_t>(stream), options.dropout_substream, options.dropout_key, words);
      HWY_UNROLL(4)
      for (int w = 0; w < 4; ++w) {
        const auto keeps = hn::RebindMask(d, hn::Not(hn::Lt(words[w], hn::Set(du, threshold))));
        hn::StoreU(hn::IfThenElseZero(keeps, kept), d, keep + (k + w) * kTileStride + q);
      }
    }
  }
}

// x_ij *= keep_ij
HWY_NOINLINE void apply_dropout(const Tile& tile, const float* keep, float* x) {
  const Floats d;
  for (int64_t k = 0; k < tile.keys; ++k) {
    for (int64_t q = tile.first_query(k / kStrip * kStrip); q < tile.queries; q += kLanes) {
      const int64_t at = k * kTileStride + q;
      hn::StoreU(hn::Mul(hn::LoadU(d, x + at), hn::LoadU(d, keep + at)), d, x + at);
    }
  }
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_DROPOUT_INL_H_
