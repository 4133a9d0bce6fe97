#include "tril/kernels/softcap.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/softcap.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/math-inl.h"
#include "tril/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

void cap(size_t count, float c, const float* x, float* y, float* slopes) {
  const FloatTag d;
  const FloatVector size = hn::Set(d, c), inverse = hn::Set(d, 1.0f / c);
  for_each_vector(count, [&](size_t i, auto access) HWY_ATTR {
    const FloatVector t = vector_tanh(d, hn::Mul(access.load(x + i), inverse));
    access.store(hn::Mul(t, size), y + i);
    if (slopes != nullptr) access.store(hn::NegMulAdd(t, t, hn::Set(d, 1.0f)), slopes + i);
  });
}

void multiply(size_t count, const float* slopes, const float* dy, float* dx) {
  for_each_vector(count, [&](size_t i, auto access) HWY_ATTR {
    access.store(hn::Mul(access.load(slopes + i), access.load(dy + i)), dx + i);
  });
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(cap);
HWY_EXPORT(multiply);

namespace {

constexpr int64_t kGrain = 8192;

}  // namespace

void softcap_forward(Executor& executor, int64_t count, float c, const float* x, float* y, float* slopes) {
  parallel_for(executor, count, kGrain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(cap)
    (static_cast<size_t>(end - begin), c, x + begin, y + begin, slopes == nullptr ? nullptr : slopes + begin);
  });
}

void softcap_backward(Executor& executor, int64_t count, const float* slopes, const float* dy, float* dx) {
  parallel_for(executor, count, kGrain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(multiply)(static_cast<size_t>(end - begin), slopes + begin, dy + begin, dx + begin);
  });
}

}  // namespace tril
#endif  // HWY_ONCE
