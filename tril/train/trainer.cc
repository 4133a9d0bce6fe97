#include "tril/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numbers>

#include "tril/train/tensor_checks.h"
#include "tril/train/training_data.h"

namespace tril {
namespace {

TransformerConfig checked(const TransformerConfig& config, const TrainOptions& options) {
  check_options(options);
  check_use(options.steps > 0 && options.batch > 0 && options.learning_rate > 0,
            "trainer: --steps is {}, --batch {}, --learning-rate {}; all must be positive", options.steps,
            options.batch, options.learning_rate);
  const TransformerConfig resolved = config.resolved();
  check_use(options.context == 0 || options.context == resolved.context,
            "trainer: --context is {}, the model has {}", options.context, resolved.context);
  return resolved;
}

int64_t count_targets(const Batch& batch) {
  if (batch.loss_mask == nullptr) return batch.rows();
  int64_t counted = 0;
  for (int64_t i = 0; i < batch.rows(); ++i) counted += batch.loss_mask[i] != 0;
  return counted;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kDeadUnitsEvery = 20;  // steps

}  // namespace

void check_documents(const TrainOptions& options, const Corpus& corpus) {
  check_use(
      !options.document_mask || corpus.separator() >= 0 || corpus.conversations,
      "--document-mask: no end-of-text token separates documents in this text; give several files, and a "
      "tokenizer that has one");
}

Trainer::Trainer(const TransformerConfig& config, const TrainOptions& options, const Corpus& corpus,
                 Executor& executor)
    : config_(checked(config, options)),
      options_(options),
      corpus_(corpus),
      executor_(executor),
      model_(config_),
      parameters_(model_),
      optimizer_(parameters_, options_),
      session_(model_, executor, options_.batch, config_.context, /*backward=*/true,
               checkpointing_of(options_)),
      watch_(options_, training_entropy(corpus, config_.vocabulary)),
      validation_loss_(kInfinity),
      best_save_loss_(kInfinity) {
  parameters_.initialize(options_.seed, executor);
  optimizer_.start_averages();
  session_.context().training = true;
  session_.context().seed = options_.seed;
  check_documents(options_, corpus_);
  const int32_t separator = options_.document_mask ? corpus_.separator() : -1;
  if (corpus_.conversations) {
    const ConversationCorpus& c = *corpus_.conversations;
    packed_.emplace(*c.train_rows, options_.batch, options_.seed, sampling_of(options_.sampling));
    check_use(c.train_rows->time() == config_.context,
              "trainer: conversations in rows of {}, the context is {}", c.train_rows->time(),
              config_.context);
    if (c.validation_rows) packed_windows_.emplace(*c.validation_rows, options_.batch);
    return;
  }
  if (corpus_.train_size() > 0)
    sampler_.emplace(training_sources(corpus_), WindowOptions{.batch = options_.batch,
                                                              .time = config_.context,
                                                              .seed = options_.seed,
                                                              .end_of_text = separator,
                                                              .sampling = sampling_of(options_.sampling)});
  if (corpus_.validation_size() > 0)
    windows_.emplace(validation_sources(corpus_), options_.batch, config_.context, separator);
}

double Trainer::accumulate(Batch batch, int64_t index, int64_t count, int64_t counted) {
  batch.counted_targets = counted;
  session_.context().step = static_cast<uint64_t>(steps_done_ * count + index);
  model_.forward_backward(session_.context(), batch, session_.state());
  return *session_.state().loss_sum;
}

const Batch& Trainer::training_batch(int64_t micro_batch) {
  const SamplerPosition position{position_.rows + micro_batch * options_.batch};
  return packed_ ? packed_->sample_at(position) : sampler_->sample_at(position);
}

int64_t Trainer::counted_targets() const {
  int64_t counted = 0;
  for (int64_t i = 0; i < options_.accumulate; ++i)
    counted += packed_ ? packed_->counted_at({position_.rows + i * options_.batch})
                       : options_.batch * config_.context;
  return counted;
}

StepReport Trainer::step() {
  check_use(sampler_.has_value() || packed_.has_value(), "trainer: there are no training tokens");
  const auto start = std::chrono::steady_clock::now();
  const int64_t count = options_.accumulate;
  const int64_t counted = counted_targets();
  double loss_sum = 0;
  for (int64_t i = 0; i < count; ++i) loss_sum += accumulate(training_batch(i), i, count, counted);
  StepReport report = finish_step(loss_sum, counted);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

StepReport Trainer::step_on(std::span<const Batch> micro_batches) {
  check_use(std::ssize(micro_batches) == options_.accumulate,
            "trainer: {} micro-batches were given, but a step takes accumulate = {}; give as many",
            micro_batches.size(), options_.accumulate);
  const auto start = std::chrono::steady_clock::now();
  int64_t counted = 0;
  for (const Batch& batch : micro_batches) {
    model_.check_batch(batch);
    counted += count_targets(batch);
  }
  check_use(counted > 0, "trainer: no target counts in the {} batches of this step; check the loss masks",
            micro_batches.size());
  const auto count = static_cast<int64_t>(micro_batches.size());
  double loss_sum = 0;
  for (int64_t i = 0; i < count; ++i)
    loss_sum += accumulate(micro_batches[static_cast<size_t>(i)], i, count, counted);
  StepReport report = finish_step(loss_sum, counted);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

StepReport Trainer::finish_step(double loss_sum, int64_t counted) {
  StepReport report;
  report.loss = loss_sum / static_cast<double>(counted);
  report.gradient_norm = optimizer_.gradient_norm(executor_);
  report.learning_rate = fixed_rate_.value_or(learning_rate_at(options_, steps_done_));
  if (!std::isfinite(report.loss) || !std::isfinite(report.gradient_norm)) {
    skip_step(report);
    return report;
  }
  find_dead_units();
  optimizer_.apply(executor_, steps_done_, report.gradient_norm, report.learning_rate);
  count_step(report);
  watch_.step(report.step, report.loss, report.gradient_norm);
  return report;
}

void Trainer::count_step(StepReport& report) {
  report.step = ++steps_done_;
  position_.rows += options_.accumulate * options_.batch;
}

void Trainer::skip_step(StepReport& report) {
  const std::optional<NonFinite> bad = find_non_finite(executor_, parameters_);
  parameters_.zero_gradients();
  const std::string why =
      fmt::format("loss {}, gradient norm {}; {}", report.loss, report.gradient_norm,
                  bad ? bad->text : "no tensor is at fault: the activations or the norm overflow");
  const bool in_weight = bad && bad->in_weight;
  if (in_weight || watch_.state.skipped_in_a_row >= options_.max_skipped) {
    const std::string skip = in_weight ? ""
                             : options_.max_skipped == 0
                                 ? ", or with --max-skipped 3 if few steps are bad"
                                 : fmt::format("; {} before it were skipped", watch_.state.skipped_in_a_row);
    fail(ErrorKind::kNumerics,
         "step {}: {}. This step was not applied; go on from the last checkpoint with --resume and a lower "
         "--learning-rate or --clip 1, or start anew with them{}",
         steps_done_ + 1, why, skip);
  }
  report.skipped = true;
  count_step(report);
  watch_.skipped(report.step, why);
}

// The weights into a ReLU unit that is active for no token get a gradient of exactly 0.
void Trainer::find_dead_units() {
  if (config_.activation != Activation::kRelu || steps_done_ % kDeadUnitsEvery != 0) return;
  for (const Parameters::Item& item : parameters_.items()) {
    if (!item.info.name.ends_with(".mlp.hidden.weight")) continue;
    const int64_t dead = count_zero_rows(item.weight->gradient);
    watch_.dead_units(steps_done_ + 1, item.info.name, dead, item.info.shape[0]);
  }
}

// In the memory of training: between two steps nothing in it is needed.
double Trainer::evaluate_batch(const Batch& batch) {
  Context context = session_.context();
  context.training = false;
  model_.loss(context, batch, session_.state());
  return *session_.state().loss_sum;
}

Evaluation Trainer::evaluate() {
  check_use(windows_.has_value() || packed_windows_.has_value(),
            "evaluation: there are no validation tokens; give a --val-fraction above 0");
  const int64_t available = packed_windows_ ? packed_windows_->batches() : windows_->batches();
  const int64_t asked = options_.eval_batches == 0 ? available : std::min(options_.eval_batches, available);
  const AveragedWeights averaged = averaged_weights();
  Evaluation out;
  double loss_sum = 0;
  for (int64_t i = 0; i < asked; ++i) {
    const int64_t index = i * available / asked;
    const Batch& batch = packed_windows_ ? packed_windows_->get(index) : windows_->get(index);
    loss_sum += evaluate_batch(batch);
    out.tokens += count_targets(batch);
  }
  out.loss_nats = loss_sum / static_cast<double>(out.tokens);
  // Bytes of the tokens that were looked at, by the average of all validation text.
  const int64_t tokens =
      corpus_.conversations ? corpus_.conversations->validation.learned_tokens : corpus_.validation_size();
  const double bytes_per_token = static_cast<double>(corpus_.validation_bytes) / static_cast<double>(tokens);
  if (bytes_per_token > 0) out.bits_per_byte = out.loss_nats / std::numbers::ln2 / bytes_per_token;
  validation_loss_ = out.loss_nats;
  watch_.validation(steps_done_, out.loss_nats);
  return out;
}

bool Trainer::best_is_unsaved() const {
  return watch_.state.validated_step == steps_done_ && validation_loss_ < best_save_loss_;
}

void Trainer::resume(const Path& checkpoint_folder) {
  const CheckpointState state = read_checkpoint_state(checkpoint_folder);
  const int64_t rows = checked_multiply(state.step, checked_multiply(options_.accumulate, options_.batch));
  const SamplerPosition position = state.position.rows < 0 ? SamplerPosition{rows} : state.position;
  check_use(
      position.rows == rows || sampling_of(options_.sampling) == Sampling::kEpochs,
      "trainer: {} steps of {} rows were done, now --batch {} times --accumulate {} is {}; random windows "
      "go on with steps of the same size alone",
      state.step, state.step > 0 ? position.rows / state.step : 0, options_.batch, options_.accumulate,
      options_.batch * options_.accumulate);
  load_checkpoint(checkpoint_folder, parameters_, optimizer_);
  parameters_.zero_gradients();
  steps_done_ = state.step;
  position_ = position;
  watch_.state = state.watch;
  validation_loss_ = kInfinity;
  best_save_step_ = state.best_save_step;
  best_save_loss_ = state.best_save_loss;
}

void Trainer::start_from(const Parameters& weights) {
  const auto& from = weights.items();
  const auto& to = parameters_.items();
  check_use(from.size() == to.size(), "trainer: the weights to start from are {} tensors, the model's {}",
            from.size(), to.size());
  for (size_t i = 0; i < to.size(); ++i) {
    check_use(from[i].info.name == to[i].info.name && from[i].info.shape == to[i].info.shape,
              "trainer: a tensor to start from is {} {}, the model's is {} {}", from[i].info.name,
              from[i].info.shape.to_string(), to[i].info.name, to[i].info.shape.to_string());
  }
  for (size_t i = 0; i < to.size(); ++i)
    std::copy_n(from[i].weight->value.f32(), from[i].info.shape.elements(), to[i].weight->value.f32());
  optimizer_.start_averages();
}

void Trainer::save(const Path& run, const std::string& options_json) {
  if (const auto bad = find_non_finite(executor_, parameters_, /*gradients_too=*/false)) {
    fail(ErrorKind::kNumerics,
         "step {}: {}; not saved, the older checkpoints stay. Go on from the last one with --resume and a "
         "lower --learning-rate, or start anew with it",
         steps_done_, bad->text);
  }
  const bool best = best_is_unsaved();
  CheckpointState state{.step = steps_done_,
                        .position = position_,
                        .watch = watch_.state,
                        .best_save_step = best ? steps_done_ : best_save_step_,
                        .best_save_loss = best ? validation_loss_ : best_save_loss_,
                        .options_json = options_json};
  save_checkpoint(run, parameters_, optimizer_, state, options_.keep);
  best_save_step_ = state.best_save_step;
  best_save_loss_ = state.best_save_loss;
}

Trainer::Memory Trainer::plan_memory(const TransformerConfig& config, const TrainOptions& options,
                                     int threads) {
  Transformer model(config.resolved());
  const Parameters parameters(model, Parameters::Memory::kDry);
  Memory out;
  out.parameters = parameters.bytes();
  out.gradients = parameters.gradient_bytes();
  const Optimizer::Memory optimizer = Optimizer::plan_memory(parameters, options);
  out.moments = optimizer.moments;
  out.averages = optimizer.averages;
  const SessionBytes bytes = session_bytes(model, threads, options.batch, model.config().context,
                                           /*backward=*/true, checkpointing_of(options));
  out.activations = bytes.saved;
  out.scratch = checked_add(bytes.scratch, optimizer.workspace);
  out.total();  // throws if it does not fit
  return out;
}

int64_t Trainer::Memory::total() const {
  const int64_t weights = checked_add(checked_add(parameters, gradients), checked_add(moments, averages));
  return checked_add(weights, checked_add(activations, scratch));
}

}  // namespace tril
