// TextLoss: how well a model predicts documents, each token from what stands before it, with a window that
// moves on by a stride (the sliding window of R. Al-Rfou et al., "Character-level language modeling with
// deeper self-attention", AAAI 2019; bits per byte as in L. Gao et al., "The Pile", 2020, section 3.1).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tril/nn/session.h"

namespace tril {

struct TextLossOptions {
  int64_t context = 0;  // T: tokens of a window; 0: the model's context
  int64_t stride = 0;   // S <= T: a token sees at least T - S before it, where there are as many; 0: T / 2
  int64_t batch = 0;    // rows at a time; 0: about 4,096 tokens
};

class TextLoss {
 public:
  // Throws kUse for a context beyond the model's, or a stride beyond the context. The model must outlive it.
  TextLoss(Transformer& model, Executor& executor, const TextLossOptions& options = {});

  // Goes on with the open document. Its first token is predicted from nothing, so it is only seen; every
  // other one is counted once.
  void add(std::span<const int32_t> tokens);
  void end_document();

  // Computes what waits. The sum of the losses in nats, and the tokens counted; they do not depend on how the
  // documents came in pieces.
  double nats();
  int64_t tokens() const { return tokens_; }
  const TextLossOptions& options() const { return options_; }

 private:
  void window(int64_t length, int64_t first_counted);
  void compute();

  Transformer& model_;
  TextLossOptions options_;
  Session<Transformer> session_;
  std::vector<int32_t> open_;  // of the open document, from the next window on
  int64_t counted_ = 1;        // of open_: tokens before this one are counted already, or never are
  // The batch to come, (B, T): short windows share a row as documents that do not see each other.
  std::vector<int32_t> inputs_, targets_, positions_, documents_;
  std::vector<uint8_t> mask_;
  int64_t row_ = 0, used_ = 0;  // rows that are full, tokens of the next
  int64_t waiting_ = 0;         // targets in the batch
  int64_t tokens_ = 0;
  double nats_ = 0;
};

}  // namespace tril
