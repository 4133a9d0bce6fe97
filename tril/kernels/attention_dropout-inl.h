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

constexpr int kRounds = 10;
constexpr uint32_t kFactor0 = 0xD2511F53u, kFactor1 = 0xCD9E8D57u;

inline uint32_t low_half(uint64_t x) { return static_cast<uint32_t>(x); }
inline uint32_t high_half(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

// The draws of one head: words of the blocks {key >> 2, query, stream, substream}. A round is
//   x0' = high(f1 x2) ^ x1 ^ k0,  x1' = low(f1 x2),  x2' = high(f0 x0) ^ x3 ^ k1,  x3' = low(f0 x0).
// Only x1 differs among queries, so after round 1 only x0 does, and after round 2 only x2 and x3: of the six
// products of three rounds two need vectors, and the first of them, f0 x0 in round 2, is the same for all
// keys.
class Philox {
 public:
  Philox(const AttentionOptions& options, int64_t stream)
      : stream_(static_cast<uint32_t>(stream)),
        substream_(options.dropout_substream),
        key_(options.dropout_key) {
    for (uint32_t r = 0; r < kRounds; ++r) {
      keys0_[r] = low_half(key_) + r * 0x9E3779B9u;
      keys1_[r] = high_half(key_) + r * 0xBB67AE85u;
    }
  }

#if HWY_TARGET == HWY_SCALAR
  using Queries = int64_t;
  using Keys = int64_t;
  Queries queries(int64_t first) const { return first; }
  Keys keys(int64_t first) const { return first; }

  void draw(Queries query, Keys key, Words words[4]) const {
    const auto block =
        philox4x32({static_cast<uint32_t>(key >> 2), static_cast<uint32_t>(query), stream_, substream_},
                   {low_half(key_), high_half(key_)});
    for (size_t w = 0; w < 4; ++w) words[w] = hn::Set(Unsigned(), block[w]);
  }
#else
  // f0 x0 of round 2 for a vector of queries: 64-bit products of the even and of the odd ones, and their high
  // halves. Constructors are written out: the compiler's own would not be of this instruction set.
  struct Queries {
    HWY_INLINE Queries() {}
    HWY_INLINE Queries(Words e, Words e_high, Words o, Words o_high)
        : even(e), even_high(e_high), odd(o), odd_high(o_high) {}
    Words even, even_high, odd, odd_high;
  };
  HWY_INLINE Queries queries(int64_t first) const {
    const Unsigned du;
    const uint32_t others = high_half(uint64_t{kFactor1} * stream_) ^ keys0_[0];
    const Words row = hn::Add(hn::Iota(du, 0), hn::Set(du, static_cast<uint32_t>(first)));
    const Words x0 = hn::Xor(row, hn::Set(du, others));
    const Words even = times(x0, kFactor0), odd = times(high(x0), kFactor0);
    return {even, high(even), odd, high(odd)};
  }

  // Words of rounds 2 and 3 that are the same for all queries, with the keys that they meet.
  struct Keys {
    uint32_t round2_x2, round3_x0, round3_x2, round3_x3;
  };
  HWY_INLINE Keys keys(int64_t first) const {
    const uint64_t p0 = uint64_t{kFactor0} * static_cast<uint32_t>(first >> 2);
    const uint64_t p1 = uint64_t{kFactor1} * (high_half(p0) ^ substream_ ^ keys1_[0]);
    const uint64_t p2 = uint64_t{kFactor0} * (high_half(p1) ^ (kFactor1 * stream_) ^ keys0_[1]);
    return {low_half(p0) ^ keys1_[1], low_half(p1) ^ keys0_[2], high_half(p2) ^ keys1_[2], low_half(p2)};
  }

  // words[w] lane i = word w of the block of query i and the four keys.
  HWY_INLINE void draw(const Queries& queries, const Keys& keys, Words words[4]) const {
    State even = after_three_rounds(queries.even, queries.even_high, keys);
    State odd = after_three_rounds(queries.odd, queries.odd_high, keys);
    HWY_UNROLL(6)
    for (int r = 3; r < kRounds - 1; ++r) {
      even.round(keys0_[r], keys1_[r]);
      odd.round(keys0_[r], keys1_[r]);
    }
    even.round(keys0_[kRounds - 1], keys1_[kRounds - 1]);
    odd.last_round(keys0_[kRounds - 1], keys1_[kRounds - 1]);
    HWY_UNROLL(4)
    for (int w = 0; w < 4; ++w) words[w] = hn::OddEven(odd.x[w], even.x[w]);
  }

 private:
  // A word stands in the low half of a 64-bit lane; the high half is never read: MulEven takes the low ones.
  static HWY_INLINE Words times(Words x, uint32_t factor) {
    return hn::BitCast(Unsigned(), hn::MulEven(x, hn::Set(Unsigned(), factor)));
  }
  // DupOdd, not a shift: AVX-512 has one port for products and shifts, another for shuffles.
  static HWY_INLINE Words high(Words x) { return hn::DupOdd(x); }

  struct State {
    Words x[4];

    HWY_INLINE void round(uint32_t key0, uint32_t key1) {
      const Unsigned du;
      const Words p0 = times(x[0], kFactor0), p1 = times(x[2], kFactor1);
      x[0] = hn::Xor3(high(p1), x[1], hn::Set(du, key0));
      x[1] = p1;
      x[2] = hn::Xor3(high(p0), x[3], hn::Set(du, key1));
      x[3] = p0;
    }

    // The words in the high halves.
    HWY_INLINE void last_round(uint32_t key0, uint32_t key1) {
      const Unsigned du;
      const Words p0 = times(x[0], kFactor0), p1 = times(x[2], kFactor1);
      x[0] = hn::Xor3(p1, hn::DupEven(x[1]), hn::Set(du, key0));
      x[1] = hn::DupEven(p1);
      x[2] = hn::Xor3(p0, hn::DupEven(x[3]), hn::Set(du, key1));
      x[3] = hn::DupEven(p0);
    }
  };

  static HWY_INLINE State after_three_rounds(Words p0, Words p0_high, const Keys& keys) {
    const Unsigned du;
    const Words p1 = times(hn::Xor(p0_high, hn::Set(du, keys.round2_x2)), kFactor1);
    return {{hn::Xor(high(p1), hn::Set(du, keys.round3_x0)), p1, hn::Xor(p0, hn::Set(du, keys.round3_x2)),
             hn::Set(du, keys.round3_x3)}};
  }
#endif

 private:
  uint32_t stream_, substream_;
  uint64_t key_;
  uint32_t keys0_[kRounds], keys1_[kRounds];
};

// Calls use(lanes that are kept, their offset in a score tile) for all scores; `stream` is b * H + h.
template <class Use>
HWY_INLINE void for_each_draw(const AttentionOptions& options, const Tile& tile, int64_t stream, Use&& use) {
  static_assert(kTile % 4 == 0);
  const Philox philox(options, stream);
  const double threshold = std::ceil(static_cast<double>(options.dropout) * 0x1p32);  // at least 1
  const Words last_dropped = hn::Set(Unsigned(), static_cast<uint32_t>(threshold) - 1);
  Philox::Queries queries[kTile / kLanes];
  for (int64_t q = 0; q < tile.queries; q += kLanes) queries[q / kLanes] = philox.queries(tile.query + q);
  for (int64_t k = 0; k < tile.keys; k += 4) {
    const Philox::Keys keys = philox.keys(tile.key + k);
    const int64_t strip = k / kStrip * kStrip, end = std::min(tile.queries, tile.end_query(strip + kStrip));
    for (int64_t q = tile.first_query(strip); q < end; q += kLanes) {
      Words words[4];
      philox.draw(queries[q / kLanes], keys, words);
      HWY_UNROLL(4)
      for (int w = 0; w < 4; ++w)
        use(hn::RebindMask(Floats(), hn::Lt(last_dropped, words[w])), (k + w) * kTileStride + q);
    }
  }
}

// keep_ij = 0 for a dropped weight, 1 / (1 - dropout) for a kept one.
HWY_NOINLINE void draw_dropout(const AttentionOptions& options, const Tile& tile, int64_t stream,
                               float* keep) {
  const Vector kept = hn::Set(Floats(), 1.0f / (1.0f - options.dropout));
  for_each_draw(options, tile, stream, [&](FloatMask keeps, int64_t at) HWY_ATTR {
    hn::StoreU(hn::IfThenElseZero(keeps, kept), Floats(), keep + at);
  });
}

// p_ij *= keep_ij
HWY_NOINLINE void drop_weights(const AttentionOptions& options, const Tile& tile, int64_t stream, float* p) {
  const Vector kept = hn::Set(Floats(), 1.0f / (1.0f - options.dropout));
  for_each_draw(options, tile, stream, [&](FloatMask keeps, int64_t at) HWY_ATTR {
    hn::StoreU(hn::IfThenElseZero(keeps, hn::Mul(hn::LoadU(Floats(), p + at), kept)), Floats(), p + at);
  });
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_DROPOUT_INL_H_
