#include <algorithm>
#include <bit>
#include <mutex>
#include <unordered_map>

#include "tril/base/error.h"
#include "tril/text/bpe.h"
#include "tril/text/bpe_cache.h"
#include "tril/text/bpe_merge.h"
#include "tril/text/piece_keys.h"

namespace tril {
namespace {

// Pieces of up to 15 bytes that are one token.
class TokenTable {
 public:
  void reserve(size_t count) { entries_.assign(std::bit_ceil(2 * count + 2), Entry()); }
  void put(const PieceKey& key, int32_t id) {
    Entry& entry = entries_[slot_of(key, key.hash())];
    if (entry.key == PieceKey()) entry = {key, id};
  }
  int32_t find(const PieceKey& key, uint64_t hash) const {
    const Entry& entry = entries_[slot_of(key, hash)];
    return entry.key == key ? entry.id : -1;
  }
  void prefetch(uint64_t hash) const { __builtin_prefetch(&entries_[first_slot(hash)]); }

 private:
  struct Entry {
    PieceKey key;
    int32_t id = -1;
  };
  size_t first_slot(uint64_t hash) const { return hash >> 20 & (entries_.size() - 1); }
  size_t slot_of(const PieceKey& key, uint64_t hash) const {
    size_t slot = first_slot(hash);
    while (!(entries_[slot].key == key || entries_[slot].key == PieceKey())) {
      slot = (slot + 1) & (entries_.size() - 1);
    }
    return slot;
  }
  Table<Entry> entries_ = Table<Entry>(2);
};

}  // namespace

struct BpeModel::Impl {
  Merger merger;
  BpeOptions options;
  TokenTable tokens;
  std::unordered_map<std::string, int32_t> long_tokens;  // with whole_pieces: those of more than 15 bytes

  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<BpeEncoder::Impl>> idle;

  Impl(std::span<const std::string> all, const ByteIds& byte_ids, std::span<const Merge> merges,
       BpeOptions from)
      : merger(byte_ids, merges), options(std::move(from)) {
    tokens.reserve(all.size());
    std::array<int32_t, PieceKey::kLongest> ids;
    for (size_t id = 0; id < all.size(); ++id) {
      const std::string& token = all[id];
      if (token.empty()) continue;
      const auto number = static_cast<int32_t>(id);
      if (token.size() > PieceKey::kLongest) {
        if (options.whole_pieces) long_tokens.emplace(token, number);
      } else if (options.whole_pieces || (merger.merge_short(token, ids.data()) == 1 && ids[0] == number)) {
        tokens.put(piece_key(token), number);
      }
    }
  }
};

struct BpeEncoder::Impl {
  explicit Impl(const BpeModel::Impl& from) : model(from) {}

  // Pieces are taken in groups: keys and hashes first, so that the lines of the cache are on their way.
  static constexpr size_t kGroup = PieceKeys::kMost, kRoom = 24;  // kRoom: ids of a piece that fit what waits

  const BpeModel::Impl& model;
  ShortCache short_cache;
  LongCache long_cache;
  static constexpr size_t kWaiting = 4096;
  std::array<int32_t, kWaiting> ids;  // `waiting` of them, to be appended
  size_t waiting = 0;
  int misses = 0;  // pieces of the last group that no cache held
  PieceKeys keys;
  std::array<uint64_t, kGroup> long_hashes;  // of pieces that are too long for a key
  std::vector<int32_t> long_ids;

  void encode(std::string_view text, std::vector<int32_t>& out) {
    const char* const end = text.data() + text.size();
    model.options.pretokenizer.split_batches(text,
                                             [&](const PieceBatch& batch) { encode_batch(batch, end, out); });
  }

  void encode_batch(const PieceBatch& batch, const char* text_end, std::vector<int32_t>& out) {
    static_assert(kGroup * kRoom + ShortCache::kMostIds < kWaiting);
    for (size_t from = 0; from < batch.size(); from += kGroup) {
      const size_t count = std::min(kGroup, batch.size() - from);
      const uint32_t* const bounds = batch.bounds.data() + from;
      make_piece_keys(batch.begin, text_end, bounds, count, keys);
      prefetch(batch.begin, bounds, count);
      if (waiting > kWaiting - kGroup * kRoom - ShortCache::kMostIds) flush(out);
      if (keys.any_long)
        encode_group(batch.begin, bounds, count, out);
      else
        encode_short_group(batch.begin, bounds, count);
    }
    flush(out);
  }

