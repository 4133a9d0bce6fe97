// Attention over a key/value cache: new keys and values are stored, then the new queries look at all of them.
#include <algorithm>

#include "tril/kernels/bfloat16.h"
#include "tril/kernels/chunks.h"
#include "tril/nn/head.h"

namespace tril {
namespace {

// The rows of one layer's cache (B, K, slots, D).
template <class Stored>
HeadRows<Stored> stored_rows(const View& view) {
  const int64_t slots = view.shape[2], d = view.shape[3];
  return {reinterpret_cast<Stored*>(view.data), view.shape[1] * slots * d, d, slots * d};
}

void store(int64_t count, const float* from, float* to) { std::copy(from, from + count, to); }
void store(int64_t count, const float* from, Bfloat16* to) { to_bfloat16(count, from, to); }

// The new rows of every sequence, which end at slot stored[b].
template <class Stored>
void append_rows(Executor& executor, const LayerCache& cache, const View& view, int64_t time,
                 ConstHeadView rows) {
  const HeadRows<Stored> to = stored_rows<Stored>(view);
  const int64_t batch = view.shape[0], heads = view.shape[1], d = view.shape[3];
  parallel_for(executor, batch * heads, rows_per_chunk(time * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / heads, h = i % heads;
      for (int64_t t = time - cache.counts[b]; t < time; ++t)
        store(d, rows.row(b, t, h), to.row(b, cache.stored[b] - time + t, h));
    }
  });
}

}  // namespace

template <class Stored>
void Heads::attend_cached(const Context& context, const AttentionShape& shape,
                          const AttentionOptions& options, const LayerCache& cache, const Rows& rows,
                          State& state) const {
  append_rows<Stored>(context.executor, cache, cache.keys, shape.query_length, rows.key);
  append_rows<Stored>(context.executor, cache, cache.values, shape.query_length, rows.value);
  const int64_t row = out_features();
  attention_forward(
      context.executor, shape, options, rows.query, stored_rows<const Stored>(cache.keys),
      stored_rows<const Stored>(cache.values),
      HeadView{state.out.f32(), shape.query_length * row, row, shape.head_size}, state.running_max.f32(),
      state.running_sum.f32(),
      context.scratch.allocate_f32(attention_forward_workspace(shape, context.executor.threads())));
}

void Heads::forward_cached(const Context& context, int64_t batch, int64_t time, const Rows& rows,
                           State& state, const AttentionInputs& inputs) const {
  const LayerCache& cache = *inputs.cache;
  AttentionShape all = shape(batch, time);
  all.key_length = cache.keys.shape[2];
  const Shape expected = {batch, config_.kv_heads, all.key_length, config_.head_size};
  check_use(cache.keys.shape == expected && cache.values.shape == expected,
            "key/value cache of a layer: shapes {} and {} where (B, K, slots, D) = {} is expected",
            cache.keys.shape, cache.values.shape, expected);
  AttentionOptions with_lengths = options(context, inputs);
  with_lengths.lengths = cache.stored;
  if (cache.keys.dtype == DType::kBF16)
    attend_cached<Bfloat16>(context, all, with_lengths, cache, rows, state);
  else
    attend_cached<float>(context, all, with_lengths, cache, rows, state);
}

}  // namespace tril
