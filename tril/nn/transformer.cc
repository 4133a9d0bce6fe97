#include "tril/nn/transformer.h"

#include <algorithm>
#include <cmath>

#include "tril/kernels/cross_entropy.h"
#include "tril/kernels/elementwise.h"
#include "tril/kernels/embedding.h"
#include "tril/kernels/softcap.h"
#include "tril/nn/key_value_cache.h"

namespace tril {
namespace {

// Rows whose logits exist at one time: enough that adding to the head's gradient (V, C) once per chunk is
// cheap beside the chunk's products, few enough that V = 50,304 costs 134 MB and not gigabytes.
int64_t head_chunk_rows(int64_t rows, int64_t vocabulary) {
  constexpr int64_t kFloats = int64_t{1} << 25;
  return std::min(rows, std::max<int64_t>(256, kFloats / vocabulary / 64 * 64));
}

TransformerBlockConfig block_config(const TransformerConfig& c, int64_t layer) {
  return {.channels = c.channels,
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_size = c.head_size,
          .mlp_hidden = c.mlp_hidden,
          .activation = c.activation,
          .qkv_bias = c.qkv_bias,
          .projection_bias = c.projection_bias,
          .mlp_bias = c.mlp_bias,
          .norm_bias = c.norm_bias,
          .norm = c.norm,
          .parallel_residual = c.parallel_residual,
          .attention = c.attention,
          .scale = c.scale,
          .dropout = c.dropout,
          .projection_init_std = 0.02f / std::sqrt(2.0f * static_cast<float>(c.layers)),
          .layer = layer};
}

}  // namespace

Transformer::Transformer(const TransformerConfig& config)
    : ln_final(config.channels, config.norm_bias, config.norm), config_(config.resolved()) {
  blocks.reserve(static_cast<size_t>(config_.layers));
  for (int64_t l = 0; l < config_.layers; ++l) {
    blocks.push_back(std::make_unique<TransformerBlock>(block_config(config_, l)));
  }
}

Transformer::State Transformer::plan(Arena& saved, int64_t batch, int64_t time, bool with_backward,
                                     Checkpointing checkpointing) const {
  check_use(batch >= 1 && time >= 1 && time <= config_.context,
            "Transformer: batch {} and time {} must be positive, and time at most the context {}", batch,
            time, config_.context);
  const int64_t rows = checked_multiply(batch, time);
  const size_t layers = blocks.size();
  State state{.batch = batch, .time = time, .with_backward = with_backward, .checkpointing = checkpointing};
  for (size_t i = 0; i <= layers; ++i) {
    const bool own = with_backward || i < 2;
    state.streams.push_back(own ? saved.allocate({rows, config_.channels}) : state.streams[i - 2]);
  }
  for (size_t i = 0; i < layers; ++i) {
    const bool own = (with_backward && checkpointing != Checkpointing::kBlock) || i == 0;
    state.blocks.push_back(own ? blocks[i]->plan(saved, batch, time, checkpointing) : state.blocks[0]);
  }
  state.ln_final = ln_final.plan(saved, rows);
  state.losses = saved.allocate({rows});
  state.loss_sum = reinterpret_cast<double*>(saved.allocate({1}, DType::kF64).data);
  return state;
}

void Transformer::check_batch(const Batch& batch) const {
  check_use(batch.tokens != nullptr, "batch: there are no tokens");
  for (int64_t n = 0; n < batch.rows(); ++n) {
    for (const int32_t* const ids : {batch.tokens, batch.targets}) {
      if (ids == nullptr) continue;
      check_use(ids[n] >= 0 && ids[n] < config_.vocabulary,
                "{} {} at row {}, position {} is outside the vocabulary of {}; was the data made with "
                "another tokenizer?",
                ids == batch.tokens ? "token" : "target", ids[n], n / batch.time, n % batch.time,
                config_.vocabulary);
    }
    if (batch.positions != nullptr) {
      const bool known = batch.positions[n] < config_.context || !learned_positions();
      check_use(batch.positions[n] >= 0 && known,
                "position {} at row {}, position {} is outside the context of {}", batch.positions[n],
                n / batch.time, n % batch.time, config_.context);
    }
  }
}

AttentionInputs Transformer::attention_inputs(const Context& context, const Batch& batch) const {
  return {.documents = batch.documents,
          .prefix = batch.prefix,
          .positions = batch.positions,
          .rotation = rotation_of(context, config_.attention, config_.head_size, batch.batch, batch.time,
                                  batch.positions)};
}

void Transformer::forward_blocks(const Context& context, const Batch& batch, const AttentionInputs& inputs,
                                 State& state, const KeyValueCache* cache) const {
  check_use(batch.batch == state.batch && batch.time == state.time,
            "Transformer: the batch is ({}, {}), the activations are for ({}, {})", batch.batch, batch.time,
            state.batch, state.time);
  context.executor.run(1, [&](int64_t, int) { check_batch(batch); });
  const View x = state.streams[0];  // (N, C)
  {
    const Profile::Timer timer = context.timer(pass_work("embedding forward", 2 * x.elements()));
    embedding_forward(context.executor, batch.rows(), batch.time, config_.channels, batch.tokens,
                      batch.positions, StoredRows(token_embedding.value), position_embedding.value.f32(),
                      x.f32());
    const DropoutMask mask = context.dropout_mask(config_.dropout, "dropout/embedding", 0);
    if (mask.probability > 0) dropout(context.executor, mask, x.elements(), x.f32(), x.f32());
  }
  const Shape sequence = {batch.batch, batch.time, config_.channels};
  for (size_t l = 0; l < blocks.size(); ++l) {
    AttentionInputs own = inputs;
    LayerCache layer;
    if (cache != nullptr) {
      layer = cache->layer(static_cast<int64_t>(l));
      own.cache = &layer;
    }
    blocks[l]->forward(context, state.streams[l].reshape(sequence), state.streams[l + 1].reshape(sequence),
                       state.blocks[l], own);
  }
}

void Transformer::head_loss(const Context& context, const Batch& batch, State& state, float gradient_scale,
                            View dnormed) {
  const int64_t rows = batch.rows(), v = config_.vocabulary, c = config_.channels;
  context.executor.run(1, [&](int64_t, int) {
    check_use(batch.targets != nullptr, "batch: there are no targets, which a loss needs");
  });
  const Arena::Scope scope(context.scratch);
  const View normed = context.scratch.allocate({rows, c});  // (N, C)
  ln_final.forward(context, state.streams.back(), normed, state.ln_final);

  const int64_t chunk = head_chunk_rows(rows, v);
  const View logits = context.scratch.allocate({chunk, v});  // (chunk, V)
  const float cap = config_.logit_softcap;
  const View slopes =
      cap > 0 && gradient_scale != 0 ? context.scratch.allocate({chunk, v}) : View();  // (chunk, V)
  Weight& head = config_.tied_head ? token_embedding : lm_head;
  // All chunks but the last are alike: a dry run counts the first and the last.
  const int64_t last = (rows - 1) / chunk * chunk;
  const int64_t step = context.scratch.is_dry() ? std::max(chunk, last) : chunk;
  for (int64_t n = 0; n < rows; n += step) {
    const int64_t count = std::min(chunk, rows - n);
    const float* const x = normed.f32() + n * c;
    // logits = normed W^T + b
    linear_forward(context, count, c, v, x, c, head.value, lm_head_bias.value.f32(), logits.f32());
    if (cap > 0) softcap_forward(context.executor, count * v, cap, logits.f32(), logits.f32(), slopes.f32());
    {
      const Profile::Timer timer = context.timer(pass_work("cross-entropy", 2 * count * v));
      // logits becomes dlogits = (softmax - onehot) / counted targets
      cross_entropy(context.executor, count, v, logits.f32(), batch.targets + n,
                    batch.loss_mask != nullptr ? batch.loss_mask + n : nullptr, gradient_scale,
                    config_.z_loss, config_.label_smoothing, state.losses.f32() + n);
    }
    if (gradient_scale == 0) continue;
    if (cap > 0) softcap_backward(context.executor, count * v, slopes.f32(), logits.f32(), logits.f32());
    linear_backward_weights(context, count, c, v, x, logits.f32(), head.gradient.f32(),
                            lm_head_bias.gradient.f32());
    linear_backward_input(context, count, c, v, logits.f32(), head.value.f32(), dnormed.f32() + n * c);
  }

  const float* const losses = state.losses.f32();
  double* const sum = state.loss_sum;
  context.executor.run(1, [&](int64_t, int) {
    *sum = 0;
    for (int64_t n = 0; n < rows; ++n) *sum += losses[n];
  });
}

void Transformer::loss(const Context& context, const Batch& batch, State& state) {
  const Arena::Scope scope(context.scratch);
  forward_blocks(context, batch, attention_inputs(context, batch), state);
  head_loss(context, batch, state, 0, View());
}

void Transformer::backward_blocks(const Context& context, const AttentionInputs& inputs, View d,
                                  State& state) {
  const Shape sequence = {state.batch, state.time, config_.channels};
  for (size_t l = blocks.size(); l-- > 0;) {
    const View x = state.streams[l].reshape(sequence);
    // The last block's forward was the last to use the shared state.
    const bool overwritten = state.checkpointing == Checkpointing::kBlock && l + 1 < blocks.size();
    if (overwritten) blocks[l]->recompute(context, x, state.blocks[l], inputs);
    blocks[l]->backward(context, x, d.reshape(sequence), d.reshape(sequence), state.blocks[l], inputs);
  }
}

void Transformer::forward_backward(const Context& context, const Batch& batch, State& state) {
  check_use(batch.counted_targets > 0, "batch: counted_targets is {}; there is nothing to learn from",
            batch.counted_targets);
  check_use(static_cast<bool>(token_embedding.gradient),
            "Transformer: the parameters have no gradients; make them with "
            "Parameters::Memory::kValuesAndGradients");
  check_use(state.with_backward,
            "Transformer: these activations are for forward alone; plan them with backward = true");
  const int64_t rows = batch.rows(), c = config_.channels;
  const Arena::Scope scope(context.scratch);
  const AttentionInputs inputs = attention_inputs(context, batch);
  forward_blocks(context, batch, inputs, state);
  const View d = context.scratch.allocate({rows, c});  // (N, C): the gradient of the residual stream
  {
    const Arena::Scope head_scope(context.scratch);
    const View dnormed = context.scratch.allocate({rows, c});  // (N, C)
    head_loss(context, batch, state, 1.0f / static_cast<float>(batch.counted_targets), dnormed);
    ln_final.backward(context, state.streams.back(), dnormed, d, /*accumulate_dx=*/false, state.ln_final);
  }
  backward_blocks(context, inputs, d, state);
  const Profile::Timer timer = context.timer(pass_work("embedding backward", 3 * d.elements()));
  const DropoutMask mask = context.dropout_mask(config_.dropout, "dropout/embedding", 0);
  if (mask.probability > 0) dropout(context.executor, mask, d.elements(), d.f32(), d.f32());
  embedding_backward(context.executor, rows, batch.time, c, batch.tokens, d.f32(),
                     token_embedding.gradient.f32());
  if (learned_positions()) {
    embedding_backward(context.executor, rows, batch.time, c, batch.positions, d.f32(),
                       position_embedding.gradient.f32());
  }
}

void Transformer::head_logits(const Context& context, const Batch& batch, State& state, View out,
                              bool last_only) const {
  const int64_t rows = batch.rows(), c = config_.channels, v = config_.vocabulary;
  const int64_t out_rows = last_only ? batch.batch : rows;
  check_shape(out, {out_rows, v}, last_only ? "logits of the last positions (B, V)" : "logits (N, V)");
  const View normed = context.scratch.allocate({rows, c});  // (N, C)
  ln_final.forward(context, state.streams.back(), normed, state.ln_final);
  // The last position of each row of the batch: start at T - 1, step T rows.
  const float* const first = normed.f32() + (last_only ? (batch.time - 1) * c : 0);
  linear_forward(context, out_rows, c, v, first, last_only ? batch.time * c : c, head_weight().value,
                 lm_head_bias.value.f32(), out.f32());
  if (config_.logit_softcap > 0)
    softcap_forward(context.executor, out_rows * v, config_.logit_softcap, out.f32(), out.f32(), nullptr);
}

void Transformer::logits(const Context& context, const Batch& batch, State& state, View out,
                         bool last_only) const {
  const Arena::Scope scope(context.scratch);
  forward_blocks(context, batch, attention_inputs(context, batch), state);
  head_logits(context, batch, state, out, last_only);
}

void Transformer::append(const Context& context, const Batch& batch, const int32_t* counts,
                         KeyValueCache& cache, State& state, View logits) const {
  check_use(batch.batch == cache.config().batch, "append: a batch of {} sequences, but the cache has {}",
            batch.batch, cache.config().batch);
  check_use(batch.documents == nullptr && batch.positions == nullptr,
            "append: a cached sequence is one document whose positions follow each other; leave both out");
  check_use(batch.prefix == nullptr || config_.attention.window == 0,
            "append: a prefix and a window of {} do not go together, since the cache forgets the prefix",
            config_.attention.window);
  context.executor.run(1, [&](int64_t, int) { check_batch(batch); });
  cache.grow(context.executor, batch.time, counts);
  const Arena::Scope scope(context.scratch);
  auto* const positions =
      reinterpret_cast<int32_t*>(context.scratch.allocate({batch.rows()}, DType::kI32).data);
  context.executor.run(1, [&](int64_t, int) {
    for (int64_t n = 0; n < batch.rows(); ++n) {
      const int64_t position = cache.position(n / batch.time, batch.time, n % batch.time);
      positions[n] = static_cast<int32_t>(std::max<int64_t>(position, 0));
    }
  });
  Batch placed = batch;
  placed.positions = positions;
  forward_blocks(context, placed, attention_inputs(context, placed), state, &cache);
  head_logits(context, placed, state, logits, /*last_only=*/true);
}

void Transformer::visit(const std::string& prefix, ParameterVisitor visit) {
  const int64_t v = config_.vocabulary, c = config_.channels;
  const auto table = [&](const char* name) {
    return ParameterInfo{
        .name = prefix + name, .shape = {v, c}, .init_std = 0.02f, .decay = true, .product = true};
  };
  visit(table("token_embedding.weight"), token_embedding);
  if (learned_positions()) {
    visit({.name = prefix + "position_embedding.weight",
           .shape = {config_.context, c},
           .init_std = 0.02f,
           .decay = true},
          position_embedding);
  }
  for (size_t l = 0; l < blocks.size(); ++l) blocks[l]->visit(fmt::format("{}blocks.{}.", prefix, l), visit);
  ln_final.visit(prefix + "ln_final.", visit);
  if (!config_.tied_head) visit(table("lm_head.weight"), lm_head);
  if (config_.lm_head_bias) visit({.name = prefix + "lm_head.bias", .shape = {v}}, lm_head_bias);
}

}  // namespace tril
