#include "tril/nn/session.h"

namespace tril {
namespace {

// Views of a shape whose memory is never touched.
View untouched(const Shape& shape) {
  Arena arena = Arena::dry();
  arena.allocate({16});
  return arena.allocate(shape);
}

// x, y, dy, dx as four distinct untouchable views.
struct Sequences {
  View x, y, dy, dx;
  Sequences(const Shape& in, const Shape& out) {
    Arena arena = Arena::dry();
    x = arena.allocate(in);
    y = arena.allocate(out);
    dy = arena.allocate(out);
    dx = arena.allocate(in);
  }
};

template <class Layer>
void dry_sequence(Layer& layer, const Context& context, typename Layer::State& state, const Shape& in,
                  const Shape& out, bool backward) {
  const Sequences s(in, out);
  layer.forward(context, s.x, s.y, state);
  if (backward) layer.backward(context, s.x, s.dy, s.dx, state);
}

}  // namespace

void dry_pass(Head& layer, const Context& context, Head::State& state, int64_t batch, int64_t time,
              bool backward) {
  const HeadsConfig& c = layer.heads.config();
  dry_sequence(layer, context, state, {batch, time, c.channels}, {batch, time, c.head_size}, backward);
}

void dry_pass(MultiHeadAttention& layer, const Context& context, MultiHeadAttention::State& state,
              int64_t batch, int64_t time, bool backward) {
  const Shape shape = {batch, time, layer.heads.config().channels};
  dry_sequence(layer, context, state, shape, shape, backward);
}

void dry_pass(Mlp& layer, const Context& context, Mlp::State& state, int64_t batch, int64_t time,
              bool backward) {
  const Shape shape = {batch, time, layer.hidden.config().in};
  dry_sequence(layer, context, state, shape, shape, backward);
}

void dry_pass(TransformerBlock& layer, const Context& context, TransformerBlock::State& state, int64_t batch,
              int64_t time, bool backward) {
  const Shape shape = {batch, time, layer.mlp.hidden.config().in};
  dry_sequence(layer, context, state, shape, shape, backward);
}

void dry_pass(Transformer& layer, const Context& context, Transformer::State& state, int64_t batch,
              int64_t time, bool backward) {
  const Batch shape{.batch = batch, .time = time, .counted_targets = 1};
  if (backward) {
    layer.forward_backward(context, shape, state);
    return;
  }
  layer.loss(context, shape, state);
  const int64_t v = layer.config().vocabulary;
  layer.logits(context, shape, state, untouched({batch * time, v}));
  layer.logits(context, shape, state, untouched({batch, v}), /*last_only=*/true);
}

}  // namespace tril
