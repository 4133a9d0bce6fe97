#include <algorithm>
#include <bit>
#include <cstring>
#include <queue>
#include <span>

#include "tril/base/error.h"
#include "tril/text/bpe.h"
#include "tril/text/pretokenizer.h"

namespace tril {

MergeTable::MergeTable(std::span<const Merge> merges) {
  const size_t slots = std::bit_ceil(2 * merges.size() + 2);
  entries_.assign(slots, Entry());
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    auto& entry = const_cast<Entry&>(find(merge.left, merge.right));
    if (entry.rank != kNone) continue;
    entry.pair = uint64_t{static_cast<uint32_t>(merge.left)} << 32 | static_cast<uint32_t>(merge.right);
    entry.rank = static_cast<int32_t>(rank);
    entry.result = merge.result;
  }
}

namespace {

// Up to this length a scan for the lowest rank beats a heap.
constexpr size_t kShortPiece = 64;

class PieceEncoder {
 public:
  PieceEncoder(const ByteIds& byte_ids, const MergeTable& merges) : byte_ids_(byte_ids), merges_(merges) {}

  void encode(std::string_view piece, std::vector<int32_t>& out) {
    if (piece.size() <= kShortPiece) {
      encode_short(piece, out);
    } else {
      encode_long(piece, out);
    }
  }

 private:
  int32_t byte_id(char byte) const { return byte_ids_[static_cast<unsigned char>(byte)]; }

  void encode_short(std::string_view piece, std::vector<int32_t>& out) const {
    std::array<int32_t, kShortPiece> ids;
    std::array<int32_t, kShortPiece> ranks;    // of the pair that starts here
    std::array<int32_t, kShortPiece> results;  // what that pair becomes
    size_t n = piece.size();
    const auto look = [&](size_t i) {
      const MergeTable::Entry& entry = merges_.find(ids[i], ids[i + 1]);
      ranks[i] = entry.rank;
      results[i] = entry.result;
    };
    for (size_t i = 0; i < n; ++i) ids[i] = byte_id(piece[i]);
    for (size_t i = 0; i + 1 < n; ++i) look(i);
    while (n > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < n; ++i) best = ranks[i] < ranks[best] ? i : best;
      if (ranks[best] == MergeTable::kNone) break;
      ids[best] = results[best];
      --n;
      for (size_t i = best + 1; i < n; ++i) {
        ids[i] = ids[i + 1];
        ranks[i] = ranks[i + 1];
        results[i] = results[i + 1];
      }
      if (best > 0) look(best - 1);
      if (best + 1 < n) look(best);
    }
    out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
  }

  // A linked list of symbols and a heap of (rank, place): n log n.
  void encode_long(std::string_view piece, std::vector<int32_t>& out) {
    check_use(piece.size() < kGone, "text: a piece of {} bytes without a break; cut it below {} bytes",
              piece.size(), kGone);
    const auto n = static_cast<uint32_t>(piece.size());
    symbols_.resize(n);
    for (uint32_t i = 0; i < n; ++i) symbols_[i] = {byte_id(piece[i]), MergeTable::kNone, i - 1, i + 1};
    std::vector<uint64_t> first;
    for (uint32_t i = 0; i + 1 < n; ++i) {
      symbols_[i].rank = merges_.find(symbols_[i].id, symbols_[i + 1].id).rank;
      if (symbols_[i].rank != MergeTable::kNone) first.push_back(key(symbols_[i].rank, i));
    }
    Heap heap(std::greater<>(), std::move(first));
    while (!heap.empty()) {
      const uint64_t top = heap.top();
      heap.pop();
      const auto at = static_cast<uint32_t>(top);
      if (symbols_[at].rank == static_cast<int32_t>(top >> 32)) merge(at, n, heap);
    }
    for (uint32_t i = 0; i < n; i = symbols_[i].next) out.push_back(symbols_[i].id);
  }

  static constexpr uint32_t kGone = UINT32_MAX;
  struct Symbol {
    int32_t id;
    int32_t rank;  // of the pair with the next symbol; kNone if it does not merge or the symbol is gone
    uint32_t previous, next;
  };
  using Heap = std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>>;

