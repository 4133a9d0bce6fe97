// WindowSampler: random windows of T + 1 tokens. Which windows a step reads is a function of (seed, step,
// row) alone, so a resumed run reads the very next batch.
#pragma once

#include <cstdint>
#include <vector>

#include "tril/base/random.h"
#include "tril/data/token_view.h"
#include "tril/tensor/batch.h"

namespace tril {

// The documents of windows (B, T): ids that rise at each end-of-text token, and positions that start again
// there. The token stands before the document that follows, at position 0, as it does when a model generates
// from nothing.
class DocumentMask {
 public:
  // Empty, and set() does nothing, if end_of_text < 0.
  DocumentMask(int64_t batch, int64_t time, int32_t end_of_text);
  void set(Batch& batch);  // from its tokens

 private:
  int32_t end_of_text_;
  std::vector<int32_t> documents_, positions_;
};

class WindowSampler {
 public:
  // With end_of_text >= 0 the batches say which document a token belongs to. Throws kUse unless batch and
  // time are positive and tokens.size() > time. The tokens must outlive the sampler.
  WindowSampler(TokenView tokens, int64_t batch, int64_t time, uint64_t seed, int32_t end_of_text = -1);

  // The batch (B, T) of this micro-batch number; valid until the next call. Throws kUse if it is negative.
  const Batch& sample(int64_t step);

 private:
  TokenView tokens_;
  int64_t batch_, time_;
  uint64_t seed_;
  std::vector<int32_t> inputs_, targets_;
  DocumentMask mask_;
  Batch out_;
};

// Windows one after another with stride T, for evaluation: every token is a target once. The last, shorter
// window is padded and masked.
class SequentialWindows {
 public:
  // Throws kUse unless batch and time are positive. The tokens must outlive the windows.
  SequentialWindows(TokenView tokens, int64_t batch, int64_t time, int32_t end_of_text = -1);
  int64_t batches() const;
  const Batch& get(int64_t index);  // (B, T); valid until the next call; kUse unless 0 <= index < batches()

 private:
  TokenView tokens_;
  int64_t batch_, time_;
  std::vector<int32_t> inputs_, targets_;
  std::vector<uint8_t> mask_;
  DocumentMask documents_;
  Batch out_;
};

}  // namespace tril
