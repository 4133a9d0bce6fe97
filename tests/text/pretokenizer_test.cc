#include "tril/text/pretokenizer.h"

#include "tests/text/text_testing.h"

namespace tril {
namespace {

using Pieces = std::vector<std::string>;

Pieces pieces(std::string_view text) {
  Pieces out;
  Pretokenizer().split(text, [&](std::string_view piece) { out.emplace_back(piece); });
  return out;
}

Pieces pieces_by_pattern(std::string_view text) {
  static const Pretokenizer regex = Pretokenizer().as_regex();
  Pieces out;
  regex.split(text, [&](std::string_view piece) { out.emplace_back(piece); });
  return out;
}

TEST(Pretokenizer, CutsAsGpt2) {
  EXPECT_EQ(pieces(""), Pieces());
  EXPECT_EQ(pieces("Hello, world!"), (Pieces{"Hello", ",", " world", "!"}));
  EXPECT_EQ(pieces("a  b   c"), (Pieces{"a", " ", " b", "  ", " c"}));
  EXPECT_EQ(pieces("x \n\n y  "), (Pieces{"x", " \n\n", " y", "  "}));
  EXPECT_EQ(pieces("a\n\tb"), (Pieces{"a", "\n", "\t", "b"}));
  EXPECT_EQ(pieces("don't we'll I'M 'tis"), (Pieces{"don", "'t", " we", "'ll", " I", "'", "M", " '", "tis"}));
  EXPECT_EQ(pieces("in 1984, 3.14"), (Pieces{"in", " 1984", ",", " 3", ".", "14"}));
  EXPECT_EQ(pieces("caf\xC3\xA9 \xE4\xB8\xAD\xE6\x96\x87!"),
            (Pieces{"caf\xC3\xA9", " \xE4\xB8\xAD\xE6\x96\x87", "!"}));
  // A combining mark is neither a letter nor a number.
  EXPECT_EQ(pieces("e\xCC\x81x"), (Pieces{"e", "\xCC\x81", "x"}));
  // U+00A0 is white space, U+180E is not.
  EXPECT_EQ(pieces("a\xC2\xA0\xC2\xA0"
                   "b"),
            (Pieces{"a", "\xC2\xA0", "\xC2\xA0", "b"}));
  EXPECT_EQ(pieces("a \xE1\xA0\x8E"
                   "b"),
            (Pieces{"a", " \xE1\xA0\x8E", "b"}));
}

TEST(Pretokenizer, InvalidBytesArePiecesOfTheirOwn) {
  EXPECT_EQ(pieces("ab\xFF\xFE"
                   "cd"),
            (Pieces{"ab", "\xFF\xFE", "cd"}));
  EXPECT_EQ(pieces("\xC3"), (Pieces{"\xC3"}));
}

TEST(Pretokenizer, TheShortcutForAsciiEqualsThePattern) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const std::string text = testing::random_text(seed, 1 + seed % 60, true);
    ASSERT_EQ(pieces(text), pieces_by_pattern(text)) << ::testing::PrintToString(text);
  }
  // All pairs and triples of ASCII characters that behave differently.
  const std::string alphabet = "a1 !'\nstlve\x1F";
  for (const char a : alphabet) {
    for (const char b : alphabet) {
      for (const char c : alphabet) {
        for (const char d : alphabet) {
          const std::string text = {a, b, c, d};
          ASSERT_EQ(pieces(text), pieces_by_pattern(text)) << ::testing::PrintToString(text);
        }
      }
    }
  }
}

TEST(Pretokenizer, PiecesMakeTheTextAgain) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = testing::random_text(seed, 300, false);
    std::string all;
    for (const std::string& piece : pieces(text)) {
      EXPECT_FALSE(piece.empty());
      all += piece;
    }
    EXPECT_EQ(all, text);
  }
}

TEST(Pretokenizer, LongRunsAreOnePiece) {
  for (const std::string unit :
       {"a", " ", "!", "\n", "7", "\xC3\xA9", "\xF0\x9F\x8C\x8D", "\xC2\xA0", "\xFF"}) {
    std::string text;
    while (text.size() < 2'000'000) text += unit;
    EXPECT_EQ(pieces(text).size(), 1u) << ::testing::PrintToString(unit);
  }
}

}  // namespace
}  // namespace tril
