// Heads of scaled dot-product self-attention. Vaswani et al. (2017), section 3.2.
//
//   q = x Wq^T, k = x Wk^T, v = x Wv^T        (no bias unless asked for)
//   y = softmax(scale q k^T + causal mask) v   scale = 1 / sqrt(head_size)
#pragma once

#include "tril/kernels/attention.h"
#include "tril/nn/linear.h"
#include "tril/tensor/batch.h"

namespace tril {

struct HeadsConfig {
  int64_t channels = 0;
  int64_t heads = 1;
  int64_t kv_heads = 0;   // 0: as many as heads
  int64_t head_size = 0;  // need not be channels / heads
  bool bias = false;      // on query, key and value
  float scale = 0;        // 0: 1 / sqrt(head_size)
  float dropout = 0;      // of the attention weights
  int64_t layer = 0;      // which layer this is, for its dropout stream
};

// H heads on the same x, concatenated along the features; one fused projection, one kernel over all heads.
class Heads {
 public:
  explicit Heads(const HeadsConfig& config);

  // Saves q|k|v, the output and the running maximum and sum; recomputes the weights.
  struct State {
    View qkv;          // (N, (H + 2K) D)
    View out;          // (N, H D)
    View running_max;  // (B, H, T)
    View running_sum;  // (B, H, T)
  };
  State plan(Arena& saved, int64_t batch, int64_t time) const;

  // x (N, C) -> state.out (N, H D). `documents` (B, T) or null.
  void forward(const Context& context, int64_t batch, int64_t time, ConstView x, State& state,
               const int32_t* documents = nullptr) const;
  // dout (N, H D) -> dx (N, C), overwritten.
  void backward(const Context& context, int64_t batch, int64_t time, ConstView x, ConstView dout, View dx,
                State& state, const int32_t* documents = nullptr);
  // The weights (T, T) of one head after forward (with the same `documents`), for looking inside; before
  // dropout.
  void weights(int64_t batch_index, int64_t head, int64_t batch, int64_t time, const State& state, View out,
               const int32_t* documents = nullptr) const;

  void visit(const std::string& prefix, ParameterVisitor visit);
  const HeadsConfig& config() const { return config_; }
  int64_t out_features() const { return config_.heads * config_.head_size; }
  Linear qkv;  // rows: query (H D), key (K D), value (K D)

 private:
  AttentionShape shape(int64_t batch, int64_t time) const;
  AttentionOptions options(const Context& context, const int32_t* documents) const;
  HeadsConfig config_;
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
