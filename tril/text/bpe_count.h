// How often each piece occurs.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tril/base/function_ref.h"
#include "tril/text/piece_key.h"
#include "tril/text/pretokenizer.h"

namespace tril {

class PieceCounts {
 public:
  void count(const Pretokenizer& pretokenizer, std::string_view text);
  void add(std::string_view piece, int64_t times);
  void add(const PieceCounts& other);
  void keep_at_least(int64_t times);  // forgets rarer ones

  size_t size() const { return short_used_ + long_.size(); }
  // In no particular order.
  void each(FunctionRef<void(std::string_view piece, int64_t times)> visit) const;

 private:
  struct Short {
    PieceKey key;
    int64_t times = 0;
  };
  struct Long {
    uint64_t hash;
    size_t at;  // in bytes_
    size_t size;
    int64_t times;
  };
  void add_short(const PieceKey& key, uint64_t hash, int64_t times) {
    size_t slot = hash & (short_.size() - 1);
    while (!(short_[slot].key == key)) {
      if (short_[slot].key == PieceKey()) return add_new(key, hash, times);
      slot = (slot + 1) & (short_.size() - 1);
    }
    short_[slot].times += times;
  }
  void add_new(const PieceKey& key, uint64_t hash, int64_t times);
  void add_long(std::string_view piece, int64_t times);
  std::string_view bytes_of(const Long& piece) const { return {bytes_.data() + piece.at, piece.size}; }

  std::vector<Short> short_ = std::vector<Short>(4096);  // up to 15 bytes; open addressing
  size_t short_used_ = 0;
  std::vector<Long> long_;  // in order of appearance, their bytes one after another
  std::vector<char> bytes_;
  std::vector<uint32_t> long_slots_ = std::vector<uint32_t>(1024);  // 1 + a place in long_, 0: free
};

}  // namespace tril
