// KeyValueCache: the keys and values of the tokens read so far, of every layer, so that the next token costs
// one row.
//
//   KeyValueCache cache(model.config(), {.batch = 2});
//   AppendSession prompt(model, executor, cache, /*time=*/16), next(model, executor, cache, 1);
//   model.append(prompt.context(), prompt_batch, counts, cache, prompt.state(), logits);
//   model.append(next.context(), next_batch, nullptr, cache, next.state(), logits);
//
// Keys are kept as attention reads them: normalised and turned. A model with a sliding window keeps two
// windows of tokens; when the room is full, the last window moves to its front, which costs each token one
// copy of itself. Other models start with room for 1,024 tokens, which doubles up to the capacity as they
// come.
#pragma once

#include <span>
#include <vector>

#include "tril/nn/transformer.h"

namespace tril {

struct KeyValueCacheConfig {
  int64_t batch = 1;           // B sequences, each with a length of its own
  int64_t capacity = 0;        // tokens of a sequence; 0: the model's context
  int64_t largest_append = 0;  // new tokens of a sequence at one time; 0: the capacity
  DType dtype = DType::kF32;   // or kBF16: half the memory, 8 bits of precision
};

class KeyValueCache {
 public:
  enum class Memory { kReal, kDry };  // dry: counting only

  // Throws kUse for sizes that cannot be, and for a capacity above the context of a model with learned
  // positions.
  KeyValueCache(const TransformerConfig& model, const KeyValueCacheConfig& config,
                Memory memory = Memory::kReal);
  KeyValueCache(const KeyValueCache&) = delete;
  KeyValueCache& operator=(const KeyValueCache&) = delete;

  const KeyValueCacheConfig& config() const { return config_; }
  int64_t length(int64_t sequence) const { return lengths_[static_cast<size_t>(sequence)]; }  // tokens so far
  int64_t bytes() const { return memory_.used(); }
  // True if sequences may grow without end: with a window below the context, and positions that are not
  // learned.
  bool endless() const { return endless_; }
  void clear();                  // forgets all sequences
  void clear(int64_t sequence);  // forgets one
  // Forgets all but the first `tokens` of one. False, and nothing is changed, if what the next token would
  // see is no longer there: the window has moved on.
  bool truncate(int64_t sequence, int64_t tokens);

  // For Transformer::append. Makes room for counts[b] new tokens of each sequence, the last ones of `time`
  // (null: all of them), and counts them in. Throws kUse, and changes nothing, if they do not fit.
  void grow(Executor& executor, int64_t time, const int32_t* counts);
  LayerCache layer(int64_t index) const;
  // The position of column t of `time` new ones, after grow(); below 0 for padding.
  int64_t position(int64_t sequence, int64_t time, int64_t t) const { return length(sequence) - time + t; }

 private:
  void keep_last(Executor& executor, int64_t sequence, int64_t tokens);
  void enlarge(Executor& executor, int64_t slots);
  Arena room_for(int64_t slots, std::vector<View>& keys, std::vector<View>& values, Memory memory) const;

  KeyValueCacheConfig config_;
  bool endless_ = false;
  int64_t window_ = 0, kv_heads_ = 0, head_size_ = 0;
  int64_t layers_ = 0;
  int64_t slots_ = 0;             // tokens that a sequence has room for ...
  int64_t most_slots_ = 0;        // ... and will have at most
  std::vector<int64_t> lengths_;  // (B)
  std::vector<int32_t> stored_;   // (B): of them, the last ones that are in the slots
  std::vector<int32_t> counts_;   // (B): of the last grow()
  Arena memory_;
  std::vector<View> keys_, values_;  // L x (B, K, slots, D)
};

// The memory to append (B, T) tokens to a cache of this kind.
class AppendSession {
 public:
  AppendSession(const Transformer& model, Executor& executor, const KeyValueCache& cache, int64_t time);
  AppendSession(const AppendSession&) = delete;
  AppendSession& operator=(const AppendSession&) = delete;
  Context& context() { return context_; }
  Transformer::State& state() { return state_; }

 private:
  struct Bytes {
    int64_t saved, scratch;
  };
  static Bytes count(const Transformer& model, int threads, const KeyValueCache& cache, int64_t time);
  AppendSession(const Transformer& model, Executor& executor, int64_t batch, int64_t time, Bytes bytes);

  Arena saved_, scratch_;
  Context context_;
  Transformer::State state_;
};

}  // namespace tril
