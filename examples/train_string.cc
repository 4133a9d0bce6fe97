// A whole language model, trained on one string in a few seconds, that then says the string.
#include <cstdio>
#include <string>

#include "tril/tril.h"

int main() {
  const std::string text =
      "the cat sat on the mat. the dog lay on the log. the cat saw the dog, the dog saw the cat, and both "
      "sat on the mat. ";
  const std::string_view texts[] = {text};
  const tril::Tokenizer tokenizer = tril::Tokenizer::characters(texts, /*with_end_of_text=*/false);
  std::vector<int32_t> tokens = tokenizer.encode(text + text);

  tril::ThreadPool pool(tril::available_threads());
  tril::Transformer model(
      {.vocabulary = tokenizer.vocabulary(), .context = 32, .channels = 64, .layers = 2, .heads = 4});
  tril::Parameters parameters(model);
  parameters.initialize(/*seed=*/1, pool);

  tril::TrainOptions options;
  options.steps = 200, options.warmup = 20, options.learning_rate = 3e-3f, options.min_learning_rate = 3e-4f;
  tril::Optimizer optimizer(parameters, options);
  tril::WindowSampler sampler(tokens, /*batch=*/8, /*time=*/32, /*seed=*/1);
  tril::Session session(model, pool, /*batch=*/8, /*time=*/32);
  session.context().training = true;
  for (int64_t step = 0; step < options.steps; ++step) {
    const tril::Batch& batch = sampler.sample(step);
    model.forward_backward(session.context(), batch, session.state());
    optimizer.update(pool, step);
    if (step % 40 == 0 || step + 1 == options.steps) {
      std::printf("step %3ld  loss %.3f\n", static_cast<long>(step),
                  *session.state().loss_sum / static_cast<double>(batch.counted_targets));
    }
  }

  const std::vector<int32_t> prompt = tokenizer.encode("the dog");
  const auto answer = tril::generate(model, pool, prompt, /*max_tokens=*/60, {.temperature = 0});
  std::printf("the dog%s\n", tokenizer.decode(answer).c_str());
}
