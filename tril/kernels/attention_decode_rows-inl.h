// The two products of decoding, for a few rows of queries and a block of keys: the head size in the lanes.

// clang-format off
#if defined(TRIL_KERNELS_ATTENTION_DECODE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_ATTENTION_DECODE_ROWS_INL_H_
#undef TRIL_KERNELS_ATTENTION_DECODE_ROWS_INL_H_
#else
#define TRIL_KERNELS_ATTENTION_DECODE_ROWS_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include <type_traits>

#include "tril/kernels/attention_decode.h"
#include "tril/kernels/attention_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Rows handled together: 4 x 4 sums, 4 keys and a query fit in 32 registers, half of them in 16.
constexpr int kDecodeRows = (HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64) ? 4 : 2;

// With more rows than this a block is unpacked first: they read it again and again.
constexpr int64_t kUnpackedRows = 4;

// The keys or values of a block, unpacked or where the caller has them. While they are computed with, those
// `ahead` elements further are asked for: 0 asks for nothing new.
template <class Element>
struct BlockRows {
  const Element* data;
  int64_t stride, ahead;
  const Element* row(int64_t k) const { return data + k * stride; }
};

// Brings the cache line that lies `ahead` elements after row[i] into the second cache, where more lines can
// be on their way than to the first. Once for each line: i steps by kLanes.
template <class Element>
HWY_INLINE void ask_for(const Element* row, int64_t i, int64_t ahead) {
  if (kLanes % kLine<Element> != 0 && i % kLine<Element> != 0) return;
  const auto further = static_cast<uintptr_t>(i + ahead) * sizeof(Element);
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(row) + further), 0, 2);
}

#if HWY_TARGET != HWY_SCALAR
// The sum of the blocks of four lanes.
template <class D>
HWY_INLINE void store_sum_of_blocks(D d, hn::Vec<D> x, float* sum) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    store_sum_of_blocks(half, hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)), sum);
  } else {
    hn::StoreU(x, d, sum);
  }
}
#endif

// sums[i] = the sum of the lanes of x[i].
HWY_INLINE void store_sums_of_lanes(const Vector x[4], float* sums) {
#if HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < 4; ++i) sums[i] = hn::GetLane(x[i]);
#else
  // In each block of four lanes: a0 + a2, b0 + b2, a1 + a3, b1 + b3, then all of a, b, c, d.
  const Floats d;
  const hn::Repartition<double, Floats> pairs;
  const auto halves = [&](Vector a, Vector b) HWY_ATTR {
    return hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  };
  const auto ab = halves(x[0], x[1]), cd = halves(x[2], x[3]);
  const Vector all = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, cd)),
                             hn::BitCast(d, hn::InterleaveUpper(pairs, ab, cd)));
  store_sum_of_blocks(d, all, sums);
#endif
}

// scores[r][i] = q_r . k_i of kRows rows and four keys, which lie at key, key + step[0], ...
template <int kRows, class Element>
HWY_INLINE void scores_of_four(const Packing& packing, const Element* key, const int64_t step[3],
                               int64_t ahead, const float* queries, float* scores) {
  const Floats d;
  const Element *const key1 = key + step[0], *const key2 = key + step[1], *const key3 = key + step[2];
  Vector sum[kRows][4];
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int i = 0; i < 4; ++i) sum[r][i] = hn::Zero(d);
  }
  for (int64_t j = 0; j < packing.width; j += kLanes) {
    const Vector x[4] = {load(key + j), load(key1 + j), load(key2 + j), load(key3 + j)};
    for (const Element* const at : {key, key1, key2, key3}) ask_for(at, j, ahead);
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      const Vector q = hn::LoadU(d, queries + r * packing.stride + j);
      HWY_UNROLL(4)
      for (int i = 0; i < 4; ++i) sum[r][i] = hn::MulAdd(q, x[i], sum[r][i]);
    }
  }
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) store_sums_of_lanes(sum[r], scores + r * kDecodeKeys);
}

// scores[r][k] = q_r . k_k of kRows rows and `count` keys; the last four are filled up
// with keys that were there before: what they give is not read.
template <int kRows, class Element>
HWY_INLINE void scores_of_rows(const Packing& packing, int64_t count, const BlockRows<Element>& keys,
                               const float* queries, float* scores) {
  const int64_t steps[3] = {keys.stride, 2 * keys.stride, 3 * keys.stride};
  int64_t k = 0;
  for (; k + 4 <= count; k += 4)
    scores_of_four<kRows>(packing, keys.row(k), steps, keys.ahead, queries, scores + k);
  if (k == count) return;
  const int64_t left = count - k;  // 1 to 3
  const int64_t fewer[3] = {left > 1 ? steps[0] : 0, left > 2 ? steps[1] : 0, 0};
  scores_of_four<kRows>(packing, keys.row(k), fewer, keys.ahead, queries, scores + k);
}

// output[r] += sum_k p[r][k] v_k, kVectors vectors of the head from `column` on.
template <int kRows, int kVectors, class Element>
HWY_INLINE void add_columns(int64_t count, int64_t stride, const float* p, const BlockRows<Element>& values,
                            int64_t column, float* output) {
  const Floats d;
  Vector sum[kRows][kVectors];
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int64_t k = 0; k < count; ++k) {
    Vector x[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      x[v] = load(values.row(k) + column + v * kLanes);
      ask_for(values.row(k) + column, v * kLanes, values.ahead);
    }
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      const Vector weight = hn::Set(d, p[r * kDecodeKeys + k]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(weight, x[v], sum[r][v]);
    }
  }
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) Added()(sum[r][v], output + r * stride + column + v * kLanes);
  }
}

// The same of all columns.
template <int kRows, class Element>
HWY_INLINE void add_rows(const Packing& packing, int64_t count, const float* p,
                         const BlockRows<Element>& values, float* output) {
  int64_t column = 0;
  for (; column + 4 * kLanes <= packing.width; column += 4 * kLanes)
    add_columns<kRows, 4>(count, packing.stride, p, values, column, output);
  for (; column < packing.width; column += kLanes)
    add_columns<kRows, 1>(count, packing.stride, p, values, column, output);
}

// Calls body(number of rows, first row) for all rows, kRows at a time and then fewer.
template <int kRows, class Body>
HWY_INLINE void in_blocks_of_rows(int64_t first, int64_t rows, Body body) {
  for (; first + kRows <= rows; first += kRows) body(std::integral_constant<int, kRows>(), first);
  if constexpr (kRows > 1) in_blocks_of_rows<kRows / 2>(first, rows, body);
}

// packed (count, stride) = rows, as floats with zeros behind.
template <class Element>
void unpack_block(const Packing& packing, const BlockRows<Element>& rows, int64_t count, float* packed) {
  const Floats d;
  const int64_t whole = packing.head_size / kLanes * kLanes;
  for (int64_t k = 0; k < count; ++k, packed += packing.stride) {
    const Element* const row = rows.row(k);
    for (int64_t i = 0; i < whole; i += kLanes) {
      hn::StoreU(load(row + i), d, packed + i);
      ask_for(row, i, rows.ahead);
    }
    for (int64_t i = whole; i < packing.head_size; ++i) packed[i] = to_float(row[i]);
    std::fill(packed + packing.head_size, packed + packing.width, 0.0f);
  }
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_DECODE_ROWS_INL_H_
