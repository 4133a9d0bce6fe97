// Integer dot products of block-quantised numbers with 16-bit ones.
#if defined(TRIL_KERNELS_STORED_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_STORED_BLOCKS_INL_H_
#undef TRIL_KERNELS_STORED_BLOCKS_INL_H_
#else
#define TRIL_KERNELS_STORED_BLOCKS_INL_H_
#endif

#include <type_traits>

#include "hwy/highway.h"
#include "tril/kernels/matmul_quantized.h"
#include "tril/kernels/stored_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {

template <class D>
HWY_INLINE hn::Vec<D> floats_of_halves(D d, const uint16_t* halves) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, float_of_f16(*halves));
#else
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(halves)));
#endif
}

// The scales d of blocks, from what stands at their begin: an f16, or in q4_1 two of them.
template <class D>
HWY_INLINE hn::Vec<D> scales_of(D d, const uint16_t* stored) {
  return floats_of_halves(d, stored);
}
template <class D>
HWY_INLINE hn::Vec<D> scales_of(D d, const uint32_t* stored) {
  HWY_ALIGN uint16_t halves[hn::MaxLanes(D())];
  const hn::Rebind<uint32_t, D> d32;
  const hn::Rebind<uint16_t, D> d16;
  hn::StoreU(hn::TruncateTo(d16, hn::LoadU(d32, stored)), d16, halves);
  return floats_of_halves(d, halves);
}

// What all elements of a block have in common: -8 d in q4_0, m in q4_1.
template <class D>
HWY_INLINE hn::Vec<D> offsets_of(D d, const uint16_t*, hn::Vec<D> scales) {
  return hn::Mul(scales, hn::Set(d, -8.0f));
}
template <class D>
HWY_INLINE hn::Vec<D> offsets_of(D d, const uint32_t* stored, hn::Vec<D>) {
  HWY_ALIGN uint16_t halves[hn::MaxLanes(D())];
  const hn::Rebind<uint32_t, D> d32;
  const hn::Rebind<uint16_t, D> d16;
  hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(hn::LoadU(d32, stored))), d16, halves);
  return floats_of_halves(d, halves);
}

// The 32 numbers q of a block in registers; dot: sums of a_i q_i, to be added up over the lanes. Nibbles take
// numbers that save the shift of the upper ones: with byte_i = q_i + 16 q_(i+16),
//   16 sum_i a_i q_i = sum_i<16 (16 a_i - a_(i+16)) q_i + a_(i+16) byte_i
// kOffset: an element is d q plus an offset that all elements of the block share.
template <DType kType>
struct StoredBlocks;

#if HWY_TARGET == HWY_SCALAR

template <DType kType>
struct StoredBlocks {
  static constexpr bool kOffset = kType != DType::kQ8_0;
  static constexpr int64_t kBytes = kType == DType::kQ8_0 ? 34 : kType == DType::kQ4_0 ? 18 : 20;
  static constexpr int64_t kMostLanes = 1;
  using StoredScale = std::conditional_t<kType == DType::kQ4_1, uint32_t, uint16_t>;
  using Sums = FloatTag;
  explicit StoredBlocks(const std::byte* block) : q(block + (kType == DType::kQ4_1 ? 4 : 2)) {}

  hn::Vec1<int32_t> dot(const int16_t* a) const {
    int32_t sum = 0;
    for (int i = 0; i < 32; ++i) {
      const int both = std::to_integer<int>(q[kOffset ? i % 16 : i]);
      const int number = !kOffset ? static_cast<int8_t>(both) : i < 16 ? both & 15 : both;
      sum += number * a[i];
    }
    return hn::Vec1<int32_t>(sum);
  }
  const std::byte* q;
};

#else

template <>
struct StoredBlocks<DType::kQ8_0> {
  static constexpr bool kOffset = false;
  static constexpr int64_t kBytes = 34, kMostLanes = 16;
  using StoredScale = uint16_t;
  using Wide = hn::ScalableTag<int16_t>;
  using Sums = FloatTag;
  static constexpr int kLanes = HWY_LANES(int16_t), kVectors = 32 / kLanes;

  HWY_INLINE explicit StoredBlocks(const std::byte* block) {
    const hn::Rebind<int8_t, Wide> d8;
    const auto* const numbers = reinterpret_cast<const int8_t*>(block + 2);
    for (int v = 0; v < kVectors; ++v) q[v] = hn::PromoteTo(Wide(), hn::LoadU(d8, numbers + v * kLanes));
  }
  HWY_INLINE auto dot(const int16_t* a) const {
    const hn::RepartitionToWide<Wide> d;
    auto sum = hn::Zero(d), more = hn::Zero(d);
    for (int v = 0; v < kVectors; ++v)
      sum = hn::ReorderWidenMulAccumulate(d, q[v], hn::LoadU(Wide(), a + v * kLanes), sum, more);
    return hn::Add(sum, more);
  }
  hn::Vec<Wide> q[kVectors];
};

// kHead: bytes before the numbers. Half of AVX-512's vectors: the widest ones would switch off a port.
template <int kHead>
struct StoredNibbles {
  static constexpr bool kOffset = true;
  static constexpr int64_t kBytes = kHead + 16, kMostLanes = 8;
  using StoredScale = std::conditional_t<kHead == 4, uint32_t, uint16_t>;
  using Wide = hn::CappedTag<int16_t, 16>;
  using Sums = hn::CappedTag<float, 8>;
  static constexpr int kLanes = HWY_MIN(HWY_LANES(int16_t), 16), kVectors = 16 / kLanes;

  HWY_INLINE explicit StoredNibbles(const std::byte* block) {
    const Wide d;
    const hn::Rebind<uint8_t, Wide> d8;
    const auto* const numbers = reinterpret_cast<const uint8_t*>(block + kHead);
    for (int v = 0; v < kVectors; ++v) {
      both[v] = hn::PromoteTo(d, hn::LoadU(d8, numbers + v * kLanes));
      low[v] = hn::And(both[v], hn::Set(d, 15));
    }
  }
  HWY_INLINE auto dot(const int16_t* a) const {
    const Wide dw;
    const hn::RepartitionToWide<Wide> d;
    auto sum = hn::Zero(d), more = hn::Zero(d);
    for (int v = 0; v < kVectors; ++v) {
      sum = hn::ReorderWidenMulAccumulate(d, low[v], hn::LoadU(dw, a + v * kLanes), sum, more);
      sum = hn::ReorderWidenMulAccumulate(d, both[v], hn::LoadU(dw, a + 16 + v * kLanes), sum, more);
    }
    return hn::Add(sum, more);
  }
  hn::Vec<Wide> low[kVectors], both[kVectors];
};
template <>
struct StoredBlocks<DType::kQ4_0> : StoredNibbles<2> {
  HWY_INLINE explicit StoredBlocks(const std::byte* block) : StoredNibbles(block) {}
};
template <>
struct StoredBlocks<DType::kQ4_1> : StoredNibbles<4> {
  HWY_INLINE explicit StoredBlocks(const std::byte* block) : StoredNibbles(block) {}
};

#endif

}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
