// One head on a toy sequence, its attention weights printed: a lower triangle whose rows sum to one.
#include <cstdio>

#include "tril/tril.h"

int main() {
  constexpr int64_t kTime = 6, kChannels = 8, kHeadSize = 4;
  tril::Head head({.channels = kChannels, .head_size = kHeadSize});
  tril::Parameters parameters(head);
  parameters.initialize(/*seed=*/1);
  for (const auto& item : parameters.items()) {  // fresh weights are small; larger ones show more
    for (int64_t i = 0; i < item.weight->value.elements(); ++i) item.weight->value.f32()[i] *= 30;
  }

  tril::Tensor x({1, kTime, kChannels}), y({1, kTime, kHeadSize}), weights({kTime, kTime});
  const tril::RandomStream random(/*seed=*/2, "toy sequence");
  for (int64_t i = 0; i < x.elements(); ++i)
    x.f32()[i] = static_cast<float>(random.normal(static_cast<uint64_t>(i)));

  tril::SerialExecutor executor;
  tril::Session session(head, executor, /*batch=*/1, kTime);
  head.forward(session.context(), x, y, session.state());
  head.heads.weights(session.context(), /*batch_index=*/0, /*head=*/0, /*batch=*/1, kTime, session.state(),
                     weights);

  std::puts("attention weights (row: the token that looks, column: the token it looks at)");
  for (int64_t i = 0; i < kTime; ++i) {
    for (int64_t j = 0; j < kTime; ++j) std::printf(" %.3f", weights.f32()[i * kTime + j]);
    std::puts("");
  }
}
