// A step of a small Transformer through the installed headers and libraries: exits 0 if the first loss is
// near ln V, as fresh weights make it.
#include <cmath>
#include <cstdio>
#include <vector>

#include "tril/nn/session.h"

int main() {
  tril::TransformerConfig config{.vocabulary = 65, .context = 16, .channels = 32, .layers = 2, .heads = 2};
  config.set_architecture("gpt");
  tril::Transformer model(config.resolved());
  tril::Parameters parameters(model);
  parameters.initialize(1);

  tril::ThreadPool pool(2);
  tril::Session session(model, pool, 2, 16);
  std::vector<int32_t> tokens(2 * 16 + 1);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7 % 65);
  const tril::Batch batch{
      .batch = 2, .time = 16, .tokens = tokens.data(), .targets = tokens.data() + 1, .counted_targets = 32};
  model.forward_backward(session.context(), batch, session.state());
  const double loss = *session.state().loss_sum / 32;
  std::printf("loss %.4f\n", loss);
  return std::abs(loss - std::log(65.0)) < 0.2 ? 0 : 1;
}
