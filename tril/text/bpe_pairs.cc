#include "tril/text/bpe_pairs.h"

#include <algorithm>

#include "tril/text/piece_key.h"

namespace tril {

PairMerger::PairMerger(int64_t min_count, size_t symbols, size_t ids) : min_count_(min_count), pairs_(65536) {
  symbols_.reserve(symbols + 1);
  symbols_.push_back({kBorder, 0, 0, 1});
  for (Side* side : {&left_, &right_}) {
    side->count.resize(ids);
    side->lost.resize(ids);
    side->places.resize(ids);
    side->begin.resize(ids);
  }
}

void PairMerger::add_word(std::string_view bytes, const ByteIds& byte_ids, int64_t weight) {
  const auto place = [&](int32_t id) {
    const auto at = static_cast<uint32_t>(symbols_.size());
    symbols_.push_back({id, static_cast<uint32_t>(weights_.size()), at - 1, at + 1});
  };
  for (const char byte : bytes) place(byte_ids[static_cast<unsigned char>(byte)]);
  place(kBorder);
  weights_.push_back(weight);
}

// Symbols are bytes here: counts and places of pairs by counting sort.
void PairMerger::count_pairs() {
  std::vector<int64_t> counts(65536);
  std::vector<size_t> next(65536 + 1);
  const auto each = [&](auto visit) {
    for (uint32_t at = 1; at + 1 < symbols_.size(); ++at) {
      const int32_t left = symbols_[at].id, right = symbols_[at + 1].id;
      if (left >= 0 && right >= 0) visit(static_cast<size_t>(left) << 8 | static_cast<size_t>(right), at);
    }
  };
  each([&](size_t pair, uint32_t at) {
    counts[pair] += weights_[symbols_[at].word];
    ++next[pair + 1];
  });
  for (size_t pair = 0; pair < counts.size(); ++pair) {
    next[pair + 1] += next[pair];
    if (counts[pair] < min_count_) continue;
    const uint64_t key = key_of(static_cast<int32_t>(pair >> 8), static_cast<int32_t>(pair & 255));
    insert({key, counts[pair], next[pair], 0});
  }
  places_.resize(next.back());
  for (Pair& pair : pairs_) {
    if (pair.key == kFree) continue;
    const size_t index = pair.key >> 32 << 8 | (pair.key & 255);
    pair.size = static_cast<uint32_t>(next[index + 1] - next[index]);
    queue_.push({pair.count, pair.key});
  }
  each([&](size_t pair, uint32_t at) { places_[next[pair]++] = at; });
}

PairMerger::Pair* PairMerger::find(uint64_t key) {
  size_t slot = fold(key, 0) & (pairs_.size() - 1);
  while (pairs_[slot].key != key) {
    if (pairs_[slot].key == kFree) return nullptr;
    slot = (slot + 1) & (pairs_.size() - 1);
  }
  return &pairs_[slot];
}

// A pair that was merged keeps its slot: it cannot come back.
void PairMerger::insert(const Pair& pair) {
  const auto place = [&](const Pair& entry) {
    size_t slot = fold(entry.key, 0) & (pairs_.size() - 1);
    while (pairs_[slot].key != kFree) slot = (slot + 1) & (pairs_.size() - 1);
    pairs_[slot] = entry;
  };
  if (++used_ > pairs_.size() / 2) {
    std::vector<Pair> old(2 * pairs_.size());
    old.swap(pairs_);
    used_ = 1;
    for (const Pair& entry : old) {
      if (entry.key == kFree || entry.count < min_count_) continue;
      place(entry);
      ++used_;
    }
  }
  place(pair);
}

void PairMerger::lose(uint64_t key, int64_t count) {
  if (Pair* const pair = find(key)) pair->count -= count;
}

PairMerger::Top PairMerger::pop() {
  while (!queue_.empty()) {
    const Candidate top = queue_.top();
    queue_.pop();
    const Pair* const pair = find(top.key);
    if (pair == nullptr || pair->count < min_count_) continue;
    if (pair->count == top.count) {
      return {static_cast<int32_t>(top.key >> 32), static_cast<int32_t>(top.key & UINT32_MAX), top.count};
    }
    queue_.push({pair->count, top.key});  // it lost occurrences to other merges since
  }
  return {};
}

void PairMerger::touch(Side& side, int32_t neighbour) {
  const auto i = static_cast<size_t>(neighbour);
  // Nothing of it is 0 for long: weights are positive. A neighbour may be listed twice, which does no harm.
  if (side.lost[i] == 0 && side.places[i] == 0) side.touched.push_back(neighbour);
}

void PairMerger::gain(Side& side, int32_t neighbour, bool right, uint32_t place, int64_t weight) {
  touch(side, neighbour);
  side.count[static_cast<size_t>(neighbour)] += weight;
  ++side.places[static_cast<size_t>(neighbour)];
  gained_.push_back({right ? ~neighbour : neighbour, place});
}

void PairMerger::apply(const Merge& merge) {
  Pair* const pair = find(key_of(merge.left, merge.right));
  pair->count = 0;
  const size_t begin = pair->begin, end = begin + pair->size;
  gained_.clear();
  for (size_t i = begin; i < end; ++i) {
    const uint32_t at = places_[i];
    Symbol& symbol = symbols_[at];
    if (symbol.id != merge.left) continue;
    Symbol& right = symbols_[symbol.next];
    if (right.id != merge.right) continue;
    const int64_t weight = weights_[symbol.word];
    const int32_t before = symbols_[symbol.previous].id, behind = symbols_[right.next].id;
    symbol.id = merge.result;
    right.id = kGone;
    symbol.next = right.next;
    symbols_[symbol.next].previous = at;
    if (before == merge.result) {  // made a moment ago, when `left` was still what follows it
      right_.count[static_cast<size_t>(merge.left)] -= weight;
    } else if (before >= 0) {
      touch(left_, before);
      left_.lost[static_cast<size_t>(before)] += weight;
    }
    if (before >= 0) gain(left_, before, false, symbol.previous, weight);
    if (behind >= 0) {
      touch(right_, behind);
      right_.lost[static_cast<size_t>(behind)] += weight;
      gain(right_, behind, true, at, weight);
    }
  }
  settle(left_, merge, false);
  settle(right_, merge, true);
  for (const Gained& gained : gained_) {
    const bool right = gained.neighbour < 0;
    Side& side = right ? right_ : left_;
    const auto neighbour = static_cast<size_t>(right ? ~gained.neighbour : gained.neighbour);
    if (side.begin[neighbour] != SIZE_MAX) places_[side.begin[neighbour]++] = gained.place;
  }
}

// Pairs with the new symbol occur only where this merge made them: their counts never rise later, so that
// those below min_count need not be kept.
void PairMerger::settle(Side& side, const Merge& merge, bool right) {
  for (const int32_t neighbour : side.touched) {
    const auto i = static_cast<size_t>(neighbour);
    if (side.lost[i] > 0) {
      lose(right ? key_of(merge.right, neighbour) : key_of(neighbour, merge.left), side.lost[i]);
    }
    if (side.places[i] > 0) {
      side.begin[i] = SIZE_MAX;
      if (side.count[i] >= min_count_) {
        const uint64_t key = right ? key_of(merge.result, neighbour) : key_of(neighbour, merge.result);
        side.begin[i] = places_.size();
        places_.resize(places_.size() + side.places[i]);
        insert({key, side.count[i], side.begin[i], side.places[i]});
        queue_.push({side.count[i], key});
      }
    }
    side.count[i] = side.lost[i] = 0;
    side.places[i] = 0;
  }
  side.touched.clear();
}

}  // namespace tril
