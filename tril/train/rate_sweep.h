// Which learning rate suits a model and its text: the range test of Smith, "Cyclical learning rates for
// training neural networks" (2017), section 3.3. A model takes a few steps whose rate grows from the
// lowest to the highest, each time by the same factor, and the loss is watched: it falls, and turns where the
// rate is too large.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tril/train/trainer.h"

namespace tril {

struct RateSweepOptions {
  double lowest = 1e-6, highest = 1;  // the first and the last rate
  int64_t steps = 200;
};

struct RatePoint {
  double learning_rate = 0;
  double loss = 0;      // of the step at this rate, nats: before the step changed the weights
  double smoothed = 0;  // exponential average of the losses so far, about the last ten
};

struct RateSweep {
  std::vector<RatePoint> points;
  // The smoothed loss rose above its lowest by half of what it had fallen, at least a tenth of the first
  // loss; or was not finite. The sweep ended there.
  bool exploded = false;
  // The rates at which the smoothed loss was lowest and at which it fell fastest, and the suggestion: three
  // times the latter, but at most a quarter of the former. None of them if the loss did not fall.
  std::optional<double> turning_rate, steepest_rate, suggestion;
};

// `options` must be resolved, as for a Trainer; its learning rate and schedule are not used. `after_step` is
// called with each point. The model starts with the weights `start`, or fresh. Throws kUse unless 0 < lowest
// < highest and there are at least 10 steps.
RateSweep sweep_learning_rates(const TransformerConfig& config, const TrainOptions& options,
                               const Corpus& corpus, Executor& executor, const RateSweepOptions& sweep,
                               const std::function<void(const RatePoint&)>& after_step = {},
                               const Parameters* start = nullptr);

}  // namespace tril
