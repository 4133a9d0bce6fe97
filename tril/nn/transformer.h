// A decoder-only language model: token + position embedding, blocks, final norm, language-model head.
#pragma once

#include <memory>
#include <vector>

#include "tril/nn/transformer_block.h"

namespace tril {

class KeyValueCache;

struct TransformerConfig {
  int64_t vocabulary = 0;  // V
  int64_t context = 0;     // T at most
  int64_t channels = 0;    // C
  int64_t layers = 0;      // L
  int64_t heads = 0;       // H
  int64_t kv_heads = 0;    // K; 0: H
  int64_t head_size = 0;   // D; 0: C / H
  int64_t mlp_hidden = 0;  // F; 0: default_mlp_hidden
  Activation activation = Activation::kGeluTanh;
  bool qkv_bias = true;
  bool projection_bias = true;
  bool mlp_bias = true;
  bool norm_bias = true;
  bool tied_head = true;
  bool lm_head_bias = false;
  float scale = 0;  // of the scores; 0: 1 / sqrt(head size)
  NormOptions norm = {};
  bool parallel_residual = false;
  AttentionVariants attention = {};
  float logit_softcap = 0;  // c tanh(logit / c); 0: none
  float dropout = 0;
  float z_loss = 0;           // in training, see kernels/cross_entropy.h
  float label_smoothing = 0;  // likewise; config.json does not keep it
  bool operator==(const TransformerConfig&) const = default;

  // Sets the fields that make an architecture, leaving the sizes, dropout, z-loss and label smoothing:
  //   "gpt"      GPT-2's: layer norm, learned positions, tanh GELU, biases everywhere, tied head
  //   "llama"    Llama's: RMS norm, rotary positions, SwiGLU, no biases; the head tied, as in its small ones
  //   "classic"  the tutorials': layer norm, learned positions, ReLU, bias-free q k v, untied head with bias
  //   "custom"   starts as "gpt"
  // Throws kUse.
  void set_architecture(std::string_view name);
  std::string architecture() const;  // the first of these that it equals, or "custom"
  // Fills in the zeros and throws kUse, naming the values and near valid ones, for impossible sizes.
  TransformerConfig resolved() const;
  int64_t parameter_count() const;
  // Parameters in matrix products (the language-model head included), as counted for 6 N P FLOPs.
  int64_t matrix_parameters() const;
  // FLOPs of one training step: 6 * rows * matrix_parameters + attention (forward 4 B H D pairs, of the pairs
  // of tokens that causality and window let see each other; backward 2.5 times that).
  double training_flops(int64_t batch, int64_t time) const;
  // FLOPs of what backward computes again with checkpointing, which training_flops leaves out.
  double recomputed_flops(int64_t batch, int64_t time, Checkpointing checkpointing) const;
};

class Transformer {
 public:
  explicit Transformer(const TransformerConfig& config);
  Transformer(const Transformer&) = delete;
  Transformer& operator=(const Transformer&) = delete;

  // Activations of one (batch, time); what each layer saves is said in its State.
  struct State {
    int64_t batch = 0, time = 0;
    bool with_backward = true;
    Checkpointing checkpointing = Checkpointing::kNone;
    std::vector<View> streams;  // L + 1 x (N, C): the residual stream before each block and after the last
    std::vector<TransformerBlock::State> blocks;
    Norm::State ln_final;
    View losses;                 // (N)
    double* loss_sum = nullptr;  // sum of the losses of the last call; divide by batch.counted_targets
  };
  // Blocks checkpointed share one state. with_backward = false: they do too, and the streams two buffers;
  // forward_backward refuses it.
  State plan(Arena& saved, int64_t batch, int64_t time, bool with_backward = true,
             Checkpointing checkpointing = Checkpointing::kNone) const;

  // One micro-batch: loss, and gradients of the mean loss over batch.counted_targets added to every
  // Weight::gradient. The head and the loss run over chunks of rows, forward and backward at once: logits
  // never exist whole.
  void forward_backward(const Context& context, const Batch& batch, State& state);
  // The loss only.
  void loss(const Context& context, const Batch& batch, State& state);
  // logits (N, V) of all positions, or (B, V) of the last ones.
  void logits(const Context& context, const Batch& batch, State& state, View out,
              bool last_only = false) const;

  // Reads new tokens (B, T) after those in the cache: of row b the last counts[b], the others being padding
  // (null: all count). logits (B, V) after the last ones, to sample from. The batch has no documents and no
  // positions; its prefix, if any, must lie within what has been read, this time included. `state` is that of
  // an AppendSession.
  void append(const Context& context, const Batch& batch, const int32_t* counts, KeyValueCache& cache,
              State& state, View logits) const;

  // Throws kUse without tokens, and naming the first token or target outside [0, V) or position outside the
  // context.
  void check_batch(const Batch& batch) const;

  void visit(const std::string& prefix, ParameterVisitor visit);
  const TransformerConfig& config() const { return config_; }

  Weight token_embedding;     // (V, C); also the head's weight when tied
  Weight position_embedding;  // (T, C), or empty
  std::vector<std::unique_ptr<TransformerBlock>> blocks;
  Norm ln_final;
  Weight lm_head;       // (V, C), empty when tied
  Weight lm_head_bias;  // (V), or empty

 private:
  bool learned_positions() const { return config_.attention.positions == Positions::kLearned; }
  // In scratch memory, for as long as the caller's scope lasts.
  AttentionInputs attention_inputs(const Context& context, const Batch& batch) const;
  void forward_blocks(const Context& context, const Batch& batch, const AttentionInputs& inputs, State& state,
                      const KeyValueCache* cache = nullptr) const;
  // logits (N, V) of the final stream, or (B, V) of its last positions.
  void head_logits(const Context& context, const Batch& batch, State& state, View out, bool last_only) const;
  void head_loss(const Context& context, const Batch& batch, State& state, float gradient_scale,
                 View dnormed);
  void backward_blocks(const Context& context, const AttentionInputs& inputs, View d, State& state);
  const Weight& head_weight() const { return config_.tied_head ? token_embedding : lm_head; }
  TransformerConfig config_;
};

}  // namespace tril
