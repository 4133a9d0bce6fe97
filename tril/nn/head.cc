#include "tril/nn/head.h"

#include <algorithm>
#include <cmath>

#include "tril/kernels/elementwise.h"

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
  const AttentionVariants& v = c.variants;
  check_use(v.window >= 0, "Heads: window {} must be a number of tokens, or 0 for all", v.window);
  check_use(v.softcap == 0 || (v.softcap >= 1e-30f && v.softcap <= 1e30f),
            "Heads: softcap {} must be positive, such as 50, or 0 for none", v.softcap);
  if (v.positions == Positions::kRope) check_rope(v.rope, c.head_size);
  return c;
}

// ALiBi's slopes: 2^(-8 h / n), h = 1 .. n for n a power of two; for other n those of the power of two below,
// then every second one of the power of two above. Press et al. (2021), and their published code for other n.
std::vector<float> alibi_slopes(int64_t heads) {
  const int64_t whole = int64_t{1} << (63 - __builtin_clzll(static_cast<uint64_t>(heads)));
  std::vector<float> slopes;
  for (int64_t h = 0; h < heads; ++h) {
    const double exponent = h < whole
                                ? 8.0 * static_cast<double>(h + 1) / static_cast<double>(whole)
                                : 4.0 * static_cast<double>(2 * (h - whole) + 1) / static_cast<double>(whole);
    slopes.push_back(static_cast<float>(std::exp2(-exponent)));
  }
  return slopes;
}

