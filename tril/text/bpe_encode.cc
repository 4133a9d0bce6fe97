#include <algorithm>
#include <bit>
#include <mutex>
#include <unordered_map>

#include "tril/base/error.h"
#include "tril/text/bpe.h"
#include "tril/text/bpe_cache.h"
#include "tril/text/bpe_merge.h"
#include "tril/text/piece_key.h"

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
  std::vector<Entry> entries_ = std::vector<Entry>(2);
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
  static constexpr size_t kGroup = 32, kRoom = 64;  // kRoom: ids of a piece that fit what waits
  struct Prepared {  // of a piece that no memory takes, what an earlier piece left: nothing asks for it
    PieceKey key;
    uint64_t hash = 0;
  };

  const BpeModel::Impl& model;
  ShortCache short_cache;
  LongCache long_cache;
  static constexpr size_t kWaiting = 4096;
  std::array<int32_t, kWaiting> ids;  // `waiting` of them, to be appended
  size_t waiting = 0;
  int misses = 0;  // of short_cache, in the last groups
  std::array<Prepared, kGroup> prepared;
  std::vector<int32_t> long_ids;

  void encode(std::string_view text, std::vector<int32_t>& out) {
    const char* const end = text.data() + text.size();
    model.options.pretokenizer.split_batches(text,
                                             [&](const PieceBatch& batch) { encode_batch(batch, end, out); });
  }

  void encode_batch(const PieceBatch& batch, const char* text_end, std::vector<int32_t>& out) {
    const char* at = batch.begin;
    uint32_t begin = 0;
    for (size_t group = 0; group < batch.ends.size(); group += kGroup) {
      const auto ends = batch.ends.subspan(group, std::min(kGroup, batch.ends.size() - group));
      prepare(batch.begin, begin, ends, text_end);
      at = encode_group(at, begin, ends, out);
      begin = ends.back();
    }
    flush(out);
  }

  void prepare(const char* from, uint32_t begin, std::span<const uint32_t> ends, const char* text_end) {
    Prepared* to = prepared.data();
    const bool readable = text_end - (from + ends.back()) >= 16;  // 16 bytes from any of them
    for (const uint32_t end : ends) {
      const char* const at = from + begin;
      const size_t size = end - begin;
      if (size <= PieceKey::kLongest) [[likely]] {
        to->key = readable ? piece_key(at, size) : piece_key_at_end(at, size);
        to->hash = to->key.hash();
        short_cache.prefetch(to->hash);
      } else if (size <= LongCache::kLongest) {
        to->hash = piece_hash(std::string_view(at, size));
        long_cache.prefetch(to->hash);
      }
      begin = end;
      ++to;
    }
    if (misses < 2) return;
    // While much is new, what will be asked for next is sent for as well.
    misses = 0;
    for (const Prepared* piece = prepared.data(); piece != to; ++piece) {
      if (!short_cache.holds(piece->key, piece->hash)) model.tokens.prefetch(piece->hash);
    }
  }

  const char* encode_group(const char* at, uint32_t begin, std::span<const uint32_t> ends,
                           std::vector<int32_t>& out) {
    static_assert(kGroup * kRoom + ShortCache::kMostIds < kWaiting);
    if (waiting > kWaiting - kGroup * kRoom - ShortCache::kMostIds) flush(out);
    int32_t* next = ids.data() + waiting;
    const Prepared* piece = prepared.data();
    for (const uint32_t end : ends) {
      const size_t size = end - begin;
      begin = end;
      if (size <= PieceKey::kLongest) [[likely]] {
        size_t count = short_cache.find(piece->key, piece->hash, next);
        if (count == 0) count = encode_new(std::string_view(at, size), piece->key, piece->hash, next);
        next += count;
      } else {
        const std::span<const int32_t> found = encode_long(std::string_view(at, size), piece->hash);
        if (found.size() <= kRoom) [[likely]] {
          for (size_t i = 0; i < found.size(); ++i) next[i] = found[i];
          next += found.size();
        } else {
          waiting = static_cast<size_t>(next - ids.data());
          flush(out);
          next = ids.data();
          out.insert(out.end(), found.begin(), found.end());
        }
      }
      at += size;
      ++piece;
    }
    waiting = static_cast<size_t>(next - ids.data());
    return at;
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
  size_t encode_new(std::string_view piece, const PieceKey& key, uint64_t hash, int32_t* to) {
    ++misses;
    if (const int32_t id = model.tokens.find(key, hash); id >= 0) {
      *to = id;
      short_cache.put(key, hash, std::span(to, 1));
      return 1;
    }
    const std::span<const int32_t> found = remembered(piece, hash);
    std::copy(found.begin(), found.end(), to);
    return found.size();
  }

  std::span<const int32_t> remembered(std::string_view piece, uint64_t hash) {
    const auto found = long_cache.find(piece, hash);
    if (!found.empty()) return found;
    long_ids.clear();
    merge_piece(piece, long_ids);
    if (piece.size() <= PieceKey::kLongest && long_ids.size() <= ShortCache::kMostIds) {
      short_cache.put(piece_key(piece), hash, long_ids);
      return long_ids;
    }
    long_cache.put(piece, hash, long_ids);
    return long_ids;
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
  const size_t cut = model_.pretokenizer().last_safe_cut(pending_);
  if (cut == 0) return;
  model_.encode(std::string_view(pending_).substr(0, cut), out);
  pending_.erase(0, cut);
}

void BpeStream::finish(std::vector<int32_t>& out) {
  model_.encode(pending_, out);
  pending_.clear();
}

}  // namespace tril
