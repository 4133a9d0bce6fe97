#include "tril/nn/head.h"

#include <algorithm>

namespace tril {
namespace {

HeadsConfig resolved(HeadsConfig c) {
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  check_use(c.channels > 0 && c.heads > 0 && c.head_size > 0 && c.kv_heads > 0,
            "Heads: channels {}, heads {}, kv_heads {} and head_size {} must be positive", c.channels,
            c.heads, c.kv_heads, c.head_size);
  check_use(c.heads % c.kv_heads == 0,
            "Heads: {} heads cannot share {} key/value heads evenly; use a divisor of {}", c.heads,
            c.kv_heads, c.heads);
  check_use(c.dropout >= 0 && c.dropout < 1, "Heads: dropout {} must be in [0, 1)", c.dropout);
  return c;
}

int64_t fused_features(const HeadsConfig& c) {
  return checked_multiply(checked_add(c.heads, 2 * c.kv_heads), c.head_size);
}

// Query, key and value of a q|k|v buffer (N, (H + 2K) D).
template <class Float>
struct QkvRows {
  HeadRows<Float> query, key, value;
  QkvRows(Float* qkv, const HeadsConfig& c, int64_t time) {
    const int64_t row = fused_features(c), d = c.head_size;
    query = {qkv, time * row, row, d};
    key = {qkv + c.heads * d, time * row, row, d};
    value = {qkv + (c.heads + c.kv_heads) * d, time * row, row, d};
  }
};

template <class Float>
HeadRows<Float> concatenated(Float* out, const HeadsConfig& c, int64_t time) {
  const int64_t row = c.heads * c.head_size;
  return {out, time * row, row, c.head_size};
}

}  // namespace

Heads::Heads(const HeadsConfig& config)
    : qkv({.in = resolved(config).channels, .out = fused_features(resolved(config)), .bias = config.bias}),
      config_(resolved(config)) {}

Heads::State Heads::plan(Arena& saved, int64_t batch, int64_t time) const {
  const int64_t rows = checked_multiply(batch, time);
  return {.qkv = saved.allocate({rows, fused_features(config_)}),
          .out = saved.allocate({rows, out_features()}),
          .running_max = saved.allocate({batch, config_.heads, time}),
          .running_sum = saved.allocate({batch, config_.heads, time})};
}

AttentionShape Heads::shape(int64_t batch, int64_t time) const {
  return {.batch = batch,
          .query_heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .query_length = time,
          .key_length = time,
          .head_size = config_.head_size};
}

AttentionOptions Heads::options(const Context& context, const int32_t* documents) const {
  const DropoutMask mask = context.dropout_mask(config_.dropout, "dropout/attention", config_.layer);
  return {.scale = config_.scale,
          .documents = documents,
          .dropout = mask.probability,
          .dropout_key = mask.key,
          .dropout_substream = static_cast<uint32_t>(mask.substream)};
}

void Heads::forward(const Context& context, int64_t batch, int64_t time, ConstView x, State& state,
                    const int32_t* documents) const {
  check_shape(x, {checked_multiply(batch, time), config_.channels}, "Heads input (N, C)");
  qkv.forward(context, x, state.qkv);
  const QkvRows<const float> rows(state.qkv.f32(), config_, time);
  const Arena::Scope scope(context.scratch);
  attention_forward(
      context.executor, shape(batch, time), options(context, documents), rows.query, rows.key, rows.value,
      concatenated(state.out.f32(), config_, time), state.running_max.f32(), state.running_sum.f32(),
      context.scratch.allocate_f32(attention_workspace(shape(batch, time), context.executor.threads())));
}

void Heads::backward(const Context& context, int64_t batch, int64_t time, ConstView x, ConstView dout,
                     View dx, State& state, const int32_t* documents) {
  check_shape(dout, state.out.shape, "Heads dout (N, H D)");
  const Arena::Scope scope(context.scratch);
  const View dqkv = context.scratch.allocate(state.qkv.shape);  // (N, (H + 2K) D)
  {
    const Arena::Scope workspace(context.scratch);
    const QkvRows<const float> rows(state.qkv.f32(), config_, time);
    const QkvRows<float> drows(dqkv.f32(), config_, time);
    attention_backward(
        context.executor, shape(batch, time), options(context, documents), rows.query, rows.key, rows.value,
        concatenated<const float>(state.out.f32(), config_, time), state.running_max.f32(),
        state.running_sum.f32(), concatenated(dout.f32(), config_, time), drows.query, drows.key, drows.value,
        context.scratch.allocate_f32(attention_workspace(shape(batch, time), context.executor.threads())));
  }
  qkv.backward(context, x, dqkv, dx);
}

void Heads::weights(int64_t batch_index, int64_t head, int64_t batch, int64_t time, const State& state,
                    View out, const int32_t* documents) const {
  check_shape(out, {time, time}, "attention weights (T, T)");
  check_use(0 <= batch_index && batch_index < batch && 0 <= head && head < config_.heads,
            "attention weights: row {} of {}, head {} of {}", batch_index, batch, head, config_.heads);
  const QkvRows<const float> rows(state.qkv.f32(), config_, time);
  attention_weights(shape(batch, time), {.scale = config_.scale, .documents = documents}, rows.query,
                    rows.key, state.running_max.f32(), state.running_sum.f32(), batch_index, head, out.f32());
}

void Heads::visit(const std::string& prefix, ParameterVisitor visit) {
  const int64_t query_rows = config_.heads * config_.head_size,
                key_rows = config_.kv_heads * config_.head_size;
  qkv.visit(prefix + "qkv.", visit,
            {{"query", 0, query_rows},
             {"key", query_rows, query_rows + key_rows},
             {"value", query_rows + key_rows, query_rows + 2 * key_rows}});
}

Head::Head(const HeadConfig& config)
    : heads({.channels = config.channels,
             .head_size = config.head_size,
             .scale = config.scale,
             .dropout = config.dropout,
             .layer = config.layer}) {}

namespace {

void check_sequence(const ConstView& x, int64_t channels, std::string_view what) {
  check_use(x.shape.rank() == 3 && x.shape[2] == channels, "{}: shape {} where (B, T, {}) is expected", what,
            x.shape, channels);
}

// y = x, elements cut into chunks.
void copy(const Context& context, ConstView x, View y) {
  const float* const from = x.f32();
  float* const to = y.f32();
  parallel_for(context.executor, x.elements(), 16384,
               [&](int64_t begin, int64_t end, int) { std::copy(from + begin, from + end, to + begin); });
}

}  // namespace

void Head::forward(const Context& context, ConstView x, View y, State& state) const {
  check_sequence(x, heads.config().channels, "Head input");
  check_shape(y, {x.shape[0], x.shape[1], heads.config().head_size}, "Head output (B, T, D)");
  heads.forward(context, x.shape[0], x.shape[1], as_rows(x, x.shape[2], "Head input"), state);
  copy(context, state.out, y);
}

void Head::backward(const Context& context, ConstView x, ConstView dy, View dx, State& state) {
  check_sequence(x, heads.config().channels, "Head input");
  check_shape(dy, {x.shape[0], x.shape[1], heads.config().head_size}, "Head dy (B, T, D)");
  heads.backward(context, x.shape[0], x.shape[1], as_rows(x, x.shape[2], "Head input"),
                 as_rows(dy, heads.config().head_size, "Head dy"), as_rows(dx, x.shape[2], "Head dx"), state);
}

}  // namespace tril
