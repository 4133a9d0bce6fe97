#include "tril/nn/key_value_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tril {
namespace {

constexpr int64_t kFirstSlots = 1024;

}  // namespace

KeyValueCache::KeyValueCache(const TransformerConfig& model, const KeyValueCacheConfig& config, Memory memory)
    : config_(config), memory_(Arena::dry()) {
  const TransformerConfig m = model.resolved();
  if (config_.capacity == 0) config_.capacity = m.context;
  if (config_.largest_append == 0) config_.largest_append = config_.capacity;
  check_use(config_.batch >= 1 && config_.capacity >= 1 && config_.largest_append >= 1,
            "key/value cache: batch {}, capacity {} and largest append {} must be positive", config_.batch,
            config_.capacity, config_.largest_append);
  check_use(config_.dtype == DType::kF32 || config_.dtype == DType::kBF16,
            "key/value cache: {} cannot be stored; use f32 or bf16", dtype_info(config_.dtype).name);
  const bool learned = m.attention.positions == Positions::kLearned;
  check_use(
      !learned || config_.capacity <= m.context,
      "key/value cache: capacity {} is above the context of {}, and the model has no position beyond it",
      config_.capacity, m.context);
  window_ =
      m.attention.window < m.context ? m.attention.window : 0;  // a longer one hides nothing that was trained
  kv_heads_ = m.kv_heads;
  head_size_ = m.head_size;
  endless_ = window_ > 0 && !learned;
  layers_ = m.layers;
  slots_ = config_.capacity;
  if (window_ > 0) {
    const int64_t room = window_ + std::max(window_, config_.largest_append);
    slots_ = endless_ ? room : std::min(slots_, room);
  }
  most_slots_ = slots_;
  if (window_ == 0 && memory == Memory::kReal) slots_ = std::min(slots_, kFirstSlots);
  lengths_.resize(static_cast<size_t>(config_.batch));
  stored_.resize(lengths_.size());
  counts_.resize(lengths_.size());
  memory_ = room_for(slots_, keys_, values_, memory);
}

// L x (B, K, slots, D), twice.
Arena KeyValueCache::room_for(int64_t slots, std::vector<View>& keys, std::vector<View>& values,
                              Memory memory) const {
  const auto plan = [&](Arena& arena) {
    keys.clear(), values.clear();
    for (int64_t l = 0; l < layers_; ++l) {
      for (std::vector<View>* const views : {&keys, &values})
        views->push_back(arena.allocate({config_.batch, kv_heads_, slots, head_size_}, config_.dtype));
    }
  };
  Arena dry = Arena::dry();
  plan(dry);
  if (memory == Memory::kDry) return dry;
  Arena arena(dry.peak());
  plan(arena);
  return arena;
}

void KeyValueCache::enlarge(Executor& executor, int64_t slots) {
  std::vector<View> keys, values;
  Arena memory = room_for(slots, keys, values, Memory::kReal);
  const int64_t row = dtype_bytes(config_.dtype, head_size_);
  executor.run(layers_, [&](int64_t chunk, int) {
    const auto layer = static_cast<size_t>(chunk);
    for (const auto& [from, to] :
         {std::pair{&keys_[layer], &keys[layer]}, {&values_[layer], &values[layer]}}) {
      for (int64_t i = 0; i < config_.batch * kv_heads_; ++i) {
        const int32_t stored = stored_[static_cast<size_t>(i / kv_heads_)];
        std::memcpy(to->data + i * slots * row, from->data + i * slots_ * row,
                    static_cast<size_t>(stored * row));
      }
    }
  });
  keys_ = std::move(keys);
  values_ = std::move(values);
  memory_ = std::move(memory);
  slots_ = slots;
}

void KeyValueCache::clear() {
  for (int64_t b = 0; b < config_.batch; ++b) clear(b);
}

void KeyValueCache::clear(int64_t sequence) {
  lengths_.at(static_cast<size_t>(sequence)) = 0;
  stored_.at(static_cast<size_t>(sequence)) = 0;
}

