// A look inside: which earlier tokens each token of a text looks at, in any head of a model.
#pragma once

#include <span>
#include <vector>

#include "tril/nn/transformer.h"

namespace tril {

// One forward pass that keeps the state of every layer; the weights of a head are computed from it when asked
// for, so no more than one head's are in memory.
class AttentionProbe {
 public:
  // Model and executor must outlive it. Throws kUse for no tokens, more than the model's context, or ids
  // outside its vocabulary.
  AttentionProbe(const Transformer& model, Executor& executor, std::span<const int32_t> tokens);
  AttentionProbe(const AttentionProbe&) = delete;
  AttentionProbe& operator=(const AttentionProbe&) = delete;

  int64_t time() const { return static_cast<int64_t>(tokens_.size()); }  // T
  int64_t layers() const { return model_.config().layers; }              // L
  int64_t heads() const { return model_.config().heads; }                // H

  // (T, T) of one head, until the next call: row i holds what token i gives to each token up to itself, 0
  // after it. Throws kUse for a layer or head that the model does not have, kNumerics if a weight is not
  // finite.
  const float* weights(int64_t layer, int64_t head);

  bool has_sinks() const { return model_.config().attention.sinks; }
  // (T): what token i gives to the head's sink, exp(sink - m_i) / l_i; empty in a model without sinks. Throws
  // as above.
  std::vector<float> sink_weights(int64_t layer, int64_t head) const;

 private:
  const Heads& heads_of(int64_t layer, int64_t head) const;  // throws kUse where there is none
  const Transformer& model_;
  Executor& executor_;
  std::vector<int32_t> tokens_;
  Arena saved_ = Arena::dry(), scratch_ = Arena::dry();
  Transformer::State state_;
  Tensor weights_;  // (T, T)
};

}  // namespace tril
