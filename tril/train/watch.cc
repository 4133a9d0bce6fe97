#include "tril/train/watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tril {
namespace {

constexpr int64_t kAveragedSteps = 20;
constexpr double kNormSpike = 10;       // times the running mean
constexpr double kAboveFirst = 1.1;     // times the loss of step 1
constexpr double kAboveUnigram = 1.02;  // times the entropy: a model stuck at it goes up and down around it
constexpr double kRise = 1.01;          // times the best validation loss
constexpr int64_t kRisingValidations = 3;

// a += (x - a) / min(n, 20): the mean of the first 20, exponential after.
void add_to_average(double& average, int64_t n, double x) {
  average += (x - average) / static_cast<double>(std::min(n, kAveragedSteps));
}

}  // namespace

double unigram_entropy(std::span<const uint64_t> counts) {
  uint64_t total = 0;
  for (const uint64_t count : counts) total += count;
  if (total == 0) return std::numeric_limits<double>::infinity();
  double entropy = 0;
  for (const uint64_t count : counts) {
    const double p = static_cast<double>(count) / static_cast<double>(total);
    if (count > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

bool Watch::due(WarningKind kind, int64_t step) {
  int64_t& quiet_until = state.quiet_until[static_cast<size_t>(kind)];
  if (step < quiet_until) return false;
  quiet_until = 2 * step + 100;
  return true;
}

std::vector<Warning> Watch::take_warnings() { return std::exchange(warnings_, {}); }

void Watch::step(int64_t step, double loss, double gradient_norm) {
  state.skipped_in_a_row = 0;
  if (step == 1) state.first_loss = loss;
  const double usual = state.gradient_norm_average;
  const bool known = state.averaged_steps >= kAveragedSteps && usual > 0;
  if (known && gradient_norm > kNormSpike * usual && due(WarningKind::kGradientNorm, step)) {
    warnings_.push_back(
        {WarningKind::kGradientNorm, step,
         fmt::format("the gradient norm {:.3g} is {:.0f} times its running mean {:.3g}; {}, or look for odd "
                     "text if it comes back",
                     gradient_norm, gradient_norm / usual, usual,
                     options_.clip > 0 ? fmt::format("--clip {} limits the harm; lower --learning-rate {}",
                                                     options_.clip, options_.learning_rate)
                                       : "give --clip 1")});
  }
  ++state.averaged_steps;
  // A spike counts as much as is still usual.
  add_to_average(state.gradient_norm_average, state.averaged_steps,
                 known ? std::min(gradient_norm, kNormSpike * usual) : gradient_norm);
  add_to_average(state.loss_average, state.averaged_steps, loss);
  compare_losses(step);
}

void Watch::compare_losses(int64_t step) {
  const int64_t warmup = std::max<int64_t>(options_.warmup, 0);
  if (step <= warmup || state.averaged_steps < kAveragedSteps) return;
  if (state.loss_average > kAboveFirst * state.first_loss) {
    if (!due(WarningKind::kLearningRate, step)) return;
    warnings_.push_back(
        {WarningKind::kLearningRate, step,
         fmt::format(
             "the training loss {:.4f} is above that of the first step, {:.4f}: --learning-rate {} is "
             "too high; start anew with a tenth of it, or with a longer --warmup than {}",
             state.loss_average, state.first_loss, options_.learning_rate, warmup)});
    return;
  }
  if (step < warmup + std::max<int64_t>(100, options_.steps / 20)) return;
  if (state.loss_average > kAboveUnigram * unigram_entropy_ && due(WarningKind::kAboveUnigram, step)) {
    warnings_.push_back(
        {WarningKind::kAboveUnigram, step,
         fmt::format("the training loss {:.4f} is above {:.4f}, that of guessing by the frequency of tokens "
                     "alone; if it does not fall soon, try another --learning-rate than {}, or a larger "
                     "--batch",
                     state.loss_average, unigram_entropy_, options_.learning_rate)});
  }
}

void Watch::skipped(int64_t step, const std::string& why) {
  ++state.skipped_in_a_row;
  if (!due(WarningKind::kSkippedStep, step)) return;
  warnings_.push_back({WarningKind::kSkippedStep, step,
                       fmt::format("the step is skipped, the weights stay as they are: {}; if it comes back, "
                                   "lower --learning-rate {}",
                                   why, options_.learning_rate)});
}

void Watch::validation(int64_t step, double loss) {
  if (step == state.validated_step) return;
  state.validated_step = step;
  if (loss < state.best_validation_loss) {
    state.best_validation_loss = loss;
    state.best_validation_step = step;
    state.loss_average_at_best = state.loss_average;
    state.validations_since_best = state.rising_validations = 0;
    return;
  }
  ++state.validations_since_best;
  const bool rises =
      loss > kRise * state.best_validation_loss && state.loss_average < state.loss_average_at_best / kRise;
  state.rising_validations = rises ? state.rising_validations + 1 : 0;
  if (state.rising_validations < kRisingValidations || !due(WarningKind::kOverfitting, step)) return;
  warnings_.push_back(
      {WarningKind::kOverfitting, step,
       fmt::format("the validation loss has risen from {:.4f} at step {} to {:.4f} while the training loss "
                   "fell from {:.4f} to {:.4f}: the model learns the text by heart. More text or --dropout "
                   "0.2 (now {}) help; --patience 5 ends such runs, --final-model best takes the best save",
                   state.best_validation_loss, state.best_validation_step, loss, state.loss_average_at_best,
                   state.loss_average, options_.dropout)});
}

void Watch::dead_units(int64_t step, std::string_view layer, int64_t dead, int64_t units) {
  if (2 * dead <= units || !due(WarningKind::kDeadUnits, step)) return;
  warnings_.push_back(
      {WarningKind::kDeadUnits, step,
       fmt::format("{} of {} ReLU units of {} are active for no token of this step and learn nothing; start "
                   "anew with a lower --learning-rate than {}, or with --activation gelu_tanh",
                   dead, units, layer, options_.learning_rate)});
}

}  // namespace tril
