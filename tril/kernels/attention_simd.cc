// The entry points, and the choice of the instruction set: one dispatch per chunk of work.
#include <vector>

#include "tril/kernels/attention_plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/attention_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

#include "tril/kernels/attention_backward-inl.h"
#include "tril/kernels/attention_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

void run_forward_chunk(const ForwardCall& call, int64_t chunk, float* workspace) {
  forward_chunk(call, chunk, workspace);
}

void run_backward_chunk(const BackwardCall& call, int64_t chunk, float* workspace) {
  backward_chunk(call, chunk, workspace);
}

// The weights of the queries of tile t, computed as in backward: (its queries, Tk) at `weights`.
void run_weights(const WeightsCall& call, int64_t batch, int64_t head, int64_t t, float* workspace,
                 float* weights) {
  weights_of_queries(call, batch, head, t, workspace, weights);
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if HWY_ARCH_X86
#include <xmmintrin.h>
#endif

namespace tril {
namespace attention {
namespace {

// Weights far from the maximum make gradients below 2^-126, and x86 takes some hundred cycles for each such
// operation: backward with ALiBi ran at half its speed. Inside a chunk they are 0.
class SubnormalsAreZero {
#if HWY_ARCH_X86
 public:
  SubnormalsAreZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero); }
  ~SubnormalsAreZero() { _mm_setcsr(before_); }
  SubnormalsAreZero(const SubnormalsAreZero&) = delete;
  SubnormalsAreZero& operator=(const SubnormalsAreZero&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 1u << 15, kDenormalsAreZero = 1u << 6;
  const unsigned before_;
#else
 public:
  SubnormalsAreZero() {}  // other processors are not slowed
#endif
};

}  // namespace

HWY_EXPORT(run_forward_chunk);
HWY_EXPORT(run_backward_chunk);
HWY_EXPORT(run_weights);

}  // namespace attention

void attention_forward(Executor& executor, const AttentionShape& shape, const AttentionOptions& options,
                       ConstHeadView query, ConstHeadView key, ConstHeadView value, HeadView out,
                       float* running_max, float* running_sum, float* workspace) {
  using namespace attention;
  check_attention(shape, options);
  const ForwardCall call{{shape, options}, query, key, value, out, running_max, running_sum};
  const int64_t size = ForwardLayout(call).size;
  executor.run(shape.batch * shape.kv_heads * call.query_blocks(), [&](int64_t chunk, int worker) {
    const SubnormalsAreZero scope;
    HWY_DYNAMIC_DISPATCH(run_forward_chunk)(call, chunk, workspace + worker * size);
  });
}

void attention_backward(Executor& executor, const AttentionShape& shape, const AttentionOptions& options,
                        ConstHeadView query, ConstHeadView key, ConstHeadView value, ConstHeadView out,
                        const float* running_max, const float* running_sum, ConstHeadView dout,
                        HeadView dquery, HeadView dkey, HeadView dvalue, float* workspace, float* dsinks) {
  using namespace attention;
  check_attention(shape, options);
  const BackwardCall call{{shape, options}, query, key,    value, out,    running_max,
                          running_sum,      dout,  dquery, dkey,  dvalue, dsinks};
  const int64_t size = BackwardLayout(call).size;
  executor.run(shape.batch * shape.kv_heads, [&](int64_t chunk, int worker) {
    const SubnormalsAreZero scope;
    HWY_DYNAMIC_DISPATCH(run_backward_chunk)(call, chunk, workspace + worker * size);
  });
}

void attention_weights(const AttentionShape& shape, const AttentionOptions& options, ConstHeadView query,
                       ConstHeadView key, const float* running_max, const float* running_sum, int64_t batch,
                       int64_t head, float* weights) {
  using namespace attention;
  check_attention(shape, options);
  const WeightsCall call{{shape, options}, query, key, running_max, running_sum};
  std::vector<float> workspace(static_cast<size_t>(ForwardLayout(call).size));
  const SubnormalsAreZero scope;
  for (int64_t t = 0; t < call.query_tiles(); ++t) {
    HWY_DYNAMIC_DISPATCH(run_weights)
    (call, batch, head, t, workspace.data(), weights + t * kTile * shape.key_length);
  }
}

}  // namespace tril
#endif  // HWY_ONCE
