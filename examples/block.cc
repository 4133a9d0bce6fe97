// A transformer block of 4 heads on (2, 10, 64) gives (2, 10, 64), and its backward pass the gradient of the
// input.
#include <cstdio>

#include "tril/tril.h"

int main() {
  const tril::Shape shape = {2, 10, 64};  // (B, T, C)
  tril::TransformerBlock block({.channels = 64, .heads = 4});
  tril::Parameters parameters(block);
  parameters.initialize(/*seed=*/1);

  tril::Tensor x(shape), y(shape), dy(shape), dx(shape);
  const tril::RandomStream random(/*seed=*/2, "input");
  for (int64_t i = 0; i < x.elements(); ++i) {
    x.f32()[i] = static_cast<float>(random.normal(static_cast<uint64_t>(i)));
    dy.f32()[i] = 1;
  }

  tril::ThreadPool pool(tril::available_threads());
  tril::Session session(block, pool, shape[0], shape[1]);
  block.forward(session.context(), x, y, session.state());
  block.backward(session.context(), x, dy, dx, session.state());

  std::printf("%s -> %s, %ld parameters\n", x.shape().to_string().c_str(), y.shape().to_string().c_str(),
              static_cast<long>(parameters.count()));
  for (const auto& item : parameters.items()) {
    std::printf("  %-28s %s\n", item.info.name.c_str(), item.info.shape.to_string().c_str());
  }
}
