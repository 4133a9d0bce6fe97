#include "tril/train/text_loss.h"

#include <algorithm>

#include "tril/base/error.h"

namespace tril {
namespace {

// More at a time is no faster.
constexpr int64_t kMostTokens = int64_t{1} << 16;

TextLossOptions resolved(TextLossOptions o, const TransformerConfig& config) {
  if (o.context == 0) o.context = config.context;
  check_use(o.context >= 1 && o.context <= config.context,
            "evaluation: a context of {} tokens; give one from 1 to the model's {}", o.context,
            config.context);
  if (o.stride == 0) o.stride = std::max<int64_t>(o.context / 2, 1);
  check_use(o.stride >= 1 && o.stride <= o.context,
            "evaluation: a stride of {} tokens; give one from 1 to the context of {}", o.stride, o.context);
  if (o.batch == 0) o.batch = std::max<int64_t>(4096 / o.context, 1);
  check_use(o.batch >= 1 && o.batch <= std::max<int64_t>(kMostTokens / o.context, 1),
            "evaluation: a batch of {} windows of {} tokens; give 1 to {}", o.batch, o.context,
            std::max<int64_t>(kMostTokens / o.context, 1));
  return o;
}

}  // namespace

TextLoss::TextLoss(Transformer& model, Executor& executor, const TextLossOptions& options)
    : model_(model),
      options_(resolved(options, model.config())),
      session_(model, executor, options_.batch, options_.context, /*backward=*/false) {
  const auto rows = static_cast<size_t>(checked_multiply(options_.batch, options_.context));
  inputs_.resize(rows);
  targets_.resize(rows);
  positions_.resize(rows);
  documents_.assign(rows, -1);
  mask_.resize(rows);
  session_.context().training = false;
}

void TextLoss::add(std::span<const int32_t> tokens) {
  while (!tokens.empty()) {
    const size_t room = static_cast<size_t>(options_.context + 1) - open_.size();
    const size_t here = std::min(room, tokens.size());
    open_.insert(open_.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(here));
    tokens = tokens.subspan(here);
    if (static_cast<int64_t>(open_.size()) <= options_.context) return;
    window(options_.context, counted_);
    open_.erase(open_.begin(), open_.begin() + options_.stride);
    counted_ = options_.context + 1 - options_.stride;
  }
}

void TextLoss::end_document() {
  const auto length = static_cast<int64_t>(open_.size());
  if (length > counted_) window(length - 1, counted_);
  open_.clear();
  counted_ = 1;
}

// The first `length` of open_ as inputs, each with the next one as its target, of which those from
// `first_counted` on count.
void TextLoss::window(int64_t length, int64_t first_counted) {
  if (used_ + length > options_.context) {
    ++row_;
    used_ = 0;
    if (row_ == options_.batch) compute();
  }
  const int64_t at = row_ * options_.context + used_;
  for (int64_t i = 0; i < length; ++i) {
    inputs_[at + i] = open_[i];
    targets_[at + i] = open_[i + 1];
    positions_[at + i] = static_cast<int32_t>(i);
    documents_[at + i] = static_cast<int32_t>(used_);
    mask_[at + i] = i + 1 >= first_counted;
  }
  used_ += length;
  waiting_ += length + 1 - first_counted;
}

void TextLoss::compute() {
  if (waiting_ > 0) {
    const Batch batch{.batch = options_.batch,
                      .time = options_.context,
                      .tokens = inputs_.data(),
                      .targets = targets_.data(),
                      .positions = positions_.data(),
                      .documents = documents_.data(),
                      .loss_mask = mask_.data(),
                      .counted_targets = waiting_};
    model_.check_batch(batch);
    model_.loss(session_.context(), batch, session_.state());
    nats_ += *session_.state().loss_sum;
    tokens_ += waiting_;
  }
  std::fill(documents_.begin(), documents_.end(), -1);
  std::fill(mask_.begin(), mask_.end(), uint8_t{0});
  row_ = used_ = waiting_ = 0;
}

double TextLoss::nats() {
  compute();
  return nats_;
}

}  // namespace tril
