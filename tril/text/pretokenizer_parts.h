// The parts of the pre-tokenizer: code for the known patterns, and PCRE2.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tril/text/pretokenizer.h"

namespace tril {

// Collects the ends of pieces and hands them on in batches.
class PieceSink {
 public:
  static constexpr size_t kBatch = 4096;
  PieceSink(const char* begin, FunctionRef<void(const PieceBatch&)> batch) : begin_(begin), batch_(batch) {
    bounds_[0] = 0;
  }

  void add(const char* end) {
    const auto offset = static_cast<size_t>(end - begin_);
    if (count_ == kBatch || offset > kFar) {
      flush();
      check_size(end);
    }
    bounds_[++count_] = static_cast<uint32_t>(end - begin_);
    last_ = end;
  }
  void flush() {
    if (count_ > 0) batch_({begin_, std::span(bounds_.data(), count_ + 1)});
    if (count_ > 0) begin_ = last_;
    count_ = 0;
  }
  // Room for `most` ends from begin(), at least 1 and at most kBatch of them; then added(how many).
  uint32_t* room(size_t most) {
    if (count_ + most > kBatch || (count_ > 0 && static_cast<size_t>(last_ - begin_) > kFar)) flush();
    return bounds_.data() + 1 + count_;
  }
  const char* begin() const { return begin_; }
  void added(size_t count) {
    count_ += count;
    if (count > 0) last_ = begin_ + bounds_[count_];
  }

 private:
  static constexpr size_t kFar = size_t{1} << 31;
  void check_size(const char* end) const;

  const char* begin_;
  const char* last_ = nullptr;
  FunctionRef<void(const PieceBatch&)> batch_;
  size_t count_ = 0;
  std::array<uint32_t, kBatch + 1> bounds_;  // the first is 0
};

// Cuts one text with a known pattern, character by character. Also what the faster code asks where it cannot
// decide: the end of the piece that starts at `at`.
const char* scan_piece(SplitPattern pattern, const char* at, const char* end);

void scan_pieces(SplitPattern pattern, std::string_view text, PieceSink& sink);

// GPT-2's pattern, 64 bytes at a time; `digits`: after the step kDigits. And one piece of it.
void split_gpt2(std::string_view text, bool digits, PieceSink& sink);
const char* scan_gpt2_piece(const char* at, const char* end, bool digits);

// A compiled expression. Thread-safe.
class SplitRegex {
 public:
  explicit SplitRegex(std::string_view expression);  // throws kUse
  ~SplitRegex();
  SplitRegex(const SplitRegex&) = delete;
  SplitRegex& operator=(const SplitRegex&) = delete;
  // Matches, and what is between them. `text` is valid UTF-8.
  void split(std::string_view text, FunctionRef<void(const char* end)> piece) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace tril
