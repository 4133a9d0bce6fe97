#include "tril/text/pretokenizer.h"

#include "tests/support/kernel_test.h"
#include "tests/text/text_testing.h"
#include "tril/text/split_patterns.h"
#include "tril/text/unicode_classes.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

using Pieces = std::vector<std::string>;

Pieces pieces(const Pretokenizer& pretokenizer, std::string_view text) {
  Pieces out;
  pretokenizer.split(text, [&](std::string_view piece) { out.emplace_back(piece); });
  return out;
}
Pieces pieces(std::string_view text) { return pieces(SplitPattern::kGpt2, text); }

// Patterns that have code of their own, and the same in PCRE2, whose Unicode may be older.
struct Known {
  std::string name;
  Pretokenizer code, regex;
};

const std::vector<Known>& known_patterns() {
  static const std::vector<Known> all = [] {
    std::vector<Known> list = {{"none", SplitPattern::kNone, SplitPattern::kNone}};
    const auto add = [&](const std::string& name, const std::vector<SplitPattern>& code,
                         const std::vector<std::string>& regex) {
      std::vector<SplitStep> steps, regex_steps;
      for (const SplitPattern pattern : code) steps.push_back({pattern, ""});
      for (const std::string& step : regex) regex_steps.push_back({SplitPattern::kOwn, step});
      list.push_back({name, Pretokenizer(steps), Pretokenizer(regex_steps)});
    };
    const std::string digits(kDigitSplit);
    for (const auto& [name, pattern] : {std::pair("gpt2", SplitPattern::kGpt2),
                                        {"cl100k", SplitPattern::kCl100k},
                                        {"o200k", SplitPattern::kO200k},
                                        {"llama3", SplitPattern::kLlama3},
                                        {"qwen2", SplitPattern::kQwen2}}) {
      const std::string regex = splits_of_name(name)->front();
      add(name, {pattern}, {regex});
      if (pattern == SplitPattern::kGpt2 || pattern == SplitPattern::kO200k)
        add("digits+" + std::string(name), {SplitPattern::kDigits, pattern}, {digits, regex});
    }
    add("digits", {SplitPattern::kDigits}, {digits});
    return list;
  }();
  return all;
}

// Code points by class, without those that are too new for PCRE2: it must say of all others what our table
// says.
const std::array<std::vector<char32_t>, 7>& characters_by_class() {
  static const auto all = [] {
    const std::array<std::string, 7> classes = {
        "[^\\s\\pN\\pM\\pL]", "\\s", "\\pN", "\\pM", "[\\p{Lu}\\p{Lt}]", "\\p{Ll}", "[\\p{Lm}\\p{Lo}]"};
    const auto matches = [](const std::string& expression) {
      const Pretokenizer regex(std::vector<SplitStep>{{SplitPattern::kOwn, expression + "\\n"}});
      std::vector<bool> found(0x110000);
      std::string text;
      for (char32_t c = 0; c < 0x110000; ++c) {
        if ((c >= 0xD800 && c < 0xE000) || c == '\n') continue;
        utf8_append(text, c);
        text += "\n\n";
      }
      // A match is a character and one newline; no piece between matches is.
      regex.split(text, [&](std::string_view piece) {
        if (static_cast<size_t>(utf8_length(piece, 0)) + 1 == piece.size())
          found[utf8_decode(piece, 0)] = true;
      });
      return found;
    };
    const std::vector<bool> unassigned = matches("\\p{Cn}");
    std::array<std::vector<char32_t>, 7> by_class;
    int newer = 0;
    for (size_t kind = 0; kind < classes.size(); ++kind) {
      const std::vector<bool> found = matches(classes[kind]);
      for (char32_t c = 0; c < 0x110000; ++c) {
        if ((c >= 0xD800 && c < 0xE000) || c == '\n') continue;
        const bool ours = UnicodeTable::get().of(c) == static_cast<CharClass>(kind);
        if (ours && found[c]) by_class[kind].push_back(c);
        if (ours == found[c]) continue;
        EXPECT_TRUE(unassigned[c]) << "U+" << std::hex << static_cast<uint32_t>(c);
        newer += ours;
      }
    }
    EXPECT_LT(newer, 12000);
    return by_class;
  }();
  return all;
}

