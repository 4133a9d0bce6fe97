#include "tril/kernels/matmul_quantized.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/matmul_quantized.cc"
#include <hwy/foreach_target.h>
// after foreach_target.h
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "tril/kernels/stored_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

// Blocks of a row whose scales are converted at once.
constexpr int64_t kGroup = 64;
constexpr int64_t kFloatLanes = HWY_LANES(float);

// Bytes behind the next tile where W is asked for.
constexpr int64_t kAhead = 4096;

// a -> 16 a_i - a_(i+16), a_(i+16)
HWY_INLINE void split_for_nibbles(int16_t* numbers) {
  const hn::CappedTag<int16_t, 16> d;
  for (int64_t i = 0; i < 16; i += HWY_MIN(HWY_LANES(int16_t), 16)) {
    const auto low = hn::LoadU(d, numbers + i), high = hn::LoadU(d, numbers + 16 + i);
    hn::StoreU(hn::Sub(hn::ShiftLeft<4>(low), high), d, numbers + i);
  }
}

// x (32 blocks) -> numbers, scales, sums. A block with NaN or infinity gets the scale NaN.
void to_blocks(bool nibbles, int64_t blocks, const float* x, int16_t* numbers, float* scales, float* sums) {
  const float largest_number = nibbles ? kLargestOfNibbles : kLargestNumber;
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const hn::Rebind<int16_t, FloatTag> d16;
  for (int64_t b = 0; b < blocks; ++b, x += kBlockElements, numbers += kBlockElements) {
    FloatVector largest = hn::Zero(d), poison = hn::Zero(d);
    for (int64_t i = 0; i < kBlockElements; i += kFloatLanes) {
      const FloatVector v = hn::LoadU(d, x + i);
      largest = hn::Max(largest, hn::Abs(v));
      poison = hn::MulAdd(v, hn::Zero(d), poison);
    }
    const float most = hn::GetLane(hn::MaxOfLanes(d, largest));
    const FloatVector inverse = hn::Set(d, most > 1e-30f ? largest_number / most : 0.0f);
    auto sum = hn::Zero(di);
    for (int64_t i = 0; i < kBlockElements; i += kFloatLanes) {
      const auto number = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), inverse));
      hn::StoreU(hn::DemoteTo(d16, number), d16, numbers + i);
      sum = hn::Add(sum, number);
    }
    const float scale = most / largest_number + hn::GetLane(hn::SumOfLanes(d, poison));
    scales[b] = nibbles ? scale / 16 : scale;
    sums[b] = scale * static_cast<float>(hn::GetLane(hn::SumOfLanes(di, sum)));
    if (nibbles) split_for_nibbles(numbers);
  }
}

// Products of kRows rows of x with rows of W, kColumns at a time. The rows of a tile lie side by side, and
// their blocks are read in steps of at most kGroup columns. While one step is computed, the scales of the
// next are collected and memory behind that is asked for, so that memory is never idle.
template <DType kType, int kRows, int kColumns>
class DotTiles {
  using Blocks = StoredBlocks<kType>;
  using Sums = typename Blocks::Sums;
  using StoredScale = typename Blocks::StoredScale;
  static constexpr int64_t kStep = kColumns * Blocks::kBytes;

 public:
  HWY_INLINE DotTiles(const Product& p, const QuantizedRows& x) : p_(p), x_(x), stride_(p.stored.stride) {}