bool KeyValueCache::truncate(int64_t sequence, int64_t tokens) {
  int64_t& length = lengths_.at(static_cast<size_t>(sequence));
  int32_t& stored = stored_.at(static_cast<size_t>(sequence));
  check_use(tokens >= 0 && tokens <= length, "key/value cache: {} of the {} tokens of sequence {}", tokens,
            length, sequence);
  const int64_t left = stored - (length - tokens),
                seen = window_ > 0 ? std::min(window_ - 1, tokens) : tokens;
  if (left < seen) return false;
  length = tokens;
  stored = static_cast<int32_t>(left);
  return true;
}

void KeyValueCache::grow(Executor& executor, int64_t time, const int32_t* counts) {
  check_use(time >= 1 && time <= config_.largest_append,
            "key/value cache: {} new tokens at a time, but the largest append is {}", time,
            config_.largest_append);
  for (int64_t b = 0; b < config_.batch; ++b) {
    const int64_t count = counts != nullptr ? counts[b] : time;
    check_use(count >= 0 && count <= time, "key/value cache: {} of {} new tokens of sequence {}", count, time,
              b);
    check_use(endless_ || length(b) + count <= config_.capacity,
              "key/value cache: sequence {} has {} tokens and cannot take {} more: the capacity is {}", b,
              length(b), count, config_.capacity);
  }
  int64_t needed = 0;
  for (int64_t b = 0; b < config_.batch; ++b)
    needed = std::max(needed, stored_[static_cast<size_t>(b)] + (counts != nullptr ? counts[b] : time));
  if (needed > slots_ && slots_ < most_slots_)
    enlarge(executor, std::min(most_slots_, std::max(needed, 2 * slots_)));
  for (int64_t b = 0; b < config_.batch; ++b) {
    const auto i = static_cast<size_t>(b);
    counts_[i] = counts != nullptr ? counts[b] : static_cast<int32_t>(time);
    if (stored_[i] + counts_[i] > slots_)
      keep_last(executor, b, window_ - 1);  // what the first new token sees
    lengths_[i] += counts_[i];
    stored_[i] += counts_[i];
  }
}

// Tokens move towards the front of their room; both may overlap.
void KeyValueCache::keep_last(Executor& executor, int64_t sequence, int64_t tokens) {
  int32_t& stored = stored_[static_cast<size_t>(sequence)];
  const int64_t kept = std::min<int64_t>(tokens, stored), row = dtype_bytes(config_.dtype, head_size_);
  const int64_t heads = static_cast<int64_t>(keys_.size()) * kv_heads_;
  executor.run(heads, [&, from = stored - kept](int64_t chunk, int) {
    for (const std::vector<View>* const views : {&keys_, &values_}) {
      const View& view = (*views)[static_cast<size_t>(chunk / kv_heads_)];
      std::byte* const room = view.data + (sequence * kv_heads_ + chunk % kv_heads_) * slots_ * row;
      std::memmove(room, room + from * row, static_cast<size_t>(kept * row));
    }
  });
  stored = static_cast<int32_t>(kept);
}

LayerCache KeyValueCache::layer(int64_t index) const {
  const auto i = static_cast<size_t>(index);
  return {.keys = keys_[i], .values = values_[i], .stored = stored_.data(), .counts = counts_.data()};
}

AppendSession::AppendSession(const Transformer& model, Executor& executor, const KeyValueCache& cache,
                             int64_t time)
    : AppendSession(model, executor, cache.config().batch, time,
                    count(model, executor.threads(), cache, time)) {}

AppendSession::AppendSession(const Transformer& model, Executor& executor, int64_t batch, int64_t time,
                             Bytes bytes)
    : saved_(bytes.saved),
      scratch_(bytes.scratch),
      context_{executor, scratch_},
      state_(model.plan(saved_, batch, time, /*with_backward=*/false)) {}

AppendSession::Bytes AppendSession::count(const Transformer& model, int threads, const KeyValueCache& cache,
                                          int64_t time) {
  Arena saved = Arena::dry(), scratch = Arena::dry();
  DryExecutor executor(threads);
  KeyValueCache dry(model.config(), cache.config(), KeyValueCache::Memory::kDry);
  const int64_t batch = cache.config().batch;
  Transformer::State state = model.plan(saved, batch, time, /*with_backward=*/false);
  Arena logits = Arena::dry();
  model.append(Context{executor, scratch}, {.batch = batch, .time = time}, nullptr, dry, state,
               logits.allocate({batch, model.config().vocabulary}));
  return {saved.peak(), scratch.peak()};
}

}  // namespace tril
