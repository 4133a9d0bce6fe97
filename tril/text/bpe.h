// Byte-pair encoding over ids (Sennrich, Haddow, Birch, "Neural machine translation of rare words with
// subword units", ACL 2016, section 3.2): learning the merges, and applying them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tril {

// The pair (left, right) becomes `result`. A merge's rank is its place in the list: lower ranks first.
struct Merge {
  int32_t left = 0, right = 0, result = 0;
  bool operator==(const Merge&) const = default;
};

using ByteIds = std::array<int32_t, 256>;  // the id of each byte

// Learns up to `count` merges, their results numbered from 256. The most frequent pair is merged next, the
// smaller (left, right) among equals; pairs that occur once, or spell a token that exists, are left alone.
std::vector<Merge> train_merges(std::span<const std::string_view> texts, const ByteIds& byte_ids,
                                int64_t count);

// Pairs of ids to what they merge into: open addressing.
class MergeTable {
 public:
  static constexpr int32_t kNone = INT32_MAX;
  struct Entry {
    uint64_t pair = UINT64_MAX;
    int32_t rank = kNone;
    int32_t result = 0;
  };

  MergeTable() = default;
  explicit MergeTable(std::span<const Merge> merges);
  // rank is kNone if the pair does not merge.
  const Entry& find(int32_t left, int32_t right) const {
    const uint64_t pair = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    size_t slot = (pair * kMultiplier) >> shift_;
    while (entries_[slot].pair != pair && entries_[slot].rank != kNone) slot = (slot + 1) & mask_;
    return entries_[slot];
  }

 private:
  static constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  std::vector<Entry> entries_ = std::vector<Entry>(2);
  size_t mask_ = 1;
  int shift_ = 63;
};

// Appends the ids of `text`: in each piece the adjacent pair of the lowest rank is merged, the leftmost among
// equals, until none merges. Thread-safe.
void encode_bpe(std::string_view text, const ByteIds& byte_ids, const MergeTable& merges,
                std::vector<int32_t>& out);

}  // namespace tril
