#include "tril/data/sampler.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/base/random.h"
#include "tril/base/sizes.h"
#include "tril/data/permutation.h"

namespace tril {
namespace {

size_t checked_elements(int64_t batch, int64_t time) {
  check_use(batch >= 1 && time >= 1, "batch {} of windows of {} tokens: both must be at least 1", batch,
            time);
  return static_cast<size_t>(checked_multiply(batch, time));
}

void check_window(int64_t tokens, int64_t time) {
  check_use(tokens > time,
            "{} tokens hold no window of {} and the token after it; give more text or a smaller --context",
            tokens, time);
}

std::vector<int64_t> weights_of(const std::vector<WeightedTokens>& sources) {
  std::vector<int64_t> weights;
  for (const WeightedTokens& source : sources) weights.push_back(source.weight);
  return weights;
}

}  // namespace

DocumentMask::DocumentMask(int64_t batch, int64_t time, int32_t end_of_text) : end_of_text_(end_of_text) {
  if (end_of_text < 0) return;
  documents_.resize(checked_elements(batch, time));
  positions_.resize(documents_.size());
}

void DocumentMask::set(Batch& batch) {
  if (end_of_text_ < 0) return;
  for (int64_t n = 0; n < batch.rows(); ++n) {
    const auto i = static_cast<size_t>(n);
    const bool first = n % batch.time == 0, begins = batch.tokens[n] == end_of_text_;
    documents_[i] = first ? 0 : documents_[i - 1] + (begins ? 1 : 0);
    positions_[i] = first || begins ? 0 : positions_[i - 1] + 1;
  }
  batch.documents = documents_.data();
  batch.positions = positions_.data();
}

Sampling sampling_of(std::string_view name) {
  const auto* const found = std::find(std::begin(kSamplingNames), std::end(kSamplingNames), name);
  check_use(found != std::end(kSamplingNames), "--sampling is '{}'; give one of {}", printable(name),
            fmt::join(kSamplingNames, ", "));
  return static_cast<Sampling>(found - std::begin(kSamplingNames));
}

EpochWindows::EpochWindows(int64_t tokens, int64_t time, uint64_t seed, uint64_t source)
    : time_(time), seed_(seed), source_(source) {
  check_use(time >= 1, "windows of {} tokens: give at least 1", time);
  check_window(tokens, time);
  const int64_t targets = tokens - 1;
  count_ = std::max<int64_t>(targets / time - 1, 1);
  offsets_ = targets - count_ * time + 1;
}

int64_t EpochWindows::start(int64_t row) const {
  const RandomStream random(seed_, "epochs", static_cast<uint64_t>(row / count_));
  const Permutation order(count_, random.bits64(2 * source_));
  const uint64_t offset = random.below(2 * source_ + 1, static_cast<uint64_t>(offsets_));
  return static_cast<int64_t>(offset) + order(row % count_) * time_;
}

WindowSampler::WindowSampler(const std::vector<WeightedTokens>& sources, const WindowOptions& options)
    : options_(options),
      mixture_(weights_of(sources)),
      mask_(options.batch, options.time, options.end_of_text) {
  const size_t elements = checked_elements(options.batch, options.time);
  for (const WeightedTokens& source : sources) {
    check_window(source.tokens.size(), options.time);
    if (options.sampling == Sampling::kEpochs)
      epochs_.emplace_back(source.tokens.size(), options.time, options.seed, tokens_.size());
    tokens_.push_back(source.tokens);
  }
  inputs_.resize(elements);
  targets_.resize(elements);
  out_.batch = options.batch;
  out_.time = options.time;
  out_.tokens = inputs_.data();
  out_.targets = targets_.data();
  out_.counted_targets = options.batch * options.time;
}

WindowSampler::WindowSampler(TokenView tokens, int64_t batch, int64_t time, uint64_t seed,
                             int32_t end_of_text)
    : WindowSampler({{tokens, 1}}, {.batch = batch, .time = time, .seed = seed, .end_of_text = end_of_text}) {
}

int64_t WindowSampler::start_of(const Mixture::Row& row, int64_t micro_batch, int64_t batch_row) const {
  if (!epochs_.empty()) return epochs_[row.source].start(row.row);
  const RandomStream random(options_.seed, "windows", static_cast<uint64_t>(micro_batch));
  const auto starts = static_cast<uint64_t>(tokens_[row.source].size() - options_.time);
  return static_cast<int64_t>(random.below(static_cast<uint64_t>(batch_row), starts));
}

const Batch& WindowSampler::sample_at(SamplerPosition position) {
  const int64_t batch = options_.batch, time = options_.time;
  check_use(position.rows >= 0, "window sampler: row {} is negative", position.rows);
  check_use(!epochs_.empty() || position.rows % batch == 0,
            "window sampler: row {} is within a micro-batch of {}; only epochs may begin there",
            position.rows, batch);
  checked_add(position.rows, batch);
  for (int64_t i = 0; i < batch; ++i) {
    const Mixture::Row row = mixture_.at(position.rows + i);
    const int64_t start = start_of(row, position.rows / batch, i);
    tokens_[row.source].copy(start, time, inputs_.data() + i * time);
    tokens_[row.source].copy(start + 1, time, targets_.data() + i * time);
  }
  mask_.set(out_);
  return out_;
}

const Batch& WindowSampler::sample(int64_t step) {
  check_use(step >= 0, "window sampler: step {} is negative", step);
  return sample_at({checked_multiply(step, options_.batch)});
}

SequentialWindows::SequentialWindows(std::vector<TokenView> sources, int64_t batch, int64_t time,
                                     int32_t end_of_text)
    : sources_(std::move(sources)), batch_(batch), time_(time), documents_(batch, time, end_of_text) {
  const size_t elements = checked_elements(batch, time);
  inputs_.resize(elements);
  targets_.resize(elements);
  mask_.resize(elements);
  out_.batch = batch;
  out_.time = time;
  out_.tokens = inputs_.data();
  out_.targets = targets_.data();
}

int64_t SequentialWindows::windows_of(TokenView tokens) const {
  return divide_up(std::max<int64_t>(tokens.size() - 1, 0), time_);
}

int64_t SequentialWindows::batches() const {
  int64_t windows = 0;
  for (const TokenView& tokens : sources_) windows += windows_of(tokens);
  return divide_up(windows, batch_);
}

const Batch& SequentialWindows::get(int64_t index) {
  check_use(index >= 0 && index < batches(), "windows: batch {} of {}", index, batches());
  out_.counted_targets = 0;
  size_t source = 0;
  int64_t window = index * batch_;  // of that source
  for (int64_t row = 0; row < batch_; ++row, ++window) {
    while (source + 1 < sources_.size() && window >= windows_of(sources_[source]))
      window -= windows_of(sources_[source++]);
    const TokenView tokens = sources_[source];
    const int64_t start = window * time_;
    const int64_t length = std::clamp<int64_t>(tokens.size() - 1 - start, 0, time_);
    const auto fill = [&](auto& to, int64_t begin) {
      if (length > 0) tokens.copy(begin, length, to.data() + row * time_);
      std::fill_n(to.begin() + row * time_ + length, time_ - length, 0);
    };
    fill(inputs_, start);
    fill(targets_, start + 1);
    std::fill_n(mask_.begin() + row * time_, length, uint8_t{1});
    std::fill_n(mask_.begin() + row * time_ + length, time_ - length, uint8_t{0});
    out_.counted_targets += length;
  }
  documents_.set(out_);
  out_.loss_mask = out_.counted_targets == batch_ * time_ ? nullptr : mask_.data();
  return out_;
}

}  // namespace tril