  void prefetch(const char* text, const uint32_t* bounds, size_t count) {
    for (size_t i = 0; i < count; ++i) short_cache.prefetch(keys.hash[i]);
    for (size_t i = 0; keys.any_long && i < count; ++i) {
      const std::string_view piece(text + bounds[i], bounds[i + 1] - bounds[i]);
      if (piece.size() <= PieceKey::kLongest || piece.size() > LongCache::kLongest) continue;
      long_hashes[i] = piece_hash(piece);
      long_cache.prefetch(long_hashes[i]);
    }
    // Few pieces that are new are not worth a look at all of them.
    constexpr int kManyNew = 6;
    const bool many = misses >= kManyNew;
    misses = 0;
    if (many) learn(text, bounds, count);
  }

  // While much is new: what the cache lacks of a group is looked up and merged together beforehand.
  void learn(const char* text, const uint32_t* bounds, size_t count) {
    std::array<uint8_t, kGroup> missing;
    size_t missed = 0;
    for (size_t i = 0; i < count; ++i) {
      if (bounds[i + 1] - bounds[i] > PieceKey::kLongest || short_cache.holds(keys.key(i), keys.hash[i]))
        continue;
      model.tokens.prefetch(keys.hash[i]);
      long_cache.prefetch(keys.hash[i]);
      missing[missed++] = static_cast<uint8_t>(i);
    }
    std::array<std::string_view, kGroup> pieces;
    std::array<Merger::Ids, kGroup> merged;
    size_t merges = 0;
    int fresh = 0;
    for (size_t j = 0; j < missed; ++j) {
      const size_t i = missing[j];
      const std::string_view piece(text + bounds[i], bounds[i + 1] - bounds[i]);
      if (const int32_t id = model.tokens.find(keys.key(i), keys.hash[i]); id >= 0) {
        if (!short_cache.holds(keys.key(i), keys.hash[i])) remember(keys.key(i), keys.hash[i], {&id, 1});
        ++fresh;
      } else if (long_cache.find(piece, keys.hash[i]).empty()) {
        missing[merges] = static_cast<uint8_t>(i);
        pieces[merges++] = piece;
      }
    }
    misses = fresh + static_cast<int>(merges);
    for (size_t j = 0; j < merges; j += Merger::kMostTogether) {
      const size_t n = std::min(Merger::kMostTogether, merges - j);
      model.merger.merge_together(std::span(pieces).subspan(j, n), std::span(merged).subspan(j, n));
    }
    for (size_t j = 0; j < merges; ++j) {
      const size_t i = missing[j];
      const std::span<const int32_t> found(merged[j].ids.data(), merged[j].count);
      if (short_cache.holds(keys.key(i), keys.hash[i])) continue;  // the same piece twice
      if (found.size() <= ShortCache::kMostIds)
        remember(keys.key(i), keys.hash[i], found);
      else if (long_cache.find(pieces[j], keys.hash[i]).empty())
        long_cache.put(pieces[j], keys.hash[i], found);
    }
  }

  // All have keys.
  void encode_short_group(const char* text, const uint32_t* bounds, size_t count) {
    int32_t* next = ids.data() + waiting;
    for (size_t i = 0; i < count; ++i) next += encode_short(text, bounds, i, next);
    waiting = static_cast<size_t>(next - ids.data());
  }

  size_t encode_short(const char* text, const uint32_t* bounds, size_t i, int32_t* to) {
    const PieceKey key = keys.key(i);
    const size_t count = short_cache.find(key, keys.hash[i], to);
    if (count > 0) [[likely]]
      return count;
    return encode_new(std::string_view(text + bounds[i], key.size()), key, keys.hash[i], to);
  }

  void encode_group(const char* text, const uint32_t* bounds, size_t count, std::vector<int32_t>& out) {
    int32_t* next = ids.data() + waiting;
    for (size_t i = 0; i < count; ++i) {
      const size_t size = bounds[i + 1] - bounds[i];
      if (size <= PieceKey::kLongest) {
        next += encode_short(text, bounds, i, next);
        continue;
      }
      const std::span<const int32_t> found =
          encode_long(std::string_view(text + bounds[i], size), long_hashes[i]);
      if (found.size() <= kRoom) [[likely]] {
        for (const int32_t id : found) *next++ = id;
      } else {
        waiting = static_cast<size_t>(next - ids.data());
        flush(out);
        next = ids.data();
        out.insert(out.end(), found.begin(), found.end());
      }
    }
    waiting = static_cast<size_t>(next - ids.data());
  }

