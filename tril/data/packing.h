// Conversations as training reads them: encoded once, packed side by side into rows, each seeing itself
// alone, and learned from where the assistant speaks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tril/data/messages.h"
#include "tril/data/sampler.h"

namespace tril {

// One side of a split.
struct Conversations {
  std::vector<int32_t> tokens;        // of one after another
  std::vector<uint8_t> learned;       // of each token
  std::vector<int64_t> begins = {0};  // of each conversation, and the end
  int64_t learned_tokens = 0, learned_bytes = 0;
  int64_t count() const { return std::ssize(begins) - 1; }
};

// Rows of T tokens: conversations of at most T + 1 tokens, each row filled as far as whole ones fit. The
// longest are placed first, each into the row that it leaves the least room in (best fit, decreasing: Johnson
// 1973).
class PackedRows {
 public:
  PackedRows(const Conversations& conversations, int64_t time);

  int64_t count() const { return std::ssize(begins_) - 1; }
  int64_t time() const { return time_; }
  int64_t counted(int64_t row) const { return counted_[static_cast<size_t>(row)]; }  // targets
  // Writes row `row` to place `at` of a batch. Behind the last conversation stands padding of document -1.
  struct Columns {
    std::vector<int32_t> tokens, targets, documents, positions;  // (B, T)
    std::vector<uint8_t> mask;                                   // (B, T)
    Columns(int64_t batch, int64_t time);
    void describe(Batch& batch) const;
  };
  void fill(int64_t row, int64_t at, Columns& columns) const;

 private:
  const Conversations& conversations_;
  int64_t time_;
  std::vector<int64_t> placed_;   // conversations, row after row
  std::vector<int64_t> begins_;   // of each row in placed_, and the end
  std::vector<int64_t> counted_;  // targets of each row
};

// Both sides, packed, and what became of the rest.
struct ConversationCorpus {
  ConversationCorpus() = default;
  ConversationCorpus(const ConversationCorpus&) = delete;
  Conversations train, validation;
  std::unique_ptr<PackedRows> train_rows, validation_rows;  // null: none
  int64_t cut = 0, cut_tokens = 0;  // conversations longer than the context, and what they lost
  int64_t unanswered = 0;           // conversations left out: nothing that is learned was left of them
  std::string template_name;
  std::string fingerprint;
};

// With fewer than kFewConversations, or if that left one side empty, nothing is for validation; else a
// conversation is if a hash of its text, as a fraction, lies below `validation_fraction`: as documents are
// split. Throws kData naming a conversation that cannot be encoded, and if none is left to train on.
inline constexpr int64_t kFewConversations = 20;
std::shared_ptr<const ConversationCorpus> pack_conversations(
    std::span<const SourceConversation> conversations, const ChatTemplate& chat_template,
    const Tokenizer& tokenizer, double validation_fraction, int64_t context);

// Rows in epochs (each once, in an order of the epoch's own) or at random: a function of seed and position,
// as WindowSampler's.
class PackedSampler {
 public:
  PackedSampler(const PackedRows& rows, int64_t batch, uint64_t seed, Sampling sampling);
  const Batch& sample_at(SamplerPosition position);    // (B, T); valid until the next call
  int64_t counted_at(SamplerPosition position) const;  // targets of that batch

 private:
  int64_t row_of(int64_t number) const;
  const PackedRows& rows_;
  int64_t batch_;
  uint64_t seed_;
  Sampling sampling_;
  PackedRows::Columns columns_;
  Batch out_;
};

// All rows, one after another.
class PackedWindows {
 public:
  PackedWindows(const PackedRows& rows, int64_t batch);
  int64_t batches() const { return divide_up(rows_.count(), batch_); }
  const Batch& get(int64_t index);  // (B, T); valid until the next call; kUse unless 0 <= index < batches()

 private:
  const PackedRows& rows_;
  int64_t batch_;
  PackedRows::Columns columns_;
  Batch out_;
};

}  // namespace tril
