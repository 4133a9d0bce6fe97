#include "tril/train/step_time.h"

#include <algorithm>

namespace tril {
namespace {

// Operations of a large product that take as long as ...
constexpr double kNormElement = 340;        // both norms of a block, forward, again, and backward
constexpr double kActivationElement = 130;  // the MLP's activation, forward and backward
constexpr double kDropoutElement = 220;     // two sites of a block, forward and backward
constexpr double kLossElement = 220;        // a logit, and its way to memory and back
constexpr double kOptimizerElement = 120;   // a parameter's update and its part of the gradient norm
constexpr double kGradientElement = 40;     // a parameter's gradient, read and written by a micro-batch
// Half of attention's full speed is reached at this many tokens; heads are as wide as a vector at least.
constexpr double kHalfTime = 100, kAttentionSpeed = 0.7;
constexpr int64_t kVector = 16;
// Parallel regions of a block, forward and backward, and of the rest of a step; seconds of each.
constexpr double kBlockRegions = 45, kOtherRegions = 25, kRegionSeconds = 2e-6;

}  // namespace

StepTime expected_step_time(const TransformerConfig& config, const TrainOptions& o, double gflops) {
  const TransformerConfig c = config.resolved();
  const auto count = [](auto... factors) { return (static_cast<double>(factors) * ...); };
  const double rows = count(o.batch, c.context), parameters = count(c.parameter_count());
  const double layers = count(c.layers), micro_batches = count(o.accumulate);

  const double all_flops = c.training_flops(o.batch, c.context);
  const double product_flops = 6 * rows * count(c.matrix_parameters());
  const double seen = count(c.attention.window > 0 ? std::min(c.attention.window, c.context) : c.context);
  const double attention_speed = kAttentionSpeed * seen / (seen + kHalfTime) * count(c.head_size) /
                                 count(std::max(c.head_size, kVector));
  const double row_elements =
      layers * (kNormElement * count(c.channels) + kActivationElement * count(c.mlp_hidden) +
                (c.dropout > 0 ? kDropoutElement * count(c.channels) : 0)) +
      kLossElement * count(c.vocabulary);

  const double second = gflops * 1e9;
  StepTime time;
  time.products =
      micro_batches * (product_flops + c.recomputed_flops(o.batch, c.context, checkpointing_of(o))) / second;
  time.attention = micro_batches * (all_flops - product_flops) / attention_speed / second;
  time.rows = micro_batches * rows * row_elements / second;
  time.weights = parameters * (kOptimizerElement + micro_batches * kGradientElement) / second;
  time.regions = micro_batches * (layers * kBlockRegions + kOtherRegions) * kRegionSeconds;
  return time;
}

}  // namespace tril
