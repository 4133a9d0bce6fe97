// Which windows of T + 1 tokens a training step reads: at random, or each once an epoch, of one source or of
// several in given proportions. It is a function of the seed and the number of rows read before, so that a
// resumed run reads the very next batch; nothing is kept that grows with the data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tril/data/mixture.h"
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

enum class Sampling {
  kRandom,  // any start, drawn anew for each row of each micro-batch
  kEpochs   // windows side by side, in an order of each epoch's own; row after row, whatever the batch
};
inline constexpr std::string_view kSamplingNames[] = {"random", "epochs"};
Sampling sampling_of(std::string_view name);  // throws kUse listing the names

// Where a run stands in its data: all that a checkpoint keeps of it.
struct SamplerPosition {
  int64_t rows = 0;  // windows read before
};

struct WeightedTokens {
  TokenView tokens;
  int64_t weight = 1;
};

struct WindowOptions {
  int64_t batch = 0, time = 0;
  uint64_t seed = 1;
  int32_t end_of_text = -1;  // >= 0: the batches say which document a token belongs to
  Sampling sampling = Sampling::kRandom;
};

// The windows of one source in epochs. Those of an epoch stand side by side, T apart, from an offset that is
// drawn for it, and are visited in the order of a Permutation. A window less than fits leaves the offset T
// places or more (one window alone: what there is), so every token is a target in some epoch.
class EpochWindows {
 public:
  // `source` tells sources of one seed apart. Throws kUse unless time is positive and tokens > time.
  EpochWindows(int64_t tokens, int64_t time, uint64_t seed, uint64_t source = 0);
  int64_t count() const { return count_; }  // windows of an epoch
  int64_t start(int64_t row) const;         // row = epoch * count() + place in its order

 private:
  int64_t time_, count_, offsets_;
  uint64_t seed_, source_;
};

class WindowSampler {
 public:
  // Throws kUse unless batch and time are positive and every source has more tokens than `time`. The tokens
  // must outlive the sampler.
  WindowSampler(const std::vector<WeightedTokens>& sources, const WindowOptions& options);
  // Random windows of one source.
  WindowSampler(TokenView tokens, int64_t batch, int64_t time, uint64_t seed, int32_t end_of_text = -1);

  // The batch (B, T) of the rows from a position on; valid until the next call. Throws kUse if it is negative
  // or, of random windows, within a micro-batch.
  const Batch& sample_at(SamplerPosition position);
  // That of a micro-batch number, all before it having had this size. Throws kUse if it is negative.
  const Batch& sample(int64_t step);

 private:
  int64_t start_of(const Mixture::Row& row, int64_t micro_batch, int64_t batch_row) const;

  WindowOptions options_;
  Mixture mixture_;
  std::vector<TokenView> tokens_;
  std::vector<EpochWindows> epochs_;  // of each source; none of random windows
  std::vector<int32_t> inputs_, targets_;
  DocumentMask mask_;
  Batch out_;
};

// Windows one after another with stride T, for evaluation: every token is a target once, but the first of a
// source. The last, shorter window of a source is padded and masked.
class SequentialWindows {
 public:
  // Throws kUse unless batch and time are positive. The tokens must outlive the windows.
  SequentialWindows(std::vector<TokenView> sources, int64_t batch, int64_t time, int32_t end_of_text = -1);
  SequentialWindows(TokenView tokens, int64_t batch, int64_t time, int32_t end_of_text = -1)
      : SequentialWindows(std::vector<TokenView>{tokens}, batch, time, end_of_text) {}
  int64_t batches() const;
  const Batch& get(int64_t index);  // (B, T); valid until the next call; kUse unless 0 <= index < batches()

 private:
  int64_t windows_of(TokenView tokens) const;
  std::vector<TokenView> sources_;
  int64_t batch_, time_;
  std::vector<int32_t> inputs_, targets_;
  std::vector<uint8_t> mask_;
  DocumentMask documents_;
  Batch out_;
};

}  // namespace tril
