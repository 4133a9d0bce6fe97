#include "tril/text/utf8.h"

#include "tests/text/text_testing.h"

namespace tril {
namespace {

using testing::random_text;

const std::string kReplacement = "\xEF\xBF\xBD";

TEST(Utf8, LengthsAndCodePoints) {
  const std::string text = "a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x8C\x8D";
  const std::vector<std::pair<size_t, char32_t>> expected = {{0, 'a'}, {1, 0xE9}, {3, 0x4E2D}, {6, 0x1F30D}};
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto [at, code_point] = expected[i];
    EXPECT_EQ(utf8_length(text, at), static_cast<int>(i) + 1);
    EXPECT_EQ(utf8_decode(text, at), code_point);
    std::string back;
    utf8_append(back, code_point);
    EXPECT_EQ(back, text.substr(at, i + 1));
  }
  EXPECT_EQ(utf8_length(text, 2), 0);
  EXPECT_EQ(utf8_length(text, text.size()), 0);
}

TEST(Utf8, EveryCodePointThereAndBack) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    std::string text;
    utf8_append(text, c);
    const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
    ASSERT_EQ(first_invalid_utf8(text).has_value(), surrogate) << static_cast<uint32_t>(c);
    if (surrogate) continue;
    ASSERT_EQ(utf8_decode(text, 0), c);
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  const std::vector<std::pair<std::string, size_t>> cases = {
      {"abc\xFF", 3},           // never a byte of UTF-8
      {"\x80", 0},              // a continuation without a start
      {"0123456789\xC3", 10},   // cut short
      {"\xC0\x80", 0},          // overlong
      {"\xE0\x80\x80", 0},      // overlong
      {"\xF0\x80\x80\x80", 0},  // overlong
      {"ab\xED\xA0\x80", 2},    // surrogate
      {"\xF4\x90\x80\x80", 0},  // above U+10FFFF
      {"\xC3\xA9\xC3\x28", 2},
  };
  for (const auto& [text, at] : cases) {
    ASSERT_TRUE(first_invalid_utf8(text).has_value()) << ::testing::PrintToString(text);
    EXPECT_EQ(*first_invalid_utf8(text), at) << ::testing::PrintToString(text);
  }
  EXPECT_FALSE(first_invalid_utf8("").has_value());
  EXPECT_FALSE(first_invalid_utf8(std::string("a\0b", 3)).has_value());
}

TEST(Utf8Stream, EverySplitOfACharacter) {
  const std::string globe = "\xF0\x9F\x8C\x8D";
  for (unsigned cuts = 0; cuts < 8; ++cuts) {
    Utf8Stream stream;
    std::string all;
    std::string part;
    for (size_t i = 0; i < 4; ++i) {
      part += globe[i];
      if (i == 3 || (cuts >> i & 1) != 0) {
        const std::string shown = stream.push(part);
        EXPECT_FALSE(first_invalid_utf8(shown).has_value());
        EXPECT_TRUE(shown.empty() || i == 3);
        all += shown;
        part.clear();
      }
    }
    all += stream.finish();
    EXPECT_EQ(all, globe) << cuts;
  }
}

TEST(Utf8Stream, DamageBecomesReplacements) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xFF"
                        "b"),
            "a" + kReplacement + "b");
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.push("A"), kReplacement + "A");
  EXPECT_EQ(stream.push("\xF0\x9F"), "");
  EXPECT_EQ(stream.finish(), kReplacement);
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, ChunksDoNotMatter) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::string text = random_text(seed, 200, seed % 2 == 0);
    Utf8Stream whole;
    const std::string expected = whole.push(text) + whole.finish();
    EXPECT_FALSE(first_invalid_utf8(expected).has_value());
    EXPECT_EQ(expected == text, seed % 2 == 0);
    const RandomStream random(seed, "cuts");
    Utf8Stream stream;
    std::string all;
    uint64_t draw = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t length = std::min<size_t>(1 + random.below(draw++, 5), text.size() - at);
      const std::string shown = stream.push(std::string_view(text).substr(at, length));
      EXPECT_FALSE(first_invalid_utf8(shown).has_value());
      all += shown;
      at += length;
    }
    all += stream.finish();
    EXPECT_EQ(all, expected) << seed;
  }
}

}  // namespace
}  // namespace tril