// Four operations a pair of tokens and a feature.
Work attention_work(const char* name, double passes, const HeadsConfig& c, int64_t batch, int64_t time) {
  return {.name = name,
          .operations = passes * 4 * static_cast<double>(batch * c.heads * c.head_size) *
                        visible_pairs(time, c.variants.window)};
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

double visible_pairs(int64_t time, int64_t window) {
  const auto w = static_cast<double>(window > 0 ? std::min(window, time) : time);
  return w * (static_cast<double>(time) - (w - 1) / 2);
}

ConstView rotation_of(const Context& context, const AttentionVariants& variants, int64_t head_size,
                      int64_t batch, int64_t time, const int32_t* positions) {
  if (variants.positions != Positions::kRope) return {};
  const int64_t all = checked_multiply(batch, time), size = rope_size(variants.rope, head_size);
  // As large with positions as without: a dry run does not know whether there will be any.
  float* const out = context.scratch.allocate({all, size}).f32();
  const int64_t rows = positions != nullptr ? all : time;
  rope_rotation(context.executor, variants.rope, head_size, rows, positions, out);
  return ConstView(reinterpret_cast<const std::byte*>(out), DType::kF32, {rows, size});
}

Heads::Heads(const HeadsConfig& config)
    : qkv({.in = resolved(config).channels, .out = fused_features(resolved(config)), .bias = config.bias}),
      config_(resolved(config)) {
  if (config_.variants.positions == Positions::kAlibi) alibi_slopes_ = alibi_slopes(config_.heads);
}

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

AttentionOptions Heads::options(const Context& context, const AttentionInputs& inputs) const {
  const DropoutMask mask = context.dropout_mask(config_.dropout, "dropout/attention", config_.layer);
  return {.scale = config_.scale,
          .window = config_.variants.window,
          .prefix = inputs.prefix,
          .documents = inputs.documents,
          .softcap = config_.variants.softcap,
          .alibi_slopes = alibi_slopes_.empty() ? nullptr : alibi_slopes_.data(),
          .sinks = sinks.value.f32(),
          .dropout = mask.probability,
          .dropout_key = mask.key,
          .dropout_substream = static_cast<uint32_t>(mask.substream)};
}

ConstView Heads::rotation(const Context& context, int64_t batch, int64_t time,
                          const AttentionInputs& inputs) const {
  if (inputs.rotation.shape.rank() > 0) return inputs.rotation;
  return rotation_of(context, config_.variants, config_.head_size, batch, time, inputs.positions);
}

QueryKey Heads::query_key(int64_t rows, ConstView rotation) const {
  const bool turns = config_.variants.positions == Positions::kRope;
  return {.rows = rows,
          .heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .head_size = config_.head_size,
          .query_weight = query_norm.value.f32(),
          .key_weight = key_norm.value.f32(),
          .epsilon = config_.norm_epsilon,
          .rotation = turns ? rotation.f32() : nullptr,
          .rotation_rows = turns ? rotation.shape[0] : 0,
          .rope_size = turns ? rotation.shape[1] : 0,
          .interleaved = config_.variants.rope.interleaved};
}

Heads::Rows Heads::prepare(const Context& context, int64_t batch, int64_t time, ConstView projected,
                           ConstView rotation) const {
  const QkvRows<const float> rows(projected.f32(), config_, time);
  if (!transforms()) return {rows.query, rows.key, rows.value};
  const int64_t d = config_.head_size, width = (config_.heads + config_.kv_heads) * d;
  const View qk = context.scratch.allocate({batch * time, width});  // (N, (H + K) D)
  const Profile::Timer timer = context.timer(pass_work("query, key forward", 2 * qk.elements()));
  query_key_forward(context.executor, query_key(batch * time, rotation), projected.f32(), qk.f32());
  const auto part = [&](int64_t offset) { return ConstHeadView{qk.f32() + offset, time * width, width, d}; };
  return {part(0), part(config_.heads * d), rows.value};
}

void Heads::forward(const Context& context, int64_t batch, int64_t time, ConstView x, State& state,
                    const AttentionInputs& inputs) const {
  check_shape(x, {checked_multiply(batch, time), config_.channels}, "Heads input (N, C)");
  qkv.forward(context, x, state.qkv);
  const Arena::Scope scope(context.scratch);
  const Rows rows = prepare(context, batch, time, state.qkv, rotation(context, batch, time, inputs));
  if (inputs.cache != nullptr) {
    forward_cached(context, batch, time, rows, state, inputs);
    return;
  }
  const Profile::Timer timer = context.timer(attention_work("attention forward", 1, config_, batch, time));
  attention_forward(context.executor, shape(batch, time), options(context, inputs), rows.query, rows.key,
                    rows.value, concatenated(state.out.f32(), config_, time), state.running_max.f32(),
                    state.running_sum.f32(),
                    context.scratch.allocate_f32(
                        attention_forward_workspace(shape(batch, time), context.executor.threads())));
}

void Heads::backward(const Context& context, int64_t batch, int64_t time, ConstView x, ConstView dout,
                     View dx, State& state, const AttentionInputs& inputs) {
  check_shape(dout, state.out.shape, "Heads dout (N, H D)");
  const int64_t rows_count = checked_multiply(batch, time);
  const Arena::Scope scope(context.scratch);
  const View dqkv = context.scratch.allocate(state.qkv.shape);  // (N, (H + 2K) D)
  {
    const Arena::Scope workspace(context.scratch);
    const ConstView turn = rotation(context, batch, time, inputs);
    const Rows rows = prepare(context, batch, time, state.qkv, turn);
    const QkvRows<float> drows(dqkv.f32(), config_, time);
    const View dsinks =
        config_.variants.sinks ? context.scratch.allocate({batch, config_.heads}) : View();  // (B, H)
    {
      const Profile::Timer timer =
          context.timer(attention_work("attention backward", 2.5, config_, batch, time));
      attention_backward(
          context.executor, shape(batch, time), options(context, inputs), rows.query, rows.key, rows.value,
          concatenated<const float>(state.out.f32(), config_, time), state.running_max.f32(),
          state.running_sum.f32(), concatenated(dout.f32(), config_, time), drows.query, drows.key,
          drows.value,
          context.scratch.allocate_f32(attention_workspace(shape(batch, time), context.executor.threads())),
          dsinks.f32());
    }
    if (config_.variants.sinks) {
      bias_backward(context.executor, batch, config_.heads, dsinks.f32(), sinks.gradient.f32(),
                    context.scratch.allocate_f32(bias_backward_workspace(batch, config_.heads)));
    }
    if (transforms()) {
      const QueryKey transform = query_key(rows_count, turn);
      const Profile::Timer timer = context.timer(pass_work(
          "query, key backward", 3 * rows_count * (config_.heads + config_.kv_heads) * config_.head_size));
      query_key_backward(context.executor, transform, state.qkv.f32(), dqkv.f32(), query_norm.gradient.f32(),
                         key_norm.gradient.f32(),
                         context.scratch.allocate_f32(query_key_backward_workspace(transform)));
    }
  }
  qkv.backward(context, x, dqkv, dx);
}

void Heads::weights(const Context& context, int64_t batch_index, int64_t head, int64_t batch, int64_t time,
                    const State& state, View out, const AttentionInputs& inputs) const {
  check_shape(out, {time, time}, "attention weights (T, T)");
  check_use(0 <= batch_index && batch_index < batch && 0 <= head && head < config_.heads,
            "attention weights: row {} of {}, head {} of {}", batch_index, batch, head, config_.heads);
  const Arena::Scope scope(context.scratch);
  const Rows rows = prepare(context, batch, time, state.qkv, rotation(context, batch, time, inputs));
  AttentionOptions undropped = options(context, inputs);
  undropped.dropout = 0;
  attention_weights(shape(batch, time), undropped, rows.query, rows.key, state.running_max.f32(),
                    state.running_sum.f32(), batch_index, head, out.f32());
}

void Heads::visit(const std::string& prefix, ParameterVisitor visit) {
  const int64_t query_rows = config_.heads * config_.head_size,
                key_rows = config_.kv_heads * config_.head_size;
  qkv.visit(prefix + "qkv.", visit,
            {{"query", 0, query_rows},
             {"key", query_rows, query_rows + key_rows},
             {"value", query_rows + key_rows, query_rows + 2 * key_rows}});
  if (config_.variants.qk_norm) {
    visit({.name = prefix + "query_norm.weight", .shape = {config_.head_size}, .init_value = 1}, query_norm);
    visit({.name = prefix + "key_norm.weight", .shape = {config_.head_size}, .init_value = 1}, key_norm);
  }
  if (config_.variants.sinks) visit({.name = prefix + "sinks", .shape = {config_.heads}}, sinks);
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

}  // namespace

void Head::forward(const Context& context, ConstView x, View y, State& state) const {
  check_sequence(x, heads.config().channels, "Head input");
  check_shape(y, {x.shape[0], x.shape[1], heads.config().head_size}, "Head output (B, T, D)");
  heads.forward(context, x.shape[0], x.shape[1], as_rows(x, x.shape[2], "Head input"), state);
  copy(context.executor, state.out.elements(), state.out.f32(), y.f32());
}

void Head::backward(const Context& context, ConstView x, ConstView dy, View dx, State& state) {
  check_sequence(x, heads.config().channels, "Head input");
  check_shape(dy, {x.shape[0], x.shape[1], heads.config().head_size}, "Head dy (B, T, D)");
  heads.backward(context, x.shape[0], x.shape[1], as_rows(x, x.shape[2], "Head input"),
                 as_rows(dy, heads.config().head_size, "Head dy"), as_rows(dx, x.shape[2], "Head dx"), state);
}

}  // namespace tril
