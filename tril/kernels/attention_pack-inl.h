// Copies of rows as the products want them: contiguous, padded with zeros, and transposed ("across": queries
// in the lanes).

// clang-format off
#if defined(TRIL_KERNELS_ATTENTION_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_ATTENTION_PACK_INL_H_
#undef TRIL_KERNELS_ATTENTION_PACK_INL_H_
#else
#define TRIL_KERNELS_ATTENTION_PACK_INL_H_
#endif
// clang-format on

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "tril/kernels/attention_product-inl.h"
#include "tril/kernels/bfloat16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// How many rows ahead to ask for: rows of one head lie far apart, where the hardware does not look ahead.
constexpr int64_t kAhead = 8;
// Elements of a cache line.
template <class Element>
constexpr int64_t kLine = kPad* static_cast<int64_t>(sizeof(float) / sizeof(Element));

HWY_INLINE Vector load(const float* x) { return hn::LoadU(Floats(), x); }
HWY_INLINE Vector load(const Bfloat16* x) { return tril::HWY_NAMESPACE::load_halves(x); }

inline float to_float(float x) { return x; }
using tril::to_float;

// The first `count` elements, fewer than kLanes, and zeros.
HWY_INLINE Vector load_first(const float* x, int64_t count) {
  return tril::HWY_NAMESPACE::FirstLanes{static_cast<size_t>(count)}.load(x);
}
HWY_INLINE Vector load_first(const Bfloat16* x, int64_t count) {
  HWY_ALIGN float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = to_float(x[i]);
  return hn::Load(Floats(), lanes);
}

// packed (count, stride) = the rows from t = first of one head, as floats. Returns 0, or NaN if any value is
// not finite.
template <class Element>
float pack_rows(HeadRows<const Element> rows, int64_t batch, int64_t head, int64_t first, int64_t count,
                const Packing& packing, float* packed) {
  const Floats d;
  const Vector zero = hn::Zero(d);
  const int64_t whole = packing.head_size / kLanes * kLanes;
  Vector poison = zero;
  for (int64_t t = 0; t < count; ++t, packed += packing.stride) {
    const Element* const row = rows.row(batch, first + t, head);
    if (t + kAhead < count) {
      for (int64_t i = 0; i < packing.head_size; i += kLine<Element>)
        hwy::Prefetch(row + kAhead * rows.time_stride + i);
    }
    for (int64_t i = 0; i < whole; i += kLanes) {
      const Vector x = load(row + i);
      hn::StoreU(x, d, packed + i);
      poison = hn::MulAdd(x, zero, poison);
    }
    if (whole == packing.width) continue;
    const Vector rest = whole < packing.head_size ? load_first(row + whole, packing.head_size - whole) : zero;
    hn::StoreU(rest, d, packed + whole);
    poison = hn::MulAdd(rest, zero, poison);
    for (int64_t i = whole + kLanes; i < packing.width; i += kLanes) hn::StoreU(zero, d, packed + i);
  }
  return hn::GetLane(hn::SumOfLanes(d, poison));
}

inline float pack_rows(const StoredRows& stored, int64_t batch, int64_t head, int64_t first, int64_t count,
                       const Packing& packing, float* packed) {
  return std::visit(
      [&](const auto& rows) { return pack_rows(rows, batch, head, first, count, packing, packed); }, stored);
}

// row = factor * packed
inline void unpack_row(const Packing& packing, float factor, const float* packed, float* row) {
  const Floats d;
  int64_t i = 0;
  for (; i + kLanes <= packing.head_size; i += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, packed + i), hn::Set(d, factor)), d, row + i);
  }
  if (i == packing.head_size) return;
  const tril::HWY_NAMESPACE::FirstLanes rest{static_cast<size_t>(packing.head_size - i)};
  rest.store(hn::Mul(hn::LoadU(d, packed + i), hn::Set(d, factor)), row + i);
}

inline void clear(float* data, int64_t count) { std::fill_n(data, count, 0.0f); }

// across (width, kTileStride) = factor * the transpose of rows (count, stride), `count` a multiple of 4; 4 x
// 4 floats at a time.
inline void transpose(const float* rows, int64_t count, const Packing& packing, float factor, float* across) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t q = 0; q < count; ++q) {
    for (int64_t i = 0; i < packing.width; ++i)
      across[i * kTileStride + q] = factor * rows[q * packing.stride + i];
  }
#else
  const int64_t stride = packing.stride;
  const hn::FixedTag<float, 4> d4;
  const hn::Repartition<double, decltype(d4)> d2;
  const auto scale = hn::Set(d4, factor);
  const auto load = [&](const float* from) HWY_ATTR { return hn::Mul(hn::LoadU(d4, from), scale); };
  const auto halves = [&](auto v) HWY_ATTR { return hn::BitCast(d2, v); };
  const auto floats = [&](auto v) HWY_ATTR { return hn::BitCast(d4, v); };
  for (int64_t q = 0; q < count; q += 4) {
    for (int64_t i = 0; i < packing.width; i += 4) {
      const float* const in = rows + q * stride + i;
      const auto r0 = load(in), r1 = load(in + stride);
      const auto r2 = load(in + 2 * stride), r3 = load(in + 3 * stride);
      const auto low01 = halves(hn::InterleaveLower(d4, r0, r1));
      const auto high01 = halves(hn::InterleaveUpper(d4, r0, r1));
      const auto low23 = halves(hn::InterleaveLower(d4, r2, r3));
      const auto high23 = halves(hn::InterleaveUpper(d4, r2, r3));
      float* const out = across + i * kTileStride + q;
      hn::StoreU(floats(hn::InterleaveLower(d2, low01, low23)), d4, out);
      hn::StoreU(floats(hn::InterleaveUpper(d2, low01, low23)), d4, out + kTileStride);
      hn::StoreU(floats(hn::InterleaveLower(d2, high01, high23)), d4, out + 2 * kTileStride);
      hn::StoreU(floats(hn::InterleaveUpper(d2, high01, high23)), d4, out + 3 * kTileStride);
    }
  }
#endif
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_PACK_INL_H_
