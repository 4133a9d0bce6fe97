// Session: the memory to run a layer on one batch size, in three lines.
//
//   MultiHeadAttention attention({...});
//   Parameters parameters(attention);  parameters.initialize(1);
//   Session session(attention, pool, B, T);           // saved activations and scratch, sized by a dry run
//   attention.forward(session.context(), x, y, session.state());
#pragma once

#include "tril/nn/transformer.h"

namespace tril {

template <class Layer>
class Session {
 public:
  // Sizes both arenas by running the layer's own forward and backward on a DryExecutor.
  Session(Layer& layer, Executor& executor, int64_t batch, int64_t time, bool with_backward = true);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Context& context() { return context_; }
  typename Layer::State& state() { return state_; }
  int64_t saved_bytes() const { return saved_.capacity(); }
  int64_t scratch_bytes() const { return scratch_.capacity(); }

 private:
  Arena saved_;
  Arena scratch_;
  Context context_;
  typename Layer::State state_;
};

}  // namespace tril
