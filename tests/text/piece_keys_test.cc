#include "tril/text/piece_keys.h"

#include "tests/support/kernel_test.h"
#include "tests/text/text_testing.h"

namespace tril {
namespace {

// On every instruction set: the keys of pieces of 1 to 20 bytes, in groups of any size, up to the end of the
// memory that may be read.
TEST(PieceKeys, AreThoseOfEachPiece) {
  testing::for_each_target([] {
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const RandomStream random(21, "pieces", seed);
      const size_t count = 1 + random.below(0, PieceKeys::kMost);
      std::vector<uint32_t> bounds = {static_cast<uint32_t>(random.below(1, 40))};
      const uint64_t longest = seed % 3 == 0 ? 20 : 15;
      for (size_t i = 0; i < count; ++i)
        bounds.push_back(bounds.back() + 1 + static_cast<uint32_t>(random.below(2 + i, longest)));
      std::vector<char> text(bounds.back() + random.below(500, 40));
      for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(random.below(1000 + i, 256));
      PieceKeys keys;
      make_piece_keys(text.data(), text.data() + text.size(), bounds.data(), count, keys);
      bool any_long = false;
      for (size_t i = 0; i < count; ++i) {
        const std::string_view piece(text.data() + bounds[i], bounds[i + 1] - bounds[i]);
        any_long |= piece.size() > PieceKey::kLongest;
        if (piece.size() > PieceKey::kLongest) continue;
        ASSERT_EQ(keys.key(i), piece_key(piece)) << seed << " " << i;
        ASSERT_EQ(keys.hash[i], piece_key(piece).hash());
        ASSERT_EQ(keys.key(i).bytes(), piece);
      }
      ASSERT_EQ(keys.any_long, any_long);
    }
  });
}

}  // namespace
}  // namespace tril
