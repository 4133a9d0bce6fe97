// Notices training that goes wrong from the numbers of its steps and validations, and says it in words a
// person can act on. What it remembers goes into checkpoints, so a resumed run warns as one that never
// stopped.
//
//   skipped_step     loss or gradients are not finite, and the step is left out
//   gradient_norm    the norm is 10 times its running mean or more
//   learning_rate    after the warm-up the loss is above that of the first step
//   above_unigram    some time after the warm-up the loss is above the entropy of single tokens
//   overfitting      the validation loss rises while the training loss falls
//   dead_units       most ReLU units of a layer are active for no token of a step
//
// A kind that was told at step s is not told again before step 2 s + 100.
#pragma once

#include <array>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/train/options.h"

namespace tril {

enum class WarningKind {
  kSkippedStep,
  kGradientNorm,
  kLearningRate,
  kAboveUnigram,
  kOverfitting,
  kDeadUnits
};
inline constexpr std::string_view kWarningNames[] = {"skipped_step",  "gradient_norm", "learning_rate",
                                                     "above_unigram", "overfitting",   "dead_units"};
inline constexpr size_t kWarningKinds = std::size(kWarningNames);
inline std::string_view name_of(WarningKind kind) { return kWarningNames[static_cast<size_t>(kind)]; }

struct Warning {
  WarningKind kind;
  int64_t step = 0;
  std::string message;  // what, the values, what to do
};

// Losses are means per token, in nats.
struct WatchState {
  int64_t averaged_steps = 0;  // steps in the averages, which are exponential over about 20 of them
  double loss_average = 0;
  double gradient_norm_average = 0;
  double first_loss = std::numeric_limits<double>::infinity();  // of step 1
  int64_t skipped_in_a_row = 0;                                 // steps
  int64_t validated_step = -1;                                  // the last one
  int64_t best_validation_step = -1;
  double best_validation_loss = std::numeric_limits<double>::infinity();
  double loss_average_at_best = 0;
  int64_t validations_since_best = 0;
  int64_t rising_validations = 0;  // in a row, each clearly above the best while the training loss fell
  std::array<int64_t, kWarningKinds> quiet_until = {};  // by kind: the first step to warn of it again
};

// visit(name, field) for every number of the state.
template <class State, class Visit>
void visit_watch_state(State& s, Visit&& visit) {
  visit("averaged_steps", s.averaged_steps);
  visit("loss_average", s.loss_average);
  visit("gradient_norm_average", s.gradient_norm_average);
  visit("first_loss", s.first_loss);
  visit("skipped_in_a_row", s.skipped_in_a_row);
  visit("validated_step", s.validated_step);
  visit("best_validation_step", s.best_validation_step);
  visit("best_validation_loss", s.best_validation_loss);
  visit("loss_average_at_best", s.loss_average_at_best);
  visit("validations_since_best", s.validations_since_best);
  visit("rising_validations", s.rising_validations);
  for (size_t i = 0; i < kWarningKinds; ++i)
    visit(std::string(kWarningNames[i]) + "_quiet_until", s.quiet_until[i]);
}

// --patience: the validation loss has had no new low for so many validations in a row that the run ends.
inline bool out_of_patience(const TrainOptions& options, const WatchState& state) {
  return options.patience > 0 && state.validations_since_best >= options.patience;
}

// -sum p ln p over the frequencies p of the tokens, nats, from how often each id occurs: the loss of guessing
// by frequency alone. Infinite without tokens.
double unigram_entropy(std::span<const uint64_t> counts);

class Watch {
 public:
  Watch(const TrainOptions& options, double unigram_entropy_nats)
      : options_(options), unigram_entropy_(unigram_entropy_nats) {}

  // Steps count from 1. Allocates only to warn.
  void step(int64_t step, double loss, double gradient_norm);
  void skipped(int64_t step, const std::string& why);
  void validation(int64_t step, double loss);  // a second one of the same step is not counted
  void dead_units(int64_t step, std::string_view layer, int64_t dead, int64_t units);
  std::vector<Warning> take_warnings();  // those since the last call

  WatchState state;

 private:
  bool due(WarningKind kind, int64_t step);
  void compare_losses(int64_t step);

  TrainOptions options_;
  double unigram_entropy_;
  std::vector<Warning> warnings_;
};

}  // namespace tril
