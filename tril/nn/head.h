// Heads of scaled dot-product self-attention. Vaswani et al. (2017), section 3.2.
//
//   q = x Wq^T, k = x Wk^T, v = x Wv^T        (no bias unless asked for)
//   q, k normalised, then turned by position    (kernels/query_key.h; only if asked for)
//   y = softmax(scale q k^T + causal mask) v   scale = 1 / sqrt(head_size)
#pragma once

#include "tril/kernels/attention.h"
#include "tril/kernels/query_key.h"
#include "tril/kernels/rope.h"
#include "tril/nn/linear.h"
#include "tril/tensor/batch.h"

namespace tril {

// Where a model learns the order of its tokens: a table added to the embeddings, angles of queries and keys,
// scores that fall with the distance, or nowhere but the causal mask.
enum class Positions { kLearned, kRope, kAlibi, kNone };

// How attention differs from the plain causal softmax; the defaults leave everything out. kernels/attention.h
// and kernels/query_key.h have the formulas.
struct AttentionVariants {
  Positions positions = Positions::kLearned;  // inside attention kLearned and kNone are the same
  RopeConfig rope;                            // for kRope
  int64_t window = 0;                         // a token sees the last `window` ones, itself included; 0: all
  float softcap = 0;                          // of the scores; 0: none
  bool qk_norm = false;                       // RMS norm of each query and key, with learned weights
  bool sinks = false;                         // a learned sink for each head
  bool operator==(const AttentionVariants&) const = default;
};

// One layer's part of a key/value cache (nn/key_value_cache.h).
struct LayerCache {
  View keys, values;      // (B, K, slots, D), f32 or bf16
  const int32_t* stored;  // (B): tokens in the slots, the new ones included
  const int32_t* counts;  // (B): the new ones, which are the last rows of each sequence
};

// What attention reads of a batch besides x.
struct AttentionInputs {
  const int32_t* documents = nullptr;  // (B, T), or null: a token sees its own document; negative: padding
  const int32_t* prefix = nullptr;     // (B), or null: the first prefix[b] tokens are seen by all
  const int32_t* positions = nullptr;  // (B, T), or null: 0 .. T-1 in each row; for kRope
  ConstView rotation = {};  // rotation_of() the positions, shared by layers; empty: computed each time
  const LayerCache* cache = nullptr;  // forward alone: x are new tokens after those in the cache
};

struct HeadsConfig {
  int64_t channels = 0;
  int64_t heads = 1;
  int64_t kv_heads = 0;   // 0: as many as heads
  int64_t head_size = 0;  // need not be channels / heads
  bool bias = false;      // on query, key and value
  float scale = 0;        // 0: 1 / sqrt(head_size)
  float dropout = 0;      // of the attention weights
  int64_t layer = 0;      // which layer this is, for its dropout stream
  AttentionVariants variants = {};
  float norm_epsilon = 1e-5f;  // of the QK-norm
};

// Pairs of a query and a key it sees, in one row of `time` tokens: the first `window` tokens see 1, 2, ...
// tokens, the others `window` (0: all before them).
double visible_pairs(int64_t time, int64_t window);

// The angles of kRope as cosines and sines, (T, rope size), or (N, rope size) with positions, in scratch
// memory; empty for other positions.
ConstView rotation_of(const Context& context, const AttentionVariants& variants, int64_t head_size,
                      int64_t batch, int64_t time, const int32_t* positions);

// H heads on the same x, concatenated along the features; one fused projection, one kernel over all heads.
class Heads {
 public:
  explicit Heads(const HeadsConfig& config);

  // Saves q|k|v as projected, the output and the running maximum and sum; recomputes the normalised and
  // turned queries and keys, and the weights.
  struct State {
    View qkv;          // (N, (H + 2K) D)
    View out;          // (N, H D)
    View running_max;  // (B, H, T)
    View running_sum;  // (B, H, T)
  };
  State plan(Arena& saved, int64_t batch, int64_t time) const;

  // x (N, C) -> state.out (N, H D).
  void forward(const Context& context, int64_t batch, int64_t time, ConstView x, State& state,
               const AttentionInputs& inputs = {}) const;
  // dout (N, H D) -> dx (N, C), overwritten.
  void backward(const Context& context, int64_t batch, int64_t time, ConstView x, ConstView dout, View dx,
                State& state, const AttentionInputs& inputs = {});
  // The weights (T, T) of one head after forward (with the same `inputs`), for looking inside; before
  // dropout.
  void weights(const Context& context, int64_t batch_index, int64_t head, int64_t batch, int64_t time,
               const State& state, View out, const AttentionInputs& inputs = {}) const;

  void visit(const std::string& prefix, ParameterVisitor visit);
  const HeadsConfig& config() const { return config_; }
  int64_t out_features() const { return config_.heads * config_.head_size; }
  Linear qkv;         // rows: query (H D), key (K D), value (K D)
  Weight query_norm;  // (D), or empty
  Weight key_norm;    // (D), or empty
  Weight sinks;       // (H), or empty

 private:
  // Queries, keys and values as attention reads them.
  struct Rows {
    ConstHeadView query, key, value;
  };
  bool transforms() const {
    return config_.variants.qk_norm || config_.variants.positions == Positions::kRope;
  }
  ConstView rotation(const Context& context, int64_t batch, int64_t time,
                     const AttentionInputs& inputs) const;
  QueryKey query_key(int64_t rows, ConstView rotation) const;
  Rows prepare(const Context& context, int64_t batch, int64_t time, ConstView projected,
               ConstView rotation) const;
  void forward_cached(const Context& context, int64_t batch, int64_t time, const Rows& rows, State& state,
                      const AttentionInputs& inputs) const;
  template <class Stored>
  void attend_cached(const Context& context, const AttentionShape& shape, const AttentionOptions& options,
                     const LayerCache& cache, const Rows& rows, State& state) const;
  AttentionShape shape(int64_t batch, int64_t time) const;
  AttentionOptions options(const Context& context, const AttentionInputs& inputs) const;
  HeadsConfig config_;
  std::vector<float> alibi_slopes_;  // (H), or empty
};

struct HeadConfig {
  int64_t channels = 0;
  int64_t head_size = 0;
  float scale = 0;    // 0: 1 / sqrt(head_size)
  float dropout = 0;  // of the attention weights
  int64_t layer = 0;  // heads with different numbers drop different weights
};

// One head, as the paper writes it: Heads with H = 1, no projection.
class Head {
 public:
  explicit Head(const HeadConfig& config);
  using State = Heads::State;
  State plan(Arena& saved, int64_t batch, int64_t time) const { return heads.plan(saved, batch, time); }
  void forward(const Context& context, ConstView x, View y, State& state) const;  // (B, T, C) -> (B, T, D)
  // x (B, T, C), dy (B, T, D) -> dx (B, T, C), overwritten.
  void backward(const Context& context, ConstView x, ConstView dy, View dx, State& state);
  void visit(const std::string& prefix, ParameterVisitor v) { heads.visit(prefix, v); }
  Heads heads;
};

}  // namespace tril