  // Columns [begin, end) of C, a whole number of tiles.
  HWY_INLINE void run(int64_t begin, int64_t end) {
    if (begin == end) return;
    const Sums d;
    const std::byte* w = p_.stored.at(begin, 0);
    collect_scales(w, 0, std::min(kGroup, x_.blocks));
    for (int64_t column = begin; column < end; column += kColumns, w += kColumns * stride_) {
      hn::Vec<Sums> sum[kRows][kColumns];
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < kColumns; ++j) sum[i][j] = hn::Zero(d);
      }
      for (int64_t b0 = 0; b0 < x_.blocks; b0 += kGroup) {
        const int64_t blocks = std::min(kGroup, x_.blocks - b0);
        const bool last = b0 + blocks == x_.blocks;
        const std::byte* const next = last ? w + kColumns * stride_ : w + (b0 + blocks) * Blocks::kBytes;
        const int64_t next_blocks = !last                     ? std::min(kGroup, x_.blocks - b0 - blocks)
                                    : column + kColumns < end ? std::min(kGroup, x_.blocks)
                                                              : 0;
        convert_scales(b0, blocks, sum);
        multiply(w, b0, blocks, next, next_blocks, sum);
      }
      finish(column, sum);
    }
  }

 private:
  // sum_ij += the dots of blocks [b0, b0 + blocks).
  HWY_INLINE void multiply(const std::byte* w, int64_t b0, int64_t blocks, const std::byte* next,
                           int64_t next_blocks, hn::Vec<Sums> (&sum)[kRows][kColumns]) {
    const Sums d;
    const std::byte* const ahead = w + kColumns * stride_ + kAhead + b0 * kStep;
    w += b0 * Blocks::kBytes;
    for (int64_t b = 0; b < blocks; ++b) {
#pragma GCC unroll 8
      for (int64_t line = 0; line < kStep; line += 64) hwy::Prefetch(ahead + b * kStep + line);
      if (b < next_blocks) collect_scales(next, b, b + 1);
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) {
        const Blocks numbers(w + j * stride_ + b * Blocks::kBytes);
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
          const auto dot = numbers.dot(x_.numbers + (i * x_.blocks + b0 + b) * kBlockElements);
          sum[i][j] = hn::MulAdd(hn::ConvertTo(d, dot), hn::Set(d, scales_[i][j][b]), sum[i][j]);
        }
      }
    }
    if (blocks < next_blocks) collect_scales(next, blocks, next_blocks);
  }

  // Those of blocks [begin, end) behind w, as they are stored.
  HWY_INLINE void collect_scales(const std::byte* w, int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) {
        std::memcpy(&stored_[j][b], w + j * stride_ + b * Blocks::kBytes, sizeof(StoredScale));
      }
    }
  }

  // scales = those of W times those of x; sum += the offsets of W times the sums of x.
  HWY_INLINE void convert_scales(int64_t b0, int64_t blocks, hn::Vec<Sums> (&sum)[kRows][kColumns]) {
    const Sums d;
    constexpr int64_t kLanes = HWY_MIN(kFloatLanes, Blocks::kMostLanes);
    for (int64_t b = 0; b < blocks; b += kLanes) {
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) {
        const auto scale = scales_of(d, stored_[j] + b);
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
          const int64_t at = i * x_.padded + b0 + b;
          hn::StoreU(hn::Mul(scale, hn::LoadU(d, x_.scales + at)), d, scales_[i][j] + b);
          if constexpr (Blocks::kOffset) {
            const auto offset = offsets_of(d, stored_[j] + b, scale);
            sum[i][j] = hn::MulAdd(offset, hn::LoadU(d, x_.sums + at), sum[i][j]);
          }
        }
      }
    }
  }

  HWY_INLINE void finish(int64_t column, const hn::Vec<Sums> (&sum)[kRows][kColumns]) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) {
        const float total = hn::GetLane(hn::SumOfLanes(Sums(), sum[i][j]));
        float& c = p_.c[i * p_.ldc + column + j];
        c = p_.accumulate ? c + total : total;
      }
    }
  }

  const Product& p_;
  const QuantizedRows& x_;
  const int64_t stride_;
  HWY_ALIGN float scales_[kRows][kColumns][kGroup];
  // Behind the last block of a row there are those of another or zeros, which meet zeros of x.
  StoredScale stored_[kColumns][kGroup] = {};
};

template <DType kType, int kRows>
void columns_of(const Product& p, const QuantizedRows& x, int64_t begin, int64_t end) {
  constexpr int kColumns = 4;
  const int64_t whole = begin + (end - begin) / kColumns * kColumns;
  DotTiles<kType, kRows, kColumns>(p, x).run(begin, whole);
  DotTiles<kType, kRows, 1>(p, x).run(whole, end);
}

template <DType kType>
void rows_of(const Product& p, const QuantizedRows& x, int64_t begin, int64_t end) {
  static_assert(kFewQuantizedRows == 4);
  if (p.m == 1) columns_of<kType, 1>(p, x, begin, end);
  if (p.m == 2) columns_of<kType, 2>(p, x, begin, end);
  if (p.m == 3) columns_of<kType, 3>(p, x, begin, end);
  if (p.m == 4) columns_of<kType, 4>(p, x, begin, end);
}

void quantized_columns(const Product& p, const QuantizedRows& x, int64_t begin, int64_t end) {
  if (p.stored.dtype == DType::kQ8_0) rows_of<DType::kQ8_0>(p, x, begin, end);
  if (p.stored.dtype == DType::kQ4_0) rows_of<DType::kQ4_0>(p, x, begin, end);
  if (p.stored.dtype == DType::kQ4_1) rows_of<DType::kQ4_1>(p, x, begin, end);
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(to_blocks);
HWY_EXPORT(quantized_columns);

namespace {

// Vectors of scales are loaded whole: those beyond the last block are 0.
int64_t padded_blocks(int64_t k) { return round_up(k / kBlockElements, 16); }

QuantizedRows rows_in(float* workspace, int64_t m, int64_t k) {
  const int64_t padded = padded_blocks(k);
  float* const sums = workspace + m * padded;
  return {.blocks = k / kBlockElements,
          .padded = padded,
          .numbers = reinterpret_cast<int16_t*>(sums + m * padded),
          .scales = workspace,
          .sums = sums};
}

// At least 8 KB of W in a chunk, whole tiles, at most 32 chunks.
int64_t columns_per_chunk(const Product& p) {
  return round_up(std::max(divide_up(int64_t{1} << 13, p.stored.stride), divide_up(p.n, 32)), 8);
}

}  // namespace

int64_t quantized_rows_workspace(int64_t m, int64_t k) {
  return checked_multiply(m, checked_add(2 * padded_blocks(k), divide_up(k, 2)));
}

void matmul_quantized(Executor& executor, const Product& p, float* workspace, Epilogue epilogue) {
  const QuantizedRows x = rows_in(workspace, p.m, p.k);
  executor.run(1, [&](int64_t, int) {
    std::fill(x.scales, x.sums + p.m * x.padded, 0.0f);
    for (int64_t i = 0; i < p.m; ++i) {
      HWY_DYNAMIC_DISPATCH(to_blocks)
      (p.stored.dtype != DType::kQ8_0, x.blocks, p.a + i * p.lda, x.numbers + i * p.k,
       x.scales + i * x.padded, x.sums + i * x.padded);
    }
  });
  parallel_for(executor, p.n, columns_per_chunk(p), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(quantized_columns)(p, x, begin, end);
    if (epilogue) epilogue(0, p.m, begin, end - begin);
  });
}

}  // namespace tril
#endif
