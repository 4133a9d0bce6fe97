// Session: the memory to run a layer on one batch size.
//
//   MultiHeadAttention attention({...});
//   Parameters parameters(attention);  parameters.initialize(1);
//   Session session(attention, executor, B, T);       // saved activations and scratch, sized by a dry run
//   attention.forward(session.context(), x, y, session.state());
#pragma once

#include "tril/nn/transformer.h"

namespace tril {

// One forward (and backward) pass of a layer on (batch, time); with a DryExecutor and dry arenas it only
// counts.
void dry_pass(Head& layer, const Context& context, Head::State& state, int64_t batch, int64_t time,
              bool backward);
void dry_pass(MultiHeadAttention& layer, const Context& context, MultiHeadAttention::State& state,
              int64_t batch, int64_t time, bool backward);
void dry_pass(Mlp& layer, const Context& context, Mlp::State& state, int64_t batch, int64_t time,
              bool backward);
void dry_pass(TransformerBlock& layer, const Context& context, TransformerBlock::State& state, int64_t batch,
              int64_t time, bool backward);
void dry_pass(Transformer& layer, const Context& context, Transformer::State& state, int64_t batch,
              int64_t time, bool backward);

// Checkpointing is for layers that have something to choose.
inline Mlp::State plan_state(const Mlp& layer, Arena& saved, int64_t batch, int64_t time, bool,
                             Checkpointing checkpointing) {
  return layer.plan(saved, checked_multiply(batch, time), checkpointing);
}
inline TransformerBlock::State plan_state(const TransformerBlock& layer, Arena& saved, int64_t batch,
                                          int64_t time, bool, Checkpointing checkpointing) {
  return layer.plan(saved, batch, time, checkpointing);
}
inline Transformer::State plan_state(const Transformer& layer, Arena& saved, int64_t batch, int64_t time,
                                     bool backward, Checkpointing checkpointing) {
  return layer.plan(saved, batch, time, backward, checkpointing);
}
template <class Layer>
typename Layer::State plan_state(const Layer& layer, Arena& saved, int64_t batch, int64_t time, bool,
                                 Checkpointing) {
  return layer.plan(saved, batch, time);
}

struct SessionBytes {
  int64_t saved = 0;    // what forward keeps for backward
  int64_t scratch = 0;  // the most that temporaries take at one time
};

// Counts by running the layer's own code on a DryExecutor. The layer's weights must be bound (dry Parameters
// will do).
template <class Layer>
SessionBytes session_bytes(Layer& layer, int threads, int64_t batch, int64_t time, bool backward = true,
                           Checkpointing checkpointing = Checkpointing::kNone) {
  Arena saved = Arena::dry(), scratch = Arena::dry();
  DryExecutor executor(threads);
  typename Layer::State state = plan_state(layer, saved, batch, time, backward, checkpointing);
  dry_pass(layer, Context{executor, scratch, /*training=*/backward}, state, batch, time, backward);
  return {saved.peak(), scratch.peak()};
}

template <class Layer>
class Session {
 public:
  Session(Layer& layer, Executor& executor, int64_t batch, int64_t time, bool backward = true,
          Checkpointing checkpointing = Checkpointing::kNone)
      : Session(layer, executor, batch, time, backward, checkpointing,
                session_bytes(layer, executor.threads(), batch, time, backward, checkpointing)) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Context& context() { return context_; }
  typename Layer::State& state() { return state_; }
  const SessionBytes& bytes() const { return bytes_; }

 private:
  Session(Layer& layer, Executor& executor, int64_t batch, int64_t time, bool backward,
          Checkpointing checkpointing, const SessionBytes& bytes)
      : bytes_(bytes),
        saved_(bytes.saved),
        scratch_(bytes.scratch),
        context_{executor, scratch_},
        state_(plan_state(layer, saved_, batch, time, backward, checkpointing)) {}

  SessionBytes bytes_;
  Arena saved_;
  Arena scratch_;
  Context context_;
  typename Layer::State state_;
};

}  // namespace tril
