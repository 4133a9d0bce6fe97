// Merging within one piece.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tril/base/huge_pages.h"
#include "tril/text/bpe.h"

namespace tril {

class Merger {
 public:
  static constexpr size_t kShort = 64;  // up to here a scan for the lowest rank beats a heap

  Merger(const ByteIds& byte_ids, std::span<const Merge> merges);
  // Writes the ids of a piece of 1 to kShort bytes, at most as many; returns how many.
  size_t merge_short(std::string_view piece, int32_t* out) const;
  // Pieces of up to kLongestTogether bytes, at most kMostTogether: what one waits for from memory comes while
  // the others go on. `out` is the ids of each.
  static constexpr size_t kMostTogether = 32, kLongestTogether = 16;
  struct Ids {
    std::array<int32_t, kLongestTogether> ids;
    size_t count = 0;
  };
  void merge_together(std::span<const std::string_view> pieces, std::span<Ids> out) const;
  void merge_long(std::string_view piece, std::vector<int32_t>& out) const;  // appends
  void merge(std::string_view piece, std::vector<int32_t>& out) const;       // appends

 private:
  class Together;
  static constexpr uint32_t kNone = UINT32_MAX;  // the rank of a pair that does not merge
  // Eight bytes a merge, so that the table of 50,000 fits the second cache: 21 bits for each id of the pair,
  // 22 for the rank. Open addressing.
  static constexpr int kIdBits = 21, kRankBits = 22, kPlaceBits = 6;
  static constexpr uint64_t kEmpty = UINT64_MAX;

  static uint64_t pair_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << kIdBits | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15) >> shift_; }
  uint32_t rank(int32_t left, int32_t right) const { return rank_of(pair_of(left, right)); }
  uint32_t rank_of(uint64_t pair) const {
    for (size_t slot = slot_of(pair);; slot = (slot + 1) & (table_.size() - 1)) {
      const uint64_t entry = table_[slot];
      if (entry >> kRankBits == pair) return static_cast<uint32_t>(entry) & ((1u << kRankBits) - 1);
      if (entry == kEmpty) return kNone;
    }
  }

  ByteIds byte_ids_;
  Table<uint64_t> table_;
  int shift_ = 0;
  std::vector<uint32_t> byte_pairs_;  // the rank of each pair of bytes
  std::vector<int32_t> results_;      // by rank
};

}  // namespace tril
