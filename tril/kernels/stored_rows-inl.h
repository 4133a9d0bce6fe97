// Stored rows as vectors of floats.
#if defined(TRIL_KERNELS_STORED_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_STORED_ROWS_INL_H_
#undef TRIL_KERNELS_STORED_ROWS_INL_H_
#else
#define TRIL_KERNELS_STORED_ROWS_INL_H_
#endif

#include <cstring>

#include "hwy/highway.h"
#include "tril/kernels/rows-inl.h"
#include "tril/kernels/stored_rows.h"
#include "tril/tensor/quantized.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {

using ShortTag = hn::Rebind<uint16_t, FloatTag>;
using BitsTag = hn::RebindToUnsigned<FloatTag>;

inline uint16_t short_at(const std::byte* x) {
  uint16_t bits;
  std::memcpy(&bits, x, sizeof(bits));
  return bits;
}

// A row of one of the types whose elements stand alone: whole vectors at element i, and single ones.
struct StoredF32 {
  static constexpr int64_t kBytes = 4;
  static HWY_INLINE FloatVector load(const std::byte* x, int64_t i) {
    return hn::LoadU(FloatTag(), reinterpret_cast<const float*>(x) + i);
  }
  static HWY_INLINE float one(const std::byte* x, int64_t i) {
    float value;
    std::memcpy(&value, x + 4 * i, sizeof(value));
    return value;
  }
};
struct StoredBf16 {
  static constexpr int64_t kBytes = 2;
  static HWY_INLINE FloatVector load(const std::byte* x, int64_t i) {
    const auto half = hn::LoadU(ShortTag(), reinterpret_cast<const uint16_t*>(x) + i);
    return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(BitsTag(), half)));
  }
  static HWY_INLINE float one(const std::byte* x, int64_t i) { return float_of_bf16(short_at(x + 2 * i)); }
};
struct StoredF16 {
  static constexpr int64_t kBytes = 2;
  static HWY_INLINE float one(const std::byte* x, int64_t i) { return float_of_f16(short_at(x + 2 * i)); }
  static HWY_INLINE FloatVector load(const std::byte* x, int64_t i) {
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(FloatTag(), one(x, i));
#else
    const hn::Rebind<hwy::float16_t, FloatTag> dh;
    return hn::PromoteTo(FloatTag(), hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(x) + i));
#endif
  }
};

// The f16 at the begin of a block, of which 8 bytes are readable.
HWY_INLINE float scale_at(const std::byte* block) {
#if HWY_TARGET == HWY_SCALAR
  return float_of_f16(short_at(block));
#else
  const hn::Full128<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  return hn::GetLane(hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(block))));
#endif
}

// y (32) of one block.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void widen_block(DType dtype, const std::byte* block, float* y) {
  dequantize_row(dtype, 32, block, y);
}
#else
HWY_INLINE void widen_block(DType dtype, const std::byte* block, float* y) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const int64_t lanes = HWY_LANES(float);
  const auto scale = hn::Set(d, scale_at(block));
  if (dtype == DType::kQ8_0) {
    const hn::Rebind<int8_t, FloatTag> d8;
    const auto* const q = reinterpret_cast<const int8_t*>(block + 2);
    for (int64_t i = 0; i < 32; i += lanes) {
      const auto x = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, q + i)));
      hn::StoreU(hn::Mul(scale, x), d, y + i);
    }
    return;
  }
  const bool with_least = dtype == DType::kQ4_1;
  const auto least = hn::Set(d, with_least ? scale_at(block + 2) : 0.0f);
  const auto zero = hn::Set(di, with_least ? 0 : 8);
  const hn::Rebind<uint8_t, FloatTag> d8;
  const auto* const q = reinterpret_cast<const uint8_t*>(block + (with_least ? 4 : 2));
  for (int64_t i = 0; i < 16; i += lanes) {
    const auto both = hn::PromoteTo(di, hn::LoadU(d8, q + i));
    const auto low = hn::ConvertTo(d, hn::Sub(hn::And(both, hn::Set(di, 15)), zero));
    const auto high = hn::ConvertTo(d, hn::Sub(hn::ShiftRight<4>(both), zero));
    // Not MulAdd: the bits of dequantize_row.
    const auto product_low = hn::Mul(scale, low), product_high = hn::Mul(scale, high);
    hn::StoreU(with_least ? hn::Add(product_low, least) : product_low, d, y + i);
    hn::StoreU(with_least ? hn::Add(product_high, least) : product_high, d, y + 16 + i);
  }
}
#endif

template <class Stored>
HWY_INLINE void widen_elements(int64_t count, const std::byte* x, float* y) {
  constexpr int64_t kLanesHere = HWY_LANES(float);
  int64_t i = 0;
  for (; i + kLanesHere <= count; i += kLanesHere) hn::StoreU(Stored::load(x, i), FloatTag(), y + i);
  for (; i < count; ++i) y[i] = Stored::one(x, i);
}

inline void widen(DType dtype, int64_t count, const std::byte* x, float* y) {
  if (dtype == DType::kF32) return widen_elements<StoredF32>(count, x, y);
  if (dtype == DType::kBF16) return widen_elements<StoredBf16>(count, x, y);
  if (dtype == DType::kF16) return widen_elements<StoredF16>(count, x, y);
  const int64_t bytes = dtype_info(dtype).block_bytes;
  for (int64_t i = 0; i < count; i += 32, x += bytes) widen_block(dtype, x, y + i);
}

}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
