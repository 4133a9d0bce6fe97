#include "tril/text/pretokenizer.h"

#include "tril/base/error.h"
#include "tril/text/pretokenizer_parts.h"
#include "tril/text/unicode_classes.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

constexpr size_t kMostSteps = 16;

// Calls valid(part) or invalid(part) for the parts of a text, in order.
template <class Valid, class Invalid>
void by_validity(std::string_view text, Valid valid, Invalid invalid) {
  while (!text.empty()) {
    const size_t good = first_invalid_utf8(text).value_or(text.size());
    if (good > 0) valid(text.substr(0, good));
    size_t end = good;
    while (end < text.size() && utf8_length(text, end) == 0) ++end;
    if (end > good) invalid(text.substr(good, end - good));
    text.remove_prefix(end);
  }
}

}  // namespace

void PieceSink::check_size(const char* end) const {
  check_use(static_cast<size_t>(end - begin_) <= UINT32_MAX,
            "text: a piece of {} bytes without a break; cut it below 4 GiB", end - begin_);
}

struct Pretokenizer::Impl {
  std::vector<SplitStep> steps;
  std::vector<std::unique_ptr<SplitRegex>> own;  // by step; null for known patterns

  bool digits_next_to_gpt2(size_t step) const {
    return step + 2 == steps.size() && steps[step].pattern == SplitPattern::kDigits &&
           steps[step + 1].pattern == SplitPattern::kGpt2;
  }

  void split(size_t step, std::string_view text, PieceSink& sink) const {
    if (digits_next_to_gpt2(step)) return split_gpt2(text, true, sink);
    if (step + 1 == steps.size()) {
      if (steps[step].pattern == SplitPattern::kGpt2) return split_gpt2(text, false, sink);
      if (own[step] == nullptr) return scan_pieces(steps[step].pattern, text, sink);
      return cut(step, text, [&](const char* end) { sink.add(end); });
    }
    const char* begin = text.data();
    cut(step, text, [&](const char* end) {
      split(step + 1, std::string_view(begin, static_cast<size_t>(end - begin)), sink);
      begin = end;
    });
  }

  template <class Piece>
  void cut(size_t step, std::string_view text, Piece piece) const {
    if (own[step] == nullptr) {
      const char* const end = text.data() + text.size();
      for (const char* at = text.data(); at < end;) {
        at = scan_piece(steps[step].pattern, at, end);
        piece(at);
      }
      return;
    }
    by_validity(
        text, [&](std::string_view part) { own[step]->split(part, piece); },
        [&](std::string_view part) { piece(part.data() + part.size()); });
  }
};

Pretokenizer::Pretokenizer(SplitPattern pattern) : Pretokenizer(std::vector<SplitStep>{{pattern, ""}}) {}

Pretokenizer::Pretokenizer(std::vector<SplitStep> steps) {
  check_use(steps.size() <= kMostSteps, "split: {} patterns one after another, at most {} are taken",
            steps.size(), kMostSteps);
  if (steps.empty()) steps.push_back({SplitPattern::kNone, ""});
  auto impl = std::make_shared<Impl>();
  for (const SplitStep& step : steps) {
    const bool is_own = step.pattern == SplitPattern::kOwn;
    impl->own.push_back(is_own ? std::make_unique<SplitRegex>(step.own) : nullptr);
  }
  impl->steps = std::move(steps);
  impl_ = std::move(impl);
}

void Pretokenizer::split(std::string_view text, FunctionRef<void(std::string_view)> piece) const {
  split_batches(text, [&](const PieceBatch& batch) {
    for (size_t i = 0; i < batch.size(); ++i)
      piece(std::string_view(batch.begin + batch.bounds[i], batch.bounds[i + 1] - batch.bounds[i]));
  });
}

void Pretokenizer::split_batches(std::string_view text, FunctionRef<void(const PieceBatch&)> batch) const {
  PieceSink sink(text.data(), batch);
  impl_->split(0, text, sink);
  sink.flush();
}

size_t Pretokenizer::last_safe_cut(std::string_view text) const {
  bool words = false;  // a pattern that cuts between words, not numbers alone
  for (const SplitStep& step : impl_->steps) {
    if (step.pattern == SplitPattern::kNone || step.pattern == SplitPattern::kOwn) return 0;
    words = words || step.pattern != SplitPattern::kDigits;
  }
  // Behind a letter or number and before white space or punctuation, but no apostrophe, all of these patterns
  // cut, and none of them looks across. kDigits alone cuts behind each number.
  const UnicodeTable& table = UnicodeTable::get();
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  CharClass right = CharClass::kInvalid;  // of the character at `at`
  for (const char* at = end; at > begin;) {
    const char* left = at - 1;
    while (left > begin && at - left < 4 && (*left & 0xC0) == 0x80) --left;
    const Character c = character_at(table, left, end);
    const bool whole = c.kind != CharClass::kInvalid && left + c.length == at;
    const bool number = whole && c.kind == CharClass::kNumber;
    const bool word = whole && (c.kind == CharClass::kUpper || c.kind == CharClass::kLower ||
                                c.kind == CharClass::kLetter || number);
    if (!words && number && at < end) return static_cast<size_t>(at - begin);
    if (words && word && (right == CharClass::kSpace || (right == CharClass::kOther && *at != '\''))) {
      return static_cast<size_t>(at - begin);
    }
    right = whole ? c.kind : CharClass::kInvalid;
    at = whole ? left : at - 1;
  }
  return 0;
}

}  // namespace tril
