// AdamW over all parameters of a model: decoupled decay on matrices only, clipping by the global gradient
// norm.
#pragma once

#include "tril/nn/parameter.h"
#include "tril/train/options.h"

namespace tril {

class Optimizer {
 public:
  Optimizer(Parameters& parameters, const TrainOptions& options);

  // Clips, updates, zeroes the gradients. `step` counts from 0. Returns the gradient norm before clipping; if
  // that is not finite nothing is changed (the gradients are zeroed) and the caller decides.
  double update(Executor& executor, int64_t step);
  // The two halves of update(), for a caller that looks at the gradients in between. The norm is a sum in
  // double in a fixed order: the same for any number of threads.
  double gradient_norm(Executor& executor);
  void apply(Executor& executor, int64_t step, double norm);

  struct Moments {
    View m, v;  // shape of the parameter
  };
  const std::vector<Moments>& moments() const { return moments_; }  // as parameters.items()
  int64_t bytes() const { return arena_.capacity(); }

 private:
  Parameters& parameters_;
  TrainOptions options_;
  Arena arena_ = Arena::dry();
  std::vector<Moments> moments_;
  std::vector<double> partials_;  // of one parameter's sum of squares
  std::vector<double> sums_;      // one a parameter
};

}  // namespace tril
