// Trainer: one optimizer step after another, evaluation, checkpoints. Prints nothing; the caller owns the
// loop.
//
//   Trainer trainer(config, options, corpus, pool);
//   while (trainer.steps_done() < options.steps) trainer.step();
#pragma once

#include <optional>
#include <span>

#include "tril/data/documents.h"
#include "tril/data/sampler.h"
#include "tril/nn/session.h"
#include "tril/train/checkpoint.h"
#include "tril/train/optimizer.h"

namespace tril {

// Sums of a loss over validation data.
struct Evaluation {
  double loss_nats = 0;      // mean per token
  double bits_per_byte = 0;  // loss * tokens / bytes / ln 2
  int64_t tokens = 0;
};

struct StepReport {
  int64_t step = 0;  // steps done, from 1
  double loss = 0;   // mean over the step's targets, nats
  double gradient_norm = 0;
  float learning_rate = 0;
  double seconds = 0;    // of this step
  bool skipped = false;  // loss or gradients were not finite; the weights are those of the step before
  std::optional<Evaluation> validation;
};

// Throws kUse if the options ask for a document mask and nothing separates the documents of the corpus.
void check_documents(const TrainOptions& options, const Corpus& corpus);

class Trainer {
 public:
  // `options` must be resolved (no zeros). The model's shape is `config`. The corpus must outlive the
  // trainer.
  Trainer(const TransformerConfig& config, const TrainOptions& options, const Corpus& corpus,
          Executor& executor);

  // One optimizer step (accumulate micro-batches). When loss or gradients are not finite the step is not
  // applied: it is skipped, if no more than `max_skipped` in a row are; else kNumerics is thrown, with step,
  // first bad tensor and its statistics. Non-finite weights are thrown at once.
  // Takes the rows of text after those of all steps before: a resumed run reads the next ones. Allocates
  // nothing after the first.
  StepReport step();
  // The mean loss over `eval_batches` batches of validation windows, evenly spread (0: all of them); the same
  // ones every time. With --ema of the averaged weights. Throws kUse without validation tokens. The first one
  // of a step counts for the best validation loss and for --patience.
  Evaluation evaluate();
  // As step(), with the caller's batches instead of the sampler's, each (B, T) of the options. The loss is
  // the mean over all counted targets of all of them; the batches' own `counted_targets` are not used.
  // Throws kUse unless there are `accumulate` of them. The sampler's rows of this step are passed over.
  StepReport step_on(std::span<const Batch> micro_batches);

  // The learning rate of the steps from here on, in place of the schedule's; nothing: the schedule's again.
  void set_learning_rate(std::optional<float> rate) { fixed_rate_ = rate; }

  int64_t steps_done() const { return steps_done_; }
  Transformer& model() { return model_; }
  Parameters& parameters() { return parameters_; }
  Optimizer& optimizer() { return optimizer_; }
  // While it lives the model's weights are the averages of --ema, as in evaluate(): to sample from the model
  // and to save it. Without --ema it does nothing.
  AveragedWeights averaged_weights() { return AveragedWeights(optimizer_, steps_done_ > 0); }
  const WatchState& watch() const { return watch_.state; }
  std::vector<Warning> take_warnings() { return watch_.take_warnings(); }  // those since the last call
  // The validation of this step is lower than those of all saves.
  bool best_is_unsaved() const;
  // Sets steps_done too, and where the text is read on. Throws kUse if the windows are random and the steps
  // were of another size: only epochs have an order that can be kept.
  void resume(const Path& checkpoint_folder);
  // Starts from the weights of another model of the same shape. Throws kUse naming the first that differs.
  void start_from(const Parameters& weights);
  // Throws kNumerics, and writes nothing, if a weight is not finite.
  void save(const Path& run, const std::string& options_json);

  struct Memory {  // bytes
    int64_t parameters = 0, gradients = 0, moments = 0, averages = 0, activations = 0, scratch = 0;
    int64_t total() const;
  };
  // What a run will take, counted dry: nothing is allocated. Throws kUse where a sum does not fit 64 bits.
  static Memory plan_memory(const TransformerConfig& config, const TrainOptions& options, int threads);

 private:
  const Batch& training_batch(int64_t micro_batch);
  int64_t counted_targets() const;  // of the step that comes
  // One micro-batch of a step: its share of the gradients. Returns its sum of losses.
  double accumulate(Batch batch, int64_t index, int64_t count, int64_t counted);
  StepReport finish_step(double loss_sum, int64_t counted);
  void count_step(StepReport& report);
  void skip_step(StepReport& report);
  void find_dead_units();
  double evaluate_batch(const Batch& batch);

  TransformerConfig config_;
  TrainOptions options_;
  const Corpus& corpus_;
  Executor& executor_;
  Transformer model_;
  Parameters parameters_;
  Optimizer optimizer_;
  Session<Transformer> session_;
  std::optional<WindowSampler> sampler_;  // none without training tokens
  std::optional<SequentialWindows> windows_;
  std::optional<float> fixed_rate_;
  std::optional<PackedSampler> packed_;  // of conversations, in place of sampler_ and windows_
  std::optional<PackedWindows> packed_windows_;
  int64_t steps_done_ = 0;
  SamplerPosition position_;
  Watch watch_;
  double validation_loss_;  // of the last evaluation
  int64_t best_save_step_ = -1;
  double best_save_loss_;
};

}  // namespace tril
