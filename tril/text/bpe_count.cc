#include "tril/text/bpe_count.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/text/piece_keys.h"

namespace tril {

void PieceCounts::count(const Pretokenizer& pretokenizer, std::string_view text) {
  const char* const text_end = text.data() + text.size();
  PieceKeys keys;
  pretokenizer.split_batches(text, [&](const PieceBatch& batch) {
    // Keys and hashes first, so that the lines of the table are on their way.
    for (size_t from = 0; from < batch.size(); from += PieceKeys::kMost) {
      const size_t count = std::min(PieceKeys::kMost, batch.size() - from);
      const uint32_t* const bounds = batch.bounds.data() + from;
      make_piece_keys(batch.begin, text_end, bounds, count, keys);
      for (size_t i = 0; i < count; ++i) __builtin_prefetch(&short_[keys.hash[i] & (short_.size() - 1)]);
      for (size_t i = 0; i < count; ++i) {
        const size_t size = bounds[i + 1] - bounds[i];
        if (size <= PieceKey::kLongest)
          add_short(keys.key(i), keys.hash[i], 1);
        else
          add_long(std::string_view(batch.begin + bounds[i], size), 1);
      }
    }
  });
}

void PieceCounts::add(std::string_view piece, int64_t times) {
  if (piece.size() > PieceKey::kLongest) return add_long(piece, times);
  const PieceKey key = piece_key(piece);
  add_short(key, key.hash(), times);
}

void PieceCounts::add(const PieceCounts& other) {
  other.each([&](std::string_view piece, int64_t times) { add(piece, times); });
}

void PieceCounts::add_new(const PieceKey& key, uint64_t hash, int64_t times) {
  const auto place = [&](const Short& entry, uint64_t entry_hash) {
    size_t slot = entry_hash & (short_.size() - 1);
    while (!(short_[slot].key == PieceKey())) slot = (slot + 1) & (short_.size() - 1);
    short_[slot] = entry;
  };
  if (++short_used_ > short_.size() / 2) {
    std::vector<Short> old(2 * short_.size());
    old.swap(short_);
    for (const Short& entry : old) {
      if (!(entry.key == PieceKey())) place(entry, entry.key.hash());
    }
  }
  place({key, times}, hash);
}

void PieceCounts::add_long(std::string_view piece, int64_t times) {
  const uint64_t hash = piece_hash(piece);
  size_t slot = hash & (long_slots_.size() - 1);
  for (; long_slots_[slot] != 0; slot = (slot + 1) & (long_slots_.size() - 1)) {
    Long& known = long_[long_slots_[slot] - 1];
    if (known.hash != hash || bytes_of(known) != piece) continue;
    known.times += times;
    return;
  }
  check_use(long_.size() < UINT32_MAX - 1, "bpe: more than {} different long pieces; train on less text",
            long_.size());
  long_.push_back({hash, bytes_.size(), piece.size(), times});
  bytes_.insert(bytes_.end(), piece.begin(), piece.end());
  long_slots_[slot] = static_cast<uint32_t>(long_.size());
  if (long_.size() <= long_slots_.size() / 2) return;
  long_slots_.assign(2 * long_slots_.size(), 0);
  for (size_t i = 0; i < long_.size(); ++i) {
    size_t place = long_[i].hash & (long_slots_.size() - 1);
    while (long_slots_[place] != 0) place = (place + 1) & (long_slots_.size() - 1);
    long_slots_[place] = static_cast<uint32_t>(i + 1);
  }
}

void PieceCounts::keep_at_least(int64_t times) {
  PieceCounts kept;
  each([&](std::string_view piece, int64_t count) {
    if (count >= times) kept.add(piece, count);
  });
  *this = std::move(kept);
}

void PieceCounts::each(FunctionRef<void(std::string_view, int64_t)> visit) const {
  for (const Short& entry : short_) {
    if (!(entry.key == PieceKey())) visit(entry.key.bytes(), entry.times);
  }
  for (const Long& piece : long_) visit(bytes_of(piece), piece.times);
}

}  // namespace tril