  void flush(std::vector<int32_t>& out) {
    out.insert(out.end(), ids.data(), ids.data() + waiting);
    waiting = 0;
  }

  // Valid until the next piece.
  std::span<const int32_t> encode_long(std::string_view piece, uint64_t hash) {
    if (piece.size() <= LongCache::kLongest) return remembered(piece, hash);
    long_ids.clear();
    merge_piece(piece, long_ids);
    return long_ids;
  }

  // A piece of up to 15 bytes that short_cache does not hold.
  [[gnu::noinline]] size_t encode_new(std::string_view piece, const PieceKey& key, uint64_t hash,
                                      int32_t* to) {
    if (const int32_t id = model.tokens.find(key, hash); id >= 0) {
      *to = id;
      remember(key, hash, std::span(to, 1));
      ++misses;
      return 1;
    }
    const std::span<const int32_t> found = remembered(piece, hash);
    std::copy(found.begin(), found.end(), to);
    return found.size();
  }

  std::span<const int32_t> remembered(std::string_view piece, uint64_t hash) {
    const auto found = long_cache.find(piece, hash);
    if (!found.empty()) return found;
    ++misses;
    long_ids.clear();
    merge_piece(piece, long_ids);
    if (piece.size() <= PieceKey::kLongest && long_ids.size() <= ShortCache::kMostIds) {
      remember(piece_key(piece), hash, long_ids);
      return long_ids;
    }
    long_cache.put(piece, hash, long_ids);
    return long_ids;
  }

  // What makes room in the one cache goes to the other, unless the table of tokens has it.
  void remember(const PieceKey& key, uint64_t hash, std::span<const int32_t> of_piece) {
    const ShortCache::Entry old = short_cache.put(key, hash, of_piece);
    if (old.key == PieceKey() || old.count() == 1) return;
    std::array<int32_t, ShortCache::kMostIds> of_old;
    ShortCache::copy_ids(old, of_old.data());
    long_cache.put(old.key.bytes(), old.key.hash(), std::span(of_old).first(old.count()));
  }

  void merge_piece(std::string_view piece, std::vector<int32_t>& to) {
    if (model.options.whole_pieces) {
      const auto found = model.long_tokens.find(std::string(piece));
      if (found != model.long_tokens.end()) return to.push_back(found->second);
    }
    model.merger.merge(piece, to);
  }
};

BpeModel::BpeModel(std::span<const std::string> tokens, const ByteIds& byte_ids,
                   std::span<const Merge> merges, BpeOptions options)
    : impl_(std::make_unique<Impl>(tokens, byte_ids, merges, std::move(options))) {}
BpeModel::BpeModel(BpeModel&&) noexcept = default;
BpeModel& BpeModel::operator=(BpeModel&&) noexcept = default;
BpeModel::~BpeModel() = default;

const Pretokenizer& BpeModel::pretokenizer() const { return impl_->options.pretokenizer; }

BpeEncoder::BpeEncoder(const BpeModel& model) : impl_(std::make_unique<Impl>(*model.impl_)) {}
BpeEncoder::BpeEncoder(BpeEncoder&&) noexcept = default;
BpeEncoder::~BpeEncoder() = default;

void BpeEncoder::encode(std::string_view text, std::vector<int32_t>& out) { impl_->encode(text, out); }

void BpeModel::encode(std::string_view text, std::vector<int32_t>& out) const {
  std::unique_ptr<BpeEncoder::Impl> encoder;
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->idle.empty()) {
      encoder = std::move(impl_->idle.back());
      impl_->idle.pop_back();
    }
  }
  if (encoder == nullptr) encoder = std::make_unique<BpeEncoder::Impl>(*impl_);
  encoder->encode(text, out);
  const std::lock_guard lock(impl_->mutex);
  impl_->idle.push_back(std::move(encoder));
}

void BpeStream::push(std::string_view block, std::vector<int32_t>& out) {
  pending_.append(block);
  if (pending_.size() < 2 * uncut_) return;  // so that each byte is looked at a few times
  const size_t cut = model_.pretokenizer().last_safe_cut(pending_);
  uncut_ = cut == 0 ? pending_.size() : 0;
  if (cut == 0) return;
  model_.encode(std::string_view(pending_).substr(0, cut), out);
  pending_.erase(0, cut);
}

void BpeStream::finish(std::vector<int32_t>& out) {
  model_.encode(pending_, out);
  pending_.clear();
  uncut_ = 0;
}

}  // namespace tril