  static uint64_t key(int32_t rank, uint32_t at) { return uint64_t{static_cast<uint32_t>(rank)} << 32 | at; }

  void merge(uint32_t at, uint32_t n, Heap& heap) {
    Symbol& symbol = symbols_[at];
    const uint32_t right = symbol.next;
    symbol.id = merges_.find(symbol.id, symbols_[right].id).result;
    symbol.next = symbols_[right].next;
    symbols_[right].rank = MergeTable::kNone;
    if (symbol.next < n) symbols_[symbol.next].previous = at;
    rank_again(at, n, heap);
    if (at > 0) rank_again(symbol.previous, n, heap);
  }

  void rank_again(uint32_t at, uint32_t n, Heap& heap) {
    Symbol& symbol = symbols_[at];
    symbol.rank =
        symbol.next < n ? merges_.find(symbol.id, symbols_[symbol.next].id).rank : MergeTable::kNone;
    if (symbol.rank != MergeTable::kNone) heap.push(key(symbol.rank, at));
  }

  const ByteIds& byte_ids_;
  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
};

// Remembers the ids of short pieces: one place for each hash value, the latest piece stays. A hit touches one
// cache line.
class PieceCache {
 public:
  explicit PieceCache(size_t text_size) {
    constexpr size_t kMost = size_t{1} << 15;
    if (text_size >= 512) lines_.resize(std::bit_floor(std::min(text_size / 16, kMost)));
  }

  // Appends the ids of an equal piece seen before, or says no.
  bool repeat(std::string_view piece, std::vector<int32_t>& out) {
    line_ = nullptr;
    if (lines_.empty() || piece.size() > kLongest) return false;
    key_ = key(piece);
    line_ = &lines_[hash(key_) & (lines_.size() - 1)];
    if (!(line_->key == key_)) return false;
    out.insert(out.end(), line_->ids.begin(), line_->ids.begin() + line_->count);
    return true;
  }
  // After repeat() said no.
  void remember(std::span<const int32_t> ids) {
    if (line_ == nullptr || ids.size() > line_->ids.size()) return;
    line_->key = key_;
    line_->count = static_cast<uint32_t>(ids.size());
    std::copy(ids.begin(), ids.end(), line_->ids.begin());
  }

 private:
  static constexpr size_t kLongest = 16;
  // Up to 16 bytes, whole: for 8 bytes and more the first and the last 8, which overlap.
  struct Key {
    uint64_t head = 0, tail = 0;
    uint32_t length = 0;
    bool operator==(const Key&) const = default;
  };
  struct alignas(64) Line {
    Key key;
    uint32_t count = 0;
    std::array<int32_t, 9> ids;
  };

  static Key key(std::string_view piece) {
    Key key;
    const size_t n = piece.size();
    key.length = static_cast<uint32_t>(n);
    if (n >= 8) {
      std::memcpy(&key.head, piece.data(), 8);
      std::memcpy(&key.tail, piece.data() + n - 8, 8);
    } else if (n >= 4) {
      uint32_t low = 0, high = 0;
      std::memcpy(&low, piece.data(), 4);
      std::memcpy(&high, piece.data() + n - 4, 4);
      key.head = low;
      key.tail = high;
    } else {
      for (const char byte : piece) key.head = key.head << 8 | static_cast<unsigned char>(byte);
    }
    return key;
  }

  static size_t hash(const Key& key) {
    const uint64_t mixed = key.head * 0x9E3779B97F4A7C15 ^ (key.tail + key.length) * 0xBF58476D1CE4E5B9;
    return (mixed ^ mixed >> 32) * 0x94D049BB133111EB >> 40;
  }

  std::vector<Line> lines_;
  Key key_;
  Line* line_ = nullptr;
};

}  // namespace

void encode_bpe(std::string_view text, const ByteIds& byte_ids, const MergeTable& merges,
                std::vector<int32_t>& out) {
  PieceEncoder encoder(byte_ids, merges);
  PieceCache cache(text.size());
  Pretokenizer().split(text, [&](std::string_view piece) {
    if (cache.repeat(piece, out)) return;
    const size_t begin = out.size();
    encoder.encode(piece, out);
    cache.remember(std::span(out).subspan(begin));
  });
}

}  // namespace tril
