#include "tril/train/rate_sweep.h"

#include <algorithm>
#include <cmath>

namespace tril {
namespace {

constexpr double kSmoothing = 0.9;
// The loss turns only after some steps at rates that are too large already, and tasks that are soon solved
// forgive almost any rate until then.
constexpr double kOfTurning = 0.25, kOfSteepest = 3;
constexpr size_t kSlopeSteps = 5;  // over which a slope is taken; the average settles in twice as many

double rate_of(const RateSweepOptions& sweep, int64_t step) {
  const double part = static_cast<double>(step) / static_cast<double>(sweep.steps - 1);
  return sweep.lowest * std::pow(sweep.highest / sweep.lowest, part);
}

// The rate at which the smoothed loss fell most in the steps before.
std::optional<double> steepest_rate(const std::vector<RatePoint>& points) {
  std::optional<double> rate;
  double most = 0;
  for (size_t i = 3 * kSlopeSteps; i < points.size(); ++i) {
    const double fall = points[i - kSlopeSteps].smoothed - points[i].smoothed;
    if (fall > most) most = fall, rate = points[i].learning_rate;
  }
  return rate;
}

// The next point, or nothing when the loss or the gradients are not finite.
std::optional<double> loss_of_step(Trainer& trainer) {
  try {
    const StepReport report = trainer.step();
    return report.skipped ? std::nullopt : std::optional(report.loss);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNumerics) throw;
    return std::nullopt;
  }
}

}  // namespace

RateSweep sweep_learning_rates(const TransformerConfig& config, const TrainOptions& options,
                               const Corpus& corpus, Executor& executor, const RateSweepOptions& sweep,
                               const std::function<void(const RatePoint&)>& after_step,
                               const Parameters* start) {
  check_use(sweep.lowest > 0 && sweep.lowest < sweep.highest && sweep.steps >= 10,
            "rate sweep: from {} to {} in {} steps; give a lowest rate above 0, a highest above that, and at "
            "least 10 steps",
            sweep.lowest, sweep.highest, sweep.steps);
  Trainer trainer(config, options, corpus, executor);
  if (start != nullptr) trainer.start_from(*start);
  RateSweep out;
  double average = 0, weight = 0, lowest = std::numeric_limits<double>::infinity();
  while (std::ssize(out.points) < sweep.steps && !out.exploded) {
    const double rate = rate_of(sweep, std::ssize(out.points));
    trainer.set_learning_rate(static_cast<float>(rate));
    const std::optional<double> loss = loss_of_step(trainer);
    if (!loss) {
      out.exploded = true;
      break;
    }
    average += (1 - kSmoothing) * (*loss - average);
    weight += (1 - kSmoothing) * (1 - weight);
    const RatePoint& point = out.points.emplace_back(RatePoint{rate, *loss, average / weight});
    const double first = out.points.front().loss;
    if (point.smoothed < lowest) {
      lowest = point.smoothed;
      if (lowest < 0.98 * first) out.turning_rate = rate;
    }
    out.exploded = point.smoothed > lowest + std::max(0.5 * (first - lowest), 0.1 * first);
    if (after_step) after_step(point);
  }
  if (!out.turning_rate) return out;
  out.steepest_rate = steepest_rate(out.points);
  out.suggestion = kOfTurning * *out.turning_rate;
  if (out.steepest_rate) out.suggestion = std::min(*out.suggestion, kOfSteepest * *out.steepest_rate);
  return out;
}

}  // namespace tril
