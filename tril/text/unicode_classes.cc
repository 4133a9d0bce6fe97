#include "tril/text/unicode_classes.h"

#include <map>

namespace tril {

const UnicodeTable& UnicodeTable::get() {
  static const UnicodeTable table;
  return table;
}

UnicodeTable::UnicodeTable() {
  using Block = std::array<CharClass, 128>;
  std::map<Block, uint8_t> known;
  size_t range = 0;
  for (uint32_t start = 0; start < 0x110000; start += 128) {
    Block block{};
    for (uint32_t i = 0; i < 128; ++i) {
      while (range + 1 < unicode_ranges.size() && unicode_ranges[range + 1] >> 3 <= start + i) ++range;
      block[i] = static_cast<CharClass>(unicode_ranges[range] & 7);
    }
    const auto [at, fresh] = known.emplace(block, static_cast<uint8_t>(known.size()));
    if (fresh) blocks_.insert(blocks_.end(), block.begin(), block.end());
    block_of_[start / 128] = at->second;
  }
}

}  // namespace tril
