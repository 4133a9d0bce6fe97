// The entry points, and the choice of the instruction set: one dispatch per chunk of work.
#include <vector>

#include "tril/base/error.h"
#include "tril/kernels/attention_decode.h"
#include "tril/kernels/attention_rounds.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/attention_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

#include "tril/kernels/attention_backward-inl.h"
#include "tril/kernels/attention_decode-inl.h"
#include "tril/kernels/attention_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

void run_forward_chunk(const ForwardCall& call, int64_t chunk, float* workspace) {
  forward_chunk(call, chunk, workspace);
}

void run_decode_chunk(const ForwardCall& call, const DecodeLayout& layout, int64_t chunk, float* base,
                      int worker) {
  decode_chunk(call, layout, chunk, base, worker);
}

void run_combine_head(const ForwardCall& call, const DecodeLayout& layout, int64_t head, float* base) {
  combine_head(call, layout, head, base);
}

void run_backward_chunk(const BackwardCall& call, int64_t chunk, float* head_space, float* tile_space) {
  backward_chunk(call, chunk, head_space, tile_space);
}

// Head `head` of batch * kv_heads.
void run_backward_step(const BackwardCall& call, const Rounds& rounds, const BackwardStep& step, int64_t head,
                       int64_t index, float* head_space, float* tile_space) {
  const int64_t heads = call.shape.kv_heads;
  Backward(call, head / heads, head % heads, nullptr, head_space, tile_space).run(rounds, step, index);
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
HWY_EXPORT(run_decode_chunk);
HWY_EXPORT(run_combine_head);
HWY_EXPORT(run_backward_chunk);
HWY_EXPORT(run_backward_step);
HWY_EXPORT(run_weights);

namespace {

// First all ranges of keys, then, where a head has several, what they give together.
void decode(Executor& executor, const ForwardCall& call, float* workspace) {
  const DecodeLayout layout(call, executor.threads());
  float* const base = aligned(workspace);
  executor.run(1,
               [&](int64_t, int) { decode_chunks(call, reinterpret_cast<int64_t*>(base + layout.starts)); });
  const int64_t heads = call.shape.batch * call.shape.kv_heads, chunks = decode_chunks(call, nullptr);
  executor.run(chunks, [&](int64_t chunk, int worker) {
    const SubnormalsAreZero scope;
    HWY_DYNAMIC_DISPATCH(run_decode_chunk)(call, layout, chunk, base, worker);
  });
  if (chunks == heads) return;
  executor.run(heads, [&](int64_t head, int) {
    const SubnormalsAreZero scope;
    HWY_DYNAMIC_DISPATCH(run_combine_head)(call, layout, head, base);
  });
}

void forward(Executor& executor, const ForwardCall& call, float* workspace) {
  check_attention(call.shape, call.options);
  if (decodes(call.shape, call.options)) return decode(executor, call, workspace);
  const int64_t size = ForwardLayout(call).size;
  executor.run(call.head_chunks() * call.query_blocks(), [&](int64_t chunk, int worker) {
    const SubnormalsAreZero scope;
    HWY_DYNAMIC_DISPATCH(run_forward_chunk)(call, chunk, workspace + worker * size);
  });
}

void backward(Executor& executor, const BackwardCall& call, float* workspace) {
  const Rounds rounds(call);
  const BackwardSpace space(call, executor.threads());
  if (rounds.blocks == 1) {
    executor.run(call.head_chunks(), [&](int64_t chunk, int worker) {
      const SubnormalsAreZero scope;
      HWY_DYNAMIC_DISPATCH(run_backward_chunk)
      (call, chunk, space.of_head(workspace, worker), space.of_worker(workspace, worker));
    });
    return;
  }
  for_each_step(rounds, call.group(), [&](const BackwardStep& step, int64_t chunks) {
    executor.run(rounds.heads * chunks, [&](int64_t chunk, int worker) {
      const SubnormalsAreZero scope;
      const int64_t head = chunk / chunks;
      HWY_DYNAMIC_DISPATCH(run_backward_step)
      (call, rounds, step, head, chunk % chunks, space.of_head(workspace, head),
       space.of_worker(workspace, worker));
    });
  });
}

void write_weights(const WeightsCall& call, int64_t batch, int64_t head, float* weights) {
  std::vector<float> workspace(static_cast<size_t>(ForwardLayout(call).size));
  const SubnormalsAreZero scope;
  for (int64_t t = 0; t < call.query_tiles(); ++t) {
    HWY_DYNAMIC_DISPATCH(run_weights)
    (call, batch, head, t, workspace.data(), weights + t * kTile * call.shape.key_length);
  }
}

void refuse_lengths(const char* function, const AttentionOptions& options) {
  check_use(options.lengths == nullptr,
            "{}: lengths are for attention_forward alone; mask padding with documents", function);
}

}  // namespace
}  // namespace attention

void attention_forward(Executor& executor, const AttentionShape& shape, const AttentionOptions& options,
                       ConstHeadView query, ConstHeadView key, ConstHeadView value, HeadView out,
                       float* running_max, float* running_sum, float* workspace) {
  const attention::ForwardCall call{{shape, options}, query, key, value, out, running_max, running_sum};
  attention::forward(executor, call, workspace);
}

void attention_forward(Executor& executor, const AttentionShape& shape, const AttentionOptions& options,
                       ConstHeadView query, HeadRows<const Bfloat16> key, HeadRows<const Bfloat16> value,
                       HeadView out, float* running_max, float* running_sum, float* workspace) {
  const attention::ForwardCall call{{shape, options}, query, key, value, out, running_max, running_sum};
  attention::forward(executor, call, workspace);
}

void attention_backward(Executor& executor, const AttentionShape& shape, const AttentionOptions& options,
                        ConstHeadView query, ConstHeadView key, ConstHeadView value, ConstHeadView out,
                        const float* running_max, const float* running_sum, ConstHeadView dout,
                        HeadView dquery, HeadView dkey, HeadView dvalue, float* workspace, float* dsinks) {
  check_attention(shape, options);
  attention::refuse_lengths("attention_backward", options);
  const attention::BackwardCall call{{shape, options}, query, key,    value, out,    running_max,
                                     running_sum,      dout,  dquery, dkey,  dvalue, dsinks};
  attention::backward(executor, call, workspace);
}

void attention_weights(const AttentionShape& shape, const AttentionOptions& options, ConstHeadView query,
                       ConstHeadView key, const float* running_max, const float* running_sum, int64_t batch,
                       int64_t head, float* weights) {
  check_attention(shape, options);
  attention::refuse_lengths("attention_weights", options);
  attention::write_weights({{shape, options}, query, key, running_max, running_sum}, batch, head, weights);
}

}  // namespace tril
#endif  // HWY_ONCE
