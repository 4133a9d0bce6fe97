#include "tril/report/attention_probe.h"

#include <cmath>

namespace tril {

AttentionProbe::AttentionProbe(const Transformer& model, Executor& executor, std::span<const int32_t> tokens)
    : model_(model), executor_(executor), tokens_(tokens.begin(), tokens.end()) {
  check_use(!tokens.empty(), "attention: there are no tokens to look at; give at least one");
  check_use(time() <= model.config().context,
            "attention: {} tokens are more than the model's context of {}; give fewer", time(),
            model.config().context);
  const Batch batch{.batch = 1, .time = time(), .tokens = tokens_.data()};
  model.check_batch(batch);
  Tensor logits({1, model.config().vocabulary});
  weights_ = Tensor({time(), time()});

  // With backward = true each layer has a state of its own, which is what is wanted here.
  const auto plan = [&] { state_ = model.plan(saved_, 1, time(), /*with_backward=*/true); };
  plan();
  DryExecutor dry(executor.threads());
  model.logits(Context{dry, scratch_}, batch, state_, logits, /*last_only=*/true);
  saved_ = Arena(saved_.peak());
  scratch_ = Arena(scratch_.peak());
  plan();
  model.logits(Context{executor, scratch_}, batch, state_, logits, /*last_only=*/true);
}

const Heads& AttentionProbe::heads_of(int64_t layer, int64_t head) const {
  check_use(layer >= 0 && layer < layers() && head >= 0 && head < heads(),
            "attention: layer {}, head {}: the model has layers 0 to {} and heads 0 to {}", layer, head,
            layers() - 1, heads() - 1);
  return model_.blocks[static_cast<size_t>(layer)]->attention.heads;
}

const float* AttentionProbe::weights(int64_t layer, int64_t head) {
  // Prepares queries and keys as the forward pass did, in scratch memory that was enough for it.
  heads_of(layer, head)
      .weights(Context{executor_, scratch_}, /*batch_index=*/0, head, /*batch=*/1, time(),
               state_.blocks[static_cast<size_t>(layer)].attention, weights_);
  const float* const w = weights_.f32();
  for (int64_t i = 0; i < weights_.elements(); ++i) {
    if (!std::isfinite(w[i])) {
      fail(ErrorKind::kNumerics,
           "attention: layer {}, head {}: token {} gives token {} a weight of {}; the model is damaged",
           layer, head, i / time(), i % time(), w[i]);
    }
  }
  return w;
}

std::vector<float> AttentionProbe::sink_weights(int64_t layer, int64_t head) const {
  const Heads& heads = heads_of(layer, head);
  if (!has_sinks()) return {};
  const Heads::State& state = state_.blocks[static_cast<size_t>(layer)].attention;
  const float* const max = state.running_max.f32() + head * time();  // (1, H, T)
  const float* const sum = state.running_sum.f32() + head * time();
  std::vector<float> out(static_cast<size_t>(time()));
  for (int64_t i = 0; i < time(); ++i) {
    float& w = out[static_cast<size_t>(i)];
    w = std::exp(heads.sinks.value.f32()[head] - max[i]) / sum[i];
    if (!std::isfinite(w)) {
      fail(ErrorKind::kNumerics,
           "attention: layer {}, head {}: token {} gives its sink a weight of {}; the model is damaged",
           layer, head, i, w);
    }
  }
  return out;
}

}  // namespace tril
