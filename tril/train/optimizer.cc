#include "tril/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "tril/kernels/adamw.h"

namespace tril {

Optimizer::Optimizer(Parameters& parameters, const TrainOptions& options)
    : parameters_(parameters), options_(options) {
  int64_t partials = 0;
  Arena dry = Arena::dry();
  for (const Parameters::Item& item : parameters.items()) {
    check_use(static_cast<bool>(item.weight->gradient), "optimizer: parameter {} has no gradient",
              item.info.name);
    dry.allocate(item.info.shape);
    dry.allocate(item.info.shape);
    partials = std::max(partials, sum_of_squares_partials(item.info.shape.elements()));
  }
  arena_ = Arena(dry.peak());
  for (const Parameters::Item& item : parameters.items()) {
    const View m = arena_.allocate(item.info.shape), v = arena_.allocate(item.info.shape);
    moments_.push_back({m, v});
  }
  partials_.resize(static_cast<size_t>(partials));
  sums_.resize(parameters.items().size());
}

double Optimizer::gradient_norm(Executor& executor) {
  const auto& items = parameters_.items();
  for (size_t i = 0; i < items.size(); ++i) {
    const View& gradient = items[i].weight->gradient;
    sum_of_squares(executor, gradient.elements(), gradient.f32(), partials_.data(), &sums_[i]);
  }
  double total = 0;
  for (const double sum : sums_) total += sum;
  return std::sqrt(total);
}

// g <- g min(1, clip / |g|);  then AdamW, see kernels/adamw.h.
void Optimizer::apply(Executor& executor, int64_t step, double norm) {
  AdamWStep update;
  update.learning_rate = learning_rate_at(options_, step);
  update.beta1 = options_.beta1;
  update.beta2 = options_.beta2;
  update.epsilon = options_.epsilon;
  if (options_.clip > 0 && norm > options_.clip)
    update.gradient_scale = static_cast<float>(options_.clip / norm);
  update.step = step + 1;
  const auto& items = parameters_.items();
  for (size_t i = 0; i < items.size(); ++i) {
    Weight& weight = *items[i].weight;
    update.weight_decay = options_.decay_all || items[i].info.decay ? options_.weight_decay : 0;
    adamw(executor, update, weight.value.elements(), weight.value.f32(), weight.gradient.f32(),
          moments_[i].m.f32(), moments_[i].v.f32());
  }
}

double Optimizer::update(Executor& executor, int64_t step) {
  const double norm = gradient_norm(executor);
  if (std::isfinite(norm)) {
    apply(executor, step, norm);
  } else {
    parameters_.zero_gradients();
  }
  return norm;
}

}  // namespace tril
