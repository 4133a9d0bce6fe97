#include "tril/text/bpe_merge.h"

#include <algorithm>
#include <bit>
#include <queue>

#include "tril/base/error.h"

namespace tril {

Merger::Merger(const ByteIds& byte_ids, std::span<const Merge> merges) : byte_ids_(byte_ids) {
  constexpr size_t kMostMerges = (size_t{1} << kRankBits) - 1;
  static_assert(kMostBpeIds == (1 << kIdBits) - 1);
  check_data(merges.size() < kMostMerges, "bpe: {} merges; at most {} are supported", merges.size(),
             kMostMerges - 1);
  table_.assign(std::bit_ceil(2 * merges.size() + 2), kEmpty);
  shift_ = 64 - std::countr_zero(table_.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    for (const int32_t id : {merge.left, merge.right, merge.result}) {
      check_data(id >= 0 && id < kMostBpeIds, "bpe: merge {} has the id {}; at most {} is supported", rank,
                 id, kMostBpeIds - 1);
    }
    const uint64_t pair = pair_of(merge.left, merge.right);
    size_t slot = slot_of(pair);
    while (table_[slot] != kEmpty && table_[slot] >> kRankBits != pair)
      slot = (slot + 1) & (table_.size() - 1);
    if (table_[slot] == kEmpty) table_[slot] = pair << kRankBits | rank;
    results_.push_back(merge.result);
  }
  byte_pairs_.resize(65536);
  for (size_t pair = 0; pair < byte_pairs_.size(); ++pair) {
    const int32_t left = byte_ids[pair >> 8], right = byte_ids[pair & 255];
    const bool known = left >= 0 && right >= 0 && left < kMostBpeIds && right < kMostBpeIds;
    byte_pairs_[pair] = known ? rank(left, right) : kNone;
  }
}

size_t Merger::merge_short(std::string_view piece, int32_t* out) const {
  const size_t n = piece.size();
  std::array<int32_t, kShort> ids;
  // Of the pair that starts here: its rank, and below it the place, so that the least is the leftmost of the
  // lowest rank. Filled up to a multiple of four.
  std::array<uint32_t, kShort> keys;
  static_assert(kShort <= (1 << kPlaceBits) && kRankBits + kPlaceBits < 32);
  const auto byte = [&](size_t i) { return size_t{static_cast<unsigned char>(piece[i])}; };
  const auto key = [](uint32_t rank, size_t place) {
    return rank == kNone ? kNone : rank << kPlaceBits | static_cast<uint32_t>(place);
  };
  for (size_t i = 0; i + 1 < n; ++i) {
    ids[i] = byte_ids_[byte(i)];
    keys[i] = key(byte_pairs_[byte(i) << 8 | byte(i + 1)], i);
  }
  ids[n - 1] = byte_ids_[byte(n - 1)];
  const size_t padded = (n + 3) / 4 * 4;
  for (size_t i = n - 1; i < padded; ++i) keys[i] = kNone;
  uint64_t alive = ~uint64_t{0} >> (kShort - n);  // places where a token starts
  while (true) {
    std::array<uint32_t, 4> least = {keys[0], keys[1], keys[2], keys[3]};
    for (size_t i = 4; i < padded; i += 4) {
      for (size_t j = 0; j < 4; ++j) least[j] = std::min(least[j], keys[i + j]);
    }
    const uint32_t best = std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
    if (best == kNone) break;
    const size_t at = best & ((1u << kPlaceBits) - 1);
    uint64_t behind = alive & (~uint64_t{1} << at);
    const auto right = static_cast<size_t>(std::countr_zero(behind));
    ids[at] = results_[best >> kPlaceBits];
    alive &= ~(uint64_t{1} << right);
    keys[right] = kNone;
    behind &= behind - 1;
    // Both new pairs are sent for before either is waited for.
    const uint64_t before = alive & ((uint64_t{1} << at) - 1);
    const size_t left = before == 0 ? at : static_cast<size_t>(63 - std::countl_zero(before));
    __builtin_prefetch(&table_[slot_of(pair_of(ids[left], ids[at]))]);
    keys[at] =
        behind == 0 ? kNone : key(rank(ids[at], ids[static_cast<size_t>(std::countr_zero(behind))]), at);
    if (before != 0) keys[left] = key(rank(ids[left], ids[at]), left);
  }
  size_t count = 0;
  for (; alive != 0; alive &= alive - 1) out[count++] = ids[static_cast<size_t>(std::countr_zero(alive))];
  return count;
}

// One of several pieces that are merged together: as merge_short, but between the choice of a pair and the
// look-up of the two new ones the others have their turn.
class Merger::Together {
 public:
  void start(const Merger& merger, std::string_view piece) {
    const size_t n = piece.size();
    const auto byte = [&](size_t i) { return size_t{static_cast<unsigned char>(piece[i])}; };
    keys_.fill(kNone);
    for (size_t i = 0; i < n; ++i) ids_[i] = merger.byte_ids_[byte(i)];
    for (size_t i = 0; i + 1 < n; ++i) keys_[i] = key(merger.byte_pairs_[byte(i) << 8 | byte(i + 1)], i);
    alive_ = (uint64_t{1} << n) - 1;
    has_left_ = has_right_ = false;
  }

