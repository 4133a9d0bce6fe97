#include "tril/data/sampler.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/sizes.h"

namespace tril {
namespace {

size_t checked_elements(int64_t batch, int64_t time) {
  check_use(batch >= 1 && time >= 1, "batch {} of windows of {} tokens: both must be at least 1", batch,
            time);
  return static_cast<size_t>(checked_multiply(batch, time));
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

WindowSampler::WindowSampler(TokenView tokens, int64_t batch, int64_t time, uint64_t seed,
                             int32_t end_of_text)
    : tokens_(tokens), batch_(batch), time_(time), seed_(seed), mask_(batch, time, end_of_text) {
  const size_t elements = checked_elements(batch, time);
  check_use(tokens.size() > time,
            "{} tokens hold no window of {} and the token after it; give more text or a smaller --context",
            tokens.size(), time);
  inputs_.resize(elements);
  targets_.resize(elements);
  out_.batch = batch;
  out_.time = time;
  out_.tokens = inputs_.data();
  out_.targets = targets_.data();
  out_.counted_targets = batch * time;
}

const Batch& WindowSampler::sample(int64_t step) {
  check_use(step >= 0, "window sampler: step {} is negative", step);
  const auto starts = static_cast<uint64_t>(tokens_.size() - time_);
  const RandomStream random(seed_, "windows", static_cast<uint64_t>(step));
  for (int64_t row = 0; row < batch_; ++row) {
    const auto start = static_cast<int64_t>(random.below(static_cast<uint64_t>(row), starts));
    tokens_.copy(start, time_, inputs_.data() + row * time_);
    tokens_.copy(start + 1, time_, targets_.data() + row * time_);
  }
  mask_.set(out_);
  return out_;
}

SequentialWindows::SequentialWindows(TokenView tokens, int64_t batch, int64_t time, int32_t end_of_text)
    : tokens_(tokens), batch_(batch), time_(time), documents_(batch, time, end_of_text) {
  const size_t elements = checked_elements(batch, time);
  inputs_.resize(elements);
  targets_.resize(elements);
  mask_.resize(elements);
  out_.batch = batch;
  out_.time = time;
  out_.tokens = inputs_.data();
  out_.targets = targets_.data();
}

int64_t SequentialWindows::batches() const {
  const int64_t targets = std::max<int64_t>(tokens_.size() - 1, 0);
  return divide_up(divide_up(targets, time_), batch_);
}

const Batch& SequentialWindows::get(int64_t index) {
  check_use(index >= 0 && index < batches(), "windows: batch {} of {}", index, batches());
  const int64_t targets = tokens_.size() - 1;
  out_.counted_targets = 0;
  for (int64_t row = 0; row < batch_; ++row) {
    const int64_t start = (index * batch_ + row) * time_;
    const int64_t length = std::clamp<int64_t>(targets - start, 0, time_);
    const auto fill = [&](auto& to, int64_t begin) {
      if (length > 0) tokens_.copy(begin, length, to.data() + row * time_);
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