// Characters of every class, and those that a pattern names.
std::string random_characters(uint64_t seed, size_t length, bool valid_utf8) {
  static constexpr std::string_view kNamed[] = {"a", "b",  "S", "'s", "'T", "'ll",       "'Re",
                                                "'", " ",  " ", "  ", "\n", "\r",        "/",
                                                "!", "\t", "1", "23", "x",  "'\xC5\xBF", "The"};
  const auto& classes = characters_by_class();
  const RandomStream random(seed, "characters");
  std::string out;
  for (uint64_t i = 0; out.size() < length; ++i) {
    const uint64_t which = random.below(3 * i, 20);
    if (which < 10) {
      out += kNamed[random.below(3 * i + 1, std::size(kNamed))];
    } else if (which == 10 && !valid_utf8) {
      out += static_cast<char>(128 + random.below(3 * i + 1, 128));
    } else {
      const auto& list = classes[random.below(3 * i + 1, classes.size())];
      utf8_append(out, list[random.below(3 * i + 2, list.size())]);
    }
  }
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

TEST(Pretokenizer, KnownPatternsEqualPcre2) {
  for (const Known& known : known_patterns()) {
    const auto check = [&](const std::string& text) {
      ASSERT_EQ(pieces(known.code, text), pieces(known.regex, text))
          << known.name << ": " << ::testing::PrintToString(text);
    };
    for (uint64_t seed = 0; seed < 1500 && !HasFatalFailure(); ++seed) {
      check(random_characters(seed, 1 + seed % 70, seed % 3 != 0));
    }
    // Longer than the stretches that are looked at together, with runs across their ends.
    for (uint64_t seed = 0; seed < 6 && !HasFatalFailure(); ++seed) {
      std::string text = random_characters(1000 + seed, 9000, seed % 2 == 0);
      const size_t at = 3900 + 20 * seed;
      text += std::string(at, "a 1!\n'"[seed]) + random_characters(2000 + seed, 9000, true);
      check(text);
    }
  }
}

TEST(Pretokenizer, EveryInstructionSetCutsTheSame) {
  std::string text;
  for (uint64_t seed = 0; seed < 20; ++seed)
    text += random_characters(3000 + seed, 3000, seed % 2 == 0) + std::string(100 * seed, "a !\n"[seed % 4]);
  const std::vector<std::string> expected = pieces(SplitPattern::kGpt2, text);
  testing::for_each_target([&] { EXPECT_EQ(pieces(SplitPattern::kGpt2, text), expected); });
}

TEST(Pretokenizer, AllShortTextsOfAscii) {
  const std::string alphabet = "a1 !'\nstlveS\r/\x1F";
  for (const auto& [name, pretokenizer, regex] : known_patterns()) {
    for (size_t i = 0; i < alphabet.size() * alphabet.size() * alphabet.size(); ++i) {
      const size_t n = alphabet.size();
      const std::string text = {alphabet[i % n], alphabet[i / n % n], alphabet[i / n / n],
                                alphabet[i * 7 % n]};
      ASSERT_EQ(pieces(pretokenizer, text), pieces(regex, text))
          << name << ": " << ::testing::PrintToString(text);
    }
  }
}

TEST(Pretokenizer, NewerThanPcre2) {
  // U+31350 is a letter since Unicode 15, U+1C89 since 16, U+1E5D0 (of 16) too; U+10EC5 (17) is none here.
  EXPECT_EQ(pieces("a\xF0\xB1\x8D\x90 \xE1\xB2\x89"
                   "b \xF0\x9E\x97\x90"),
            (Pieces{"a\xF0\xB1\x8D\x90",
                    " \xE1\xB2\x89"
                    "b",
                    " \xF0\x9E\x97\x90"}));
  EXPECT_EQ(pieces("a\xF0\x90\xBB\x85"), (Pieces{"a", "\xF0\x90\xBB\x85"}));
}

TEST(Pretokenizer, KnownPatternsAsPublished) {
  const auto cut = [](SplitPattern pattern, std::string_view text) { return pieces(pattern, text); };
  EXPECT_EQ(cut(SplitPattern::kCl100k, "I'LL say 12345\n\n (ok)  "),
            (Pieces{"I", "'LL", " say", " ", "123", "45", "\n\n", " (", "ok", ")", "  "}));
  EXPECT_EQ(cut(SplitPattern::kCl100k, "a \n "), (Pieces{"a", " \n "}));
  EXPECT_EQ(cut(SplitPattern::kLlama3, "a \n "), (Pieces{"a", " \n", " "}));
  EXPECT_EQ(cut(SplitPattern::kQwen2, "x 123"), (Pieces{"x", " ", "1", "2", "3"}));
  EXPECT_EQ(cut(SplitPattern::kO200k, "HelloWORLD don'T a/b//\n"),
            (Pieces{"Hello", "WORLD", " don'T", " a", "/b", "//\n"}));
  EXPECT_EQ(cut(SplitPattern::kDigits, "a 12b"), (Pieces{"a ", "1", "2", "b"}));
  EXPECT_EQ(cut(SplitPattern::kNone, "a b\xFF"), (Pieces{"a b\xFF"}));
}

TEST(Pretokenizer, StepsCutFurther) {
  const Pretokenizer smol(std::vector<SplitStep>{{SplitPattern::kDigits, ""}, {SplitPattern::kGpt2, ""}});
  // White space before a digit is the end of a text to the second step.
  EXPECT_EQ(pieces(smol, "in  1984 we"), (Pieces{"in", "  ", "1", "9", "8", "4", " we"}));
  const Pretokenizer own(std::vector<SplitStep>{{SplitPattern::kOwn, "[a-c]+"}, {SplitPattern::kDigits, ""}});
  EXPECT_EQ(pieces(own, "xabcx1y"), (Pieces{"x", "abc", "x", "1", "y"}));
}

TEST(Pretokenizer, OwnPatterns) {
  const auto own = [](const std::string& expression) {
    return Pretokenizer(std::vector<SplitStep>{{SplitPattern::kOwn, expression}});
  };
  EXPECT_EQ(pieces(own("\\d"), "ab12"), (Pieces{"ab", "1", "2"}));
  EXPECT_EQ(pieces(own("x*"), "axxb"), (Pieces{"a", "xx", "b"}));
  EXPECT_EQ(pieces(own("$"), "a\n"), (Pieces{"a\n"}));
  EXPECT_EQ(pieces(own("[\\s]"), "a\xE1\xA0\x8E\xC2\xA0"), (Pieces{"a\xE1\xA0\x8E", "\xC2\xA0"}));
  EXPECT_EQ(pieces(own("b"),
                   "ab\xFF"
                   "b"),
            (Pieces{"a", "b", "\xFF", "b"}));
  const std::string refused = testing::message_of(ErrorKind::kUse, [&] { own("a(b"); });
  testing::expect_contains(refused, "a(b");
  testing::expect_contains(refused, "missing closing parenthesis");
  testing::message_of(ErrorKind::kUse, [&] { own(std::string(100'000, 'a')); });
  testing::message_of(ErrorKind::kUse, [&] { Pretokenizer(std::vector<SplitStep>(17)); });
  // Backtracking that never ends is given up.
  testing::message_of(ErrorKind::kData,
                      [&] { pieces(own("(a+)+$"), std::string(60, 'a') + "b" + std::string(3, 'a')); });
}

TEST(Pretokenizer, ASafeCutChangesNothing) {
  for (const auto& [name, pretokenizer, regex] : known_patterns()) {
    size_t cuts = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const std::string text = random_characters(seed, 60, seed % 3 != 0);
      for (size_t size = 1; size < text.size(); size += 7) {
        const size_t cut = pretokenizer.last_safe_cut(std::string_view(text).substr(0, size));
        ASSERT_LT(cut, size);
        if (cut == 0) continue;
        ++cuts;
        Pieces both = pieces(pretokenizer, text.substr(0, cut));
        for (std::string& piece : pieces(pretokenizer, text.substr(cut))) both.push_back(std::move(piece));
        ASSERT_EQ(both, pieces(pretokenizer, text))
            << name << ", cut at " << cut << " of " << ::testing::PrintToString(text);
      }
    }
    if (name == "none") {
      EXPECT_EQ(cuts, 0u);
    } else {
      EXPECT_GT(cuts, 400u) << name;
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
    while (text.size() < 500'000) text += unit;
    for (const auto& [name, pretokenizer, regex] : known_patterns()) {
      const size_t count = pieces(pretokenizer, text).size();
      EXPECT_TRUE(count == 1 || unit == "7") << name << " " << ::testing::PrintToString(unit);
    }
  }
}

}  // namespace
}  // namespace tril
