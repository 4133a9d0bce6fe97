#include "tril/text/tokenizer_stream.h"

#include <nlohmann/json.hpp>

#include "tests/text/text_testing.h"

namespace tril {
namespace {

using testing::random_text;
using testing::TemporaryFolder;
using Ids = std::vector<int32_t>;

// Texts with all that decides where they may be cut: words, marks, special tokens, spelled out and cut short.
std::string mixed_text(uint64_t seed, const Tokenizer& tokenizer, bool valid) {
  const RandomStream random(17, "mixed", seed);
  const char* const kParts[] = {"the cat's ",
                                "caf\xC3\xA9 ",
                                "e\xCC\x81\xCC\xA7 ",
                                " \xE2\x96\x81 ",
                                "\n\n  ",
                                "\xE4\xB8\xAD\xE6\x96\x87",
                                "12345",
                                "<",
                                "<|",
                                "!?' ",
                                "\xE1\x84\x80\xE1\x85\xA1"};
  std::string text;
  uint64_t draw = 0;
  const auto below = [&](uint64_t n) { return random.below(draw++, n); };
  for (uint64_t i = 0, n = below(40); i < n; ++i) {
    const uint64_t kind = below(10);
    if (kind < 6) {
      text += kParts[below(std::size(kParts))];
    } else if (kind < 8 && !tokenizer.specials().empty()) {
      const std::string& special =
          tokenizer.specials()[below(std::min<uint64_t>(tokenizer.specials().size(), 8))].content;
      text += special.substr(0, below(3) == 0 ? below(special.size()) : special.npos);
    } else {
      text += random_text(seed * 100 + i, 20, valid);
    }
  }
  return text;
}

Ids streamed(TokenizerStream& stream, const std::string& text, uint64_t seed, size_t most) {
  const RandomStream random(18, "blocks", seed);
  Ids ids;
  for (size_t at = 0, i = 0; at < text.size(); ++i) {
    const size_t size = std::min<size_t>(random.below(i, most + 1), text.size() - at);
    stream.push(std::string_view(text).substr(at, size), ids);
    at += size;
  }
  stream.finish(ids);
  return ids;
}

void expect_equal(const Tokenizer& tokenizer, const std::string& name) {
  TokenizerStream as_text(tokenizer, false), with_controls(tokenizer, true);
  int64_t spellings = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const std::string text = mixed_text(seed, tokenizer, /*valid=*/seed % 2 == 0);
    const size_t most = seed % 3 == 0 ? 1 : 30;
    ASSERT_EQ(streamed(as_text, text, seed, most), tokenizer.encode(text)) << name << " " << seed;
    ASSERT_EQ(streamed(with_controls, text, seed, most), tokenizer.encode_with_specials(text))
        << name << " " << seed;
    spellings += tokenizer.count_specials(text);
  }
  EXPECT_EQ(as_text.control_spellings(), spellings) << name;
  EXPECT_EQ(with_controls.control_spellings(), 0) << name;
}

TEST(TokenizerStream, TokenizersOfOtherProgramsHaveTheIdsOfTheWhole) {
  const TemporaryFolder folder;
  int kinds = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TRIL_TOKENIZER_CASES_FOLDER)) {
    const nlohmann::json json = nlohmann::json::parse(testing::slurp(entry.path()));
    const Tokenizer tokenizer = Tokenizer::load(folder.write("tokenizer.json", json["tokenizer"].dump()));
    expect_equal(tokenizer, entry.path().filename().string());
    ++kinds;
  }
  EXPECT_GE(kinds, 10);
}

TEST(TokenizerStream, BytesAndCharactersToo) {
  expect_equal(Tokenizer::bytes(/*with_end_of_text=*/true), "bytes");
  const Tokenizer none = Tokenizer::bytes(/*with_end_of_text=*/false);
  std::string all;
  for (uint64_t seed = 0; seed < 400; ++seed) all += mixed_text(seed, none, /*valid=*/true);
  const std::vector<std::string_view> views = {all, "<|endoftext|>"};
  const Tokenizer characters = Tokenizer::characters(views, /*with_end_of_text=*/false);
  TokenizerStream stream(characters, false);
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const std::string text = mixed_text(seed, none, /*valid=*/true);
    ASSERT_EQ(streamed(stream, text, seed, 5), characters.encode(text)) << seed;
  }
  // Places are those of the whole text.
  Ids ids;
  for (int i = 0; i < 1000; ++i) stream.push("the ", ids);
  testing::expect_contains(testing::message_of(ErrorKind::kData, [&] { stream.push("ab\x01", ids); }),
                           "at byte 4002 ");
}

TEST(TokenizerStream, HoldsALittleOfAText) {
  const std::string unit = "The cat sat on the mat, where the cat's mat was.\n";
  const std::vector<std::string_view> views = {unit};
  const Tokenizer tokenizer = Tokenizer::train_bpe(views, 290);
  TokenizerStream stream(tokenizer, false);
  Ids ids;
  for (int i = 1; i < 100; ++i) {
    stream.push(unit, ids);
    const size_t decoded = tokenizer.decode(ids).size();
    EXPECT_GE(decoded + 40, unit.size() * static_cast<size_t>(i));
  }
}

}  // namespace
}  // namespace tril
