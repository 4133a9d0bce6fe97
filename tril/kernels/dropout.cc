#include "tril/kernels/dropout.h"

#include <algorithm>
#include <cmath>

#include "tril/kernels/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/dropout.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/philox-inl.h"

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

}  // namespace
}  // namespace tril
#endif

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

// y = word < threshold ? 0 : x * scale. Selected after the product: a dropped NaN is 0.
HWY_INLINE void apply_words(const DropoutConstants& k, const uint32_t* words, size_t count, const float* x,
                            float* y) {
  const FloatTag d;
  const WordTag dw;
  const auto threshold = hn::Set(dw, k.threshold);
  const FloatVector scale = hn::Set(d, k.scale);
  for_each_vector(count, [&](size_t i, auto access) HWY_ATTR {
    const auto dropped = hn::RebindMask(d, hn::Lt(hn::LoadU(dw, words + i), threshold));
    access.store(hn::IfThenZeroElse(dropped, hn::Mul(access.load(x + i), scale)), y + i);
  });
}

void dropout_elements(const DropoutConstants& k, uint64_t first, size_t count, const float* x, float* y) {
  for_each_words(k.key, k.substream, first, count, [&](size_t i, size_t n, const uint32_t* words) HWY_ATTR {
    apply_words(k, words, n, x + i, y + i);
  });
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
