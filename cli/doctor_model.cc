#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cli/doctor_checks.h"
#include "tril/train/trainer.h"

namespace tril::cli {
namespace {

constexpr int64_t kContext = 8;

TrainOptions small_run() {
  TrainOptions o;
  o.layers = 2, o.heads = 2, o.channels = 32, o.context = kContext, o.batch = 8;
  o.steps = 150, o.learning_rate = 0.01f, o.min_learning_rate = 0.001f, o.warmup = 10;
  o.eval_every = o.eval_batches = o.save_every = o.sample_every = 1000;
  o.val_fraction = 0;
  return o;
}

Corpus cycle(int64_t vocabulary) {
  Corpus corpus;
  for (int32_t i = 0; i < 300; ++i) corpus.train.push_back(i % static_cast<int32_t>(vocabulary));
  return corpus;
}

// A model that knows nothing is as sure as a guess among V: ln V, plus half the variance of its logits.
void check_first_loss(Executor& executor, Checks& checks) {
  for (const int64_t vocabulary : {65, 1000}) {
    const TrainOptions o = small_run();
    Corpus corpus;
    const RandomStream random(1, "doctor tokens");
    for (uint64_t i = 0; i < 4000; ++i)
      corpus.train.push_back(static_cast<int32_t>(random.below(i, static_cast<uint64_t>(vocabulary))));
    Trainer trainer(model_config(o, vocabulary).resolved(), o, corpus, executor);
    const double loss = trainer.step().loss, expected = std::log(static_cast<double>(vocabulary));
    checks.push_back({fmt::format("first loss, {} ids", vocabulary), std::fabs(loss - expected), 0.1,
                      fmt::format("loss {:.3f}, ln V {:.3f}", loss, expected)});
  }
}

// After "a" comes "b": a target shifted twice would teach "c".
void check_label_shift(Executor& executor, Checks& checks) {
  const TrainOptions o = small_run();
  const Corpus corpus = cycle(3);
  Trainer trainer(model_config(o, 3).resolved(), o, corpus, executor);
  double loss = 0;
  while (trainer.steps_done() < o.steps) loss = trainer.step().loss;
  const Batch batch{.batch = 1,
                    .time = kContext,
                    .tokens = corpus.train.data(),
                    .targets = corpus.train.data() + 1,
                    .counted_targets = kContext};
  Session session(trainer.model(), executor, 1, kContext, /*with_backward=*/false);
  Tensor logits({kContext, 3});
  trainer.model().logits(session.context(), batch, session.state(), logits.view());
  double wrong = 0;
  for (int64_t t = 0; t < kContext; ++t) {
    const float* row = logits.f32() + 3 * t;
    wrong += std::max_element(row, row + 3) - row != (t + 1) % 3 ? 1 : 0;
  }
  checks.push_back({"learns abcabc: loss", loss, 0.05, "nats after 150 steps"});
  checks.push_back({"learns abcabc: next letter", wrong, 0, "wrong predictions of 8"});
}

void check_threads(Checks& checks) {
  const TrainOptions o = small_run();
  const Corpus corpus = cycle(50);
  const TransformerConfig config = model_config(o, 50).resolved();
  SerialExecutor one;
  ThreadPool several(std::max(available_threads(), 3));
  Trainer a(config, o, corpus, one), b(config, o, corpus, several);
  for (int step = 0; step < 3; ++step) a.step(), b.step();
  double different = 0;
  for (size_t i = 0; i < a.parameters().items().size(); ++i) {
    const View x = a.parameters().items()[i].weight->value, y = b.parameters().items()[i].weight->value;
    different += std::memcmp(x.data, y.data, static_cast<size_t>(4 * x.elements())) != 0 ? 1 : 0;
  }
  checks.push_back({fmt::format("1 thread == {} threads", several.threads()), different, 0,
                    "tensors with other bits after 3 steps"});
}

}  // namespace

void check_models(Checks& checks) {
  ThreadPool pool(available_threads());
  check_first_loss(pool, checks);
  check_label_shift(pool, checks);
  check_threads(checks);
}

}  // namespace tril::cli
