#include "tril/kernels/partial_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/partial_sums.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

void add(size_t chunks, size_t stride, size_t count, const float* partials, float* out) {
  for_each_vector(count, [&](size_t c, auto access) HWY_ATTR {
    FloatVector sum = access.load(partials + c);
    for (size_t k = 1; k < chunks; ++k) sum = hn::Add(sum, access.load(partials + k * stride + c));
    access.store(hn::Add(access.load(out + c), sum), out + c);
  });
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(add);

void add_partial_sums(int64_t chunks, int64_t stride, int64_t count, const float* partials, float* out) {
  HWY_DYNAMIC_DISPATCH(add)
  (static_cast<size_t>(chunks), static_cast<size_t>(stride), static_cast<size_t>(count), partials, out);
}

}  // namespace tril
#endif  // HWY_ONCE