  // Looks up what the step before asked for and joins one pair; false if there is none.
  bool step(const Merger& merger) {
    if (has_right_) keys_[at_] = key(merger.rank_of(right_pair_), at_);
    if (has_left_) keys_[left_] = key(merger.rank_of(left_pair_), left_);
    std::array<uint32_t, 4> least = {keys_[0], keys_[1], keys_[2], keys_[3]};
    for (size_t i = 4; i < kLongestTogether; i += 4)
      for (size_t j = 0; j < 4; ++j) least[j] = std::min(least[j], keys_[i + j]);
    const uint32_t best = std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
    if (best == kNone) return false;
    at_ = best & ((1u << kPlaceBits) - 1);
    uint64_t behind = alive_ & (~uint64_t{1} << at_);
    const auto right = static_cast<size_t>(std::countr_zero(behind));
    ids_[at_] = merger.results_[best >> kPlaceBits];
    alive_ &= ~(uint64_t{1} << right);
    keys_[right] = keys_[at_] = kNone;
    behind &= behind - 1;
    const uint64_t before = alive_ & ((uint64_t{1} << at_) - 1);
    has_right_ = behind != 0;
    has_left_ = before != 0;
    if (has_right_) {
      right_pair_ = pair_of(ids_[at_], ids_[static_cast<size_t>(std::countr_zero(behind))]);
      __builtin_prefetch(&merger.table_[merger.slot_of(right_pair_)]);
    }
    if (has_left_) {
      left_ = static_cast<size_t>(63 - std::countl_zero(before));
      left_pair_ = pair_of(ids_[left_], ids_[at_]);
      __builtin_prefetch(&merger.table_[merger.slot_of(left_pair_)]);
    }
    return true;
  }

  void finish(Ids& out) const {
    out.count = 0;
    for (uint64_t left = alive_; left != 0; left &= left - 1)
      out.ids[out.count++] = ids_[static_cast<size_t>(std::countr_zero(left))];
  }

 private:
  static uint32_t key(uint32_t rank, size_t place) {
    return rank == kNone ? kNone : rank << kPlaceBits | static_cast<uint32_t>(place);
  }
  std::array<int32_t, kLongestTogether> ids_;
  std::array<uint32_t, kLongestTogether> keys_;
  uint64_t alive_, left_pair_, right_pair_;
  size_t at_, left_;
  bool has_left_, has_right_;
};

void Merger::merge_together(std::span<const std::string_view> pieces, std::span<Ids> out) const {
  std::array<Together, kMostTogether> states;
  std::array<uint8_t, kMostTogether> open;
  size_t count = pieces.size();
  for (size_t i = 0; i < count; ++i) {
    states[i].start(*this, pieces[i]);
    open[i] = static_cast<uint8_t>(i);
  }
  while (count > 0) {
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint8_t piece = open[i];
      open[kept] = piece;
      if (states[piece].step(*this))
        ++kept;
      else
        states[piece].finish(out[piece]);
    }
    count = kept;
  }
}

namespace {

constexpr uint32_t kGone = UINT32_MAX;

struct Symbol {
  int32_t id;
  uint32_t rank;  // of the pair with the next symbol; kGone if it does not merge or the symbol is gone
  uint32_t previous, next;
};

uint64_t heap_key(uint32_t rank, uint32_t at) { return uint64_t{rank} << 32 | at; }

}  // namespace

// A linked list of symbols and a heap of (rank, place): n log n.
void Merger::merge_long(std::string_view piece, std::vector<int32_t>& out) const {
  check_use(piece.size() < kGone, "text: a piece of {} bytes without a break; cut it below 4 GiB",
            piece.size());
  const auto n = static_cast<uint32_t>(piece.size());
  std::vector<Symbol> symbols(n);
  const auto rank_of = [&](uint32_t at) {
    const uint32_t next = symbols[at].next;
    return next < n ? rank(symbols[at].id, symbols[next].id) : kNone;
  };
  for (uint32_t i = 0; i < n; ++i) {
    symbols[i] = {byte_ids_[static_cast<unsigned char>(piece[i])], kNone, i - 1, i + 1};
  }
  std::vector<uint64_t> first;
  for (uint32_t i = 0; i + 1 < n; ++i) {
    symbols[i].rank = rank_of(i);
    if (symbols[i].rank != kNone) first.push_back(heap_key(symbols[i].rank, i));
  }
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heap(std::greater<>(),
                                                                            std::move(first));
  const auto rank_again = [&](uint32_t at) {
    symbols[at].rank = rank_of(at);
    if (symbols[at].rank != kNone) heap.push(heap_key(symbols[at].rank, at));
  };
  while (!heap.empty()) {
    const uint64_t top = heap.top();
    heap.pop();
    const auto at = static_cast<uint32_t>(top);
    Symbol& symbol = symbols[at];
    if (symbol.rank != static_cast<uint32_t>(top >> 32)) continue;
    Symbol& right = symbols[symbol.next];
    symbol.id = results_[symbol.rank];
    symbol.next = right.next;
    right.rank = kNone;
    if (symbol.next < n) symbols[symbol.next].previous = at;
    rank_again(at);
    if (at > 0) rank_again(symbol.previous);
  }
  for (uint32_t i = 0; i < n; i = symbols[i].next) out.push_back(symbols[i].id);
}

void Merger::merge(std::string_view piece, std::vector<int32_t>& out) const {
  if (piece.size() > kShort) return merge_long(piece, out);
  const size_t before = out.size();
  out.resize(before + piece.size());
  out.resize(before + merge_short(piece, out.data() + before));
}

}  // namespace tril
