// What an encoder remembers of pieces it has seen: bounded, the newest first.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "tril/base/huge_pages.h"
#include "tril/text/piece_key.h"

namespace tril {

// Pieces of up to 15 bytes that become up to 4 ids: 65,536 in 2 MiB, two to a cache line. The older of two
// makes room.
class ShortCache {
 public:
  static constexpr size_t kMostIds = 4;
  // The number of ids less one is in the two highest bits of the first, which ids do not need.
  static constexpr int kCountShift = 30;
  static constexpr uint64_t kCountBits = uint64_t{3} << kCountShift;

  ShortCache() : lines_(kLines) {}

  void prefetch(uint64_t hash) const { __builtin_prefetch(&line_of(hash)); }
  bool holds(const PieceKey& key, uint64_t hash) const { return place_of(key, line_of(hash)).key == key; }

  // Writes 16 bytes at `out`, of which the first ids are the piece's, and returns how many; or returns 0.
  size_t find(const PieceKey& key, uint64_t hash, int32_t* out) const {
    const Entry& entry = place_of(key, line_of(hash));
    if (!(entry.key == key)) return 0;
    copy_ids(entry, out);
    return entry.count();
  }

  struct Entry {
    PieceKey key;
    std::array<uint64_t, 2> ids{};  // as find() reads them
    size_t count() const { return (ids[0] >> kCountShift & 3) + 1; }
  };
  // 1 to kMostIds ids, of a piece that is not there. Returns what made room; without a key nothing had to.
  Entry put(const PieceKey& key, uint64_t hash, std::span<const int32_t> ids) {
    Line& line = lines_[hash & (kLines - 1)];
    const Entry old = line[1];
    line[1] = line[0];
    line[0] = {key, {}};
    std::memcpy(line[0].ids.data(), ids.data(), ids.size_bytes());
    line[0].ids[0] |= uint64_t{ids.size() - 1} << kCountShift;
    return old;
  }
  static void copy_ids(const Entry& entry, int32_t* out) {  // 16 bytes
    std::array<uint64_t, 2> ids = entry.ids;
    ids[0] &= ~kCountBits;
    std::memcpy(out, ids.data(), 16);
  }

 private:
  static constexpr size_t kLines = size_t{1} << 15;
  struct alignas(64) Line : std::array<Entry, 2> {};

  const Line& line_of(uint64_t hash) const { return lines_[hash & (kLines - 1)]; }
  // Where the key is if it is there. Arithmetic rather than a branch, which would be guessed wrong every few
  // pieces.
  static const Entry& place_of(const PieceKey& key, const Line& line) {
    const uint64_t differs = (line[0].key.low ^ key.low) | (line[0].key.high ^ key.high);
    return line[differs != 0];
  }

  Table<Line> lines_;
};

// All others up to 1,024 bytes. When its 1.5 MiB are used up it forgets all and starts again.
class LongCache {
 public:
  static constexpr size_t kLongest = 1024;

  LongCache() : slots_(kSlots), words_(kWords + 1) {}

  void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & (kSlots - 1)]); }

  // Valid until the next put; empty if the piece is not there.
  std::span<const int32_t> find(std::string_view piece, uint64_t hash) const {
    const Slot* slot = &slot_of(hash);
    while (slot->size != 0 && (slot->hash != hash || slot->size != piece.size())) slot = &after(*slot);
    if (slot->size == 0) return {};
    const uint64_t* const record = words_.data() + slot->at;
    size_t at = 0;
    uint64_t differs = 0;
    for (; at + 8 <= piece.size(); at += 8) differs |= record[at / 8] ^ load64(piece.data() + at);
    if (const size_t rest = piece.size() - at; rest > 0) {
      uint64_t last = 0;
      std::memcpy(&last, piece.data() + at, rest);
      differs |= record[at / 8] ^ last;
      at += 8;
    }
    if (differs != 0) return {};
    return {reinterpret_cast<const int32_t*>(record + at / 8), slot->count};
  }

  void put(std::string_view piece, uint64_t hash, std::span<const int32_t> ids) {
    const size_t bytes = (piece.size() + 7) / 8, words = bytes + (ids.size() + 1) / 2;
    if (used_ + words > kWords || count_ > kSlots / 2) {
      used_ = count_ = 0;
      slots_.assign(kSlots, Slot());
    }
    uint64_t* const record = words_.data() + used_;
    record[bytes - 1] = 0;
    std::memcpy(record, piece.data(), piece.size());
    std::memcpy(record + bytes, ids.data(), ids.size_bytes());
    const Slot* slot = &slot_of(hash);
    while (slot->size != 0) slot = &after(*slot);
    slots_[static_cast<size_t>(slot - slots_.data())] = {hash, static_cast<uint32_t>(used_),
                                                         static_cast<uint16_t>(piece.size()),
                                                         static_cast<uint16_t>(ids.size())};
    used_ += words;
    ++count_;
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 15, kWords = size_t{1} << 17;
  struct Slot {
    uint64_t hash = 0;
    uint32_t at = 0;  // of the piece's bytes in words_, the last word filled up with 0; its ids follow
    uint16_t size = 0, count = 0;
  };
  const Slot& slot_of(uint64_t hash) const { return slots_[hash & (kSlots - 1)]; }
  const Slot& after(const Slot& slot) const {
    return slots_[static_cast<size_t>(&slot - slots_.data() + 1) & (kSlots - 1)];
  }

  std::vector<Slot> slots_;  // open addressing; size 0: free
  std::vector<uint64_t> words_;
  size_t used_ = 0, count_ = 0;
};

}  // namespace tril
