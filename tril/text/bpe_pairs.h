// Pairs of neighbouring symbols in weighted words, counted and merged.
#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <string_view>
#include <vector>

#include "tril/text/bpe.h"

namespace tril {

// All words in one row of symbols, a border between them, and a linked list for what is left of each. For
// each pair its count and the places where it starts, so that a merge touches only those: the time is about
// linear in the number of symbols.
class PairMerger {
 public:
  PairMerger(int64_t min_count, size_t symbols, size_t ids);
  void add_word(std::string_view bytes, const ByteIds& byte_ids, int64_t weight);
  void count_pairs();  // after the last word

  // The pair with the highest count, the smaller among equals; count 0 if none reaches min_count. It is gone
  // from the queue then.
  struct Top {
    int32_t left = 0, right = 0;
    int64_t count = 0;
  };
  Top pop();
  void apply(const Merge& merge);  // of a pair from pop()

 private:
  static constexpr int32_t kBorder = -1, kGone = -2;
  struct Symbol {
    int32_t id;
    uint32_t word;            // whose weight counts here
    uint32_t previous, next;  // places
  };
  struct Pair {
    uint64_t key = kFree;
    int64_t count = 0;
    size_t begin = 0;  // of its places in places_, ascending; some may no longer hold the pair
    uint32_t size = 0;
  };
  struct Candidate {
    int64_t count;
    uint64_t key;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };
  // What one merge changes for one neighbour: of pairs with the new symbol the count and the places, of pairs
  // with its parts what they lose.
  struct Side {
    std::vector<int64_t> count, lost;
    std::vector<uint32_t> places;  // how many; then where the next goes, in places_ from `begin`
    std::vector<size_t> begin;
    std::vector<int32_t> touched;
  };
  struct Gained {
    int32_t neighbour;  // the complement of it on the right
    uint32_t place;
  };
  static constexpr uint64_t kFree = UINT64_MAX;

  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  Pair* find(uint64_t key);
  void insert(const Pair& pair);
  void lose(uint64_t key, int64_t count);
  static void touch(Side& side, int32_t neighbour);
  void gain(Side& side, int32_t neighbour, bool right, uint32_t place, int64_t weight);
  void settle(Side& side, const Merge& merge, bool right);

  int64_t min_count_;
  std::vector<Symbol> symbols_;
  std::vector<int64_t> weights_;  // by word
  std::vector<uint32_t> places_;  // of all pairs
  std::vector<Pair> pairs_;       // open addressing
  size_t used_ = 0;
  std::priority_queue<Candidate> queue_;
  Side left_, right_;
  std::vector<Gained> gained_;
};

}  // namespace tril
