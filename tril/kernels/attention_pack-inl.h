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

#include <hwy/highway.h>

#include <cstring>

#include "tril/kernels/attention_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// packed (count, row) = the rows from t = first of one head. Returns 0, or NaN if any value is not finite.
inline float pack_rows(ConstHeadView rows, int64_t batch, int64_t head, int64_t first, int64_t count,
                       int64_t head_size, int64_t row, float* packed) {
  const Floats d;
  const Vector zero = hn::Zero(d);
  Vector poison = zero;
  for (int64_t t = 0; t < count; ++t, packed += row) {
    std::memcpy(packed, rows.row(batch, first + t, head), static_cast<size_t>(head_size) * sizeof(float));
    std::fill(packed + head_size, packed + row, 0.0f);
    for (int64_t i = 0; i < row; i += kLanes) poison = hn::MulAdd(hn::LoadU(d, packed + i), zero, poison);
  }
  return hn::GetLane(hn::SumOfLanes(d, poison));
}

inline void clear(float* data, int64_t count) { std::fill_n(data, count, 0.0f); }

// across (row, kTile) from rows (count, row), a multiple of 4 each; 4 x 4 floats at a time.
inline void transpose(const float* rows, int64_t count, int64_t row, float* across) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t q = 0; q < count; ++q) {
    for (int64_t i = 0; i < row; ++i) across[i * kTile + q] = rows[q * row + i];
  }
#else
  const hn::FixedTag<float, 4> d4;
  const hn::Repartition<double, decltype(d4)> d2;
  const auto halves = [&](auto v) HWY_ATTR { return hn::BitCast(d2, v); };
  const auto floats = [&](auto v) HWY_ATTR { return hn::BitCast(d4, v); };
  for (int64_t q = 0; q < count; q += 4) {
    for (int64_t i = 0; i < row; i += 4) {
      const float* const in = rows + q * row + i;
      const auto r0 = hn::LoadU(d4, in), r1 = hn::LoadU(d4, in + row);
      const auto r2 = hn::LoadU(d4, in + 2 * row), r3 = hn::LoadU(d4, in + 3 * row);
      const auto low01 = halves(hn::InterleaveLower(d4, r0, r1));
      const auto high01 = halves(hn::InterleaveUpper(d4, r0, r1));
      const auto low23 = halves(hn::InterleaveLower(d4, r2, r3));
      const auto high23 = halves(hn::InterleaveUpper(d4, r2, r3));
      float* const out = across + i * kTile + q;
      hn::StoreU(floats(hn::InterleaveLower(d2, low01, low23)), d4, out);
      hn::StoreU(floats(hn::InterleaveUpper(d2, low01, low23)), d4, out + kTile);
      hn::StoreU(floats(hn::InterleaveLower(d2, high01, high23)), d4, out + 2 * kTile);
      hn::StoreU(floats(hn::InterleaveUpper(d2, high01, high23)), d4, out + 3 * kTile);
    }
  }
#endif
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_PACK_INL_H_
