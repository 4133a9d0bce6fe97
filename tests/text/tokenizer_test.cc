#include "tril/text/tokenizer.h"

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/text/text_testing.h"

namespace tril {
namespace {

using testing::expect_contains;
using testing::message_of;
using testing::random_text;
using testing::TemporaryFolder;
using Views = std::vector<std::string_view>;

const std::string kText =
    "The cat sat on the mat. The dog sat on the log.\n\nWhere's the cat? We'll see the cat, the dog and the "
    "frog. Every cat and every dog that sees the log sat there, where the frog was; there they all are.\n";

TEST(Tokenizer, BpeIdsAreInGpt2Order) {
  const Tokenizer tokenizer = Tokenizer::train_bpe(Views{kText}, 280);
  EXPECT_EQ(tokenizer.kind_name(), "bpe");
  EXPECT_EQ(tokenizer.vocabulary(), 280);
  EXPECT_EQ(tokenizer.token_bytes(0), "!");
  EXPECT_EQ(tokenizer.token_bytes(93), "~");
  EXPECT_EQ(tokenizer.token_bytes(94), "\xA1");
  EXPECT_EQ(tokenizer.token_bytes(187), "\xFF");
  EXPECT_EQ(tokenizer.token_bytes(188), std::string_view("\0", 1));
  EXPECT_EQ(tokenizer.token_bytes(220), " ");
  EXPECT_EQ(tokenizer.token_bytes(198), "\n");
  EXPECT_EQ(tokenizer.token_bytes(255), "\xAD");
  EXPECT_EQ(tokenizer.end_of_text(), 279);
  EXPECT_EQ(tokenizer.token_bytes(279), "");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{0, 279, 0}), "!!");
  for (int32_t id = 256; id < 279; ++id) EXPECT_GE(tokenizer.token_bytes(id).size(), 2u);
}

TEST(Tokenizer, DecodeOfEncodeIsTheText) {
  const std::string shakespeare = random_text(7, 5000, true) + kText;
  const Tokenizer bpe = Tokenizer::train_bpe(Views{shakespeare}, 400);
  const Tokenizer bytes = Tokenizer::bytes(true);
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const std::string text = random_text(seed, seed * 3, seed % 2 == 0);
    ASSERT_EQ(bpe.decode(bpe.encode(text)), text) << seed;
    ASSERT_EQ(bytes.decode(bytes.encode(text)), text) << seed;
  }
  for (const std::string text :
       {"a  b   c\n\n\td", "trailing   ", "   ", "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80",
        "<|endoftext|>", "'\xC5\xBF"}) {
    EXPECT_EQ(bpe.decode(bpe.encode(text)), text);
  }
  EXPECT_TRUE(bpe.encode("").empty());
}

TEST(Tokenizer, EndOfTextInTheTextIsOrdinaryText) {
  for (const Tokenizer& tokenizer : {Tokenizer::train_bpe(Views{kText}, 290), Tokenizer::bytes(true)}) {
    const auto ids = tokenizer.encode(kEndOfText);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer.end_of_text()), 0);
    EXPECT_EQ(tokenizer.decode(ids), kEndOfText);
  }
}

TEST(Tokenizer, CharactersInOrderOfTheirCodePoints) {
  const Tokenizer tokenizer = Tokenizer::characters(Views{"ba\xE4\xB8\xAD", "\nb"}, false);
  EXPECT_EQ(tokenizer.kind_name(), "char");
  EXPECT_EQ(tokenizer.vocabulary(), 4);
  EXPECT_EQ(tokenizer.end_of_text(), -1);
  EXPECT_EQ(tokenizer.encode("ab\n\xE4\xB8\xAD"), (std::vector<int32_t>{1, 2, 0, 3}));
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{3, 0}), "\xE4\xB8\xAD\n");
  const Tokenizer with_end = Tokenizer::characters(Views{"ab"}, true);
  EXPECT_EQ(with_end.vocabulary(), 3);
  EXPECT_EQ(with_end.end_of_text(), 2);
}

TEST(Tokenizer, TinyShakespeareHas65Characters) {
  TRIL_NEEDS_TEST_DATA();
  const std::string text = testing::slurp(*testing::test_data() / "corpus/tinyshakespeare.txt");
  const Tokenizer tokenizer = Tokenizer::characters(Views{text}, false);
  EXPECT_EQ(tokenizer.vocabulary(), 65);
  EXPECT_EQ(tokenizer.encode("hii there"), (std::vector<int32_t>{46, 47, 47, 1, 58, 46, 43, 56, 43}));
}

TEST(Tokenizer, AnUnknownCharacterIsNamed) {
  const Tokenizer tokenizer = Tokenizer::characters(Views{"abc"}, false);
  const std::string message = message_of(ErrorKind::kData, [&] { tokenizer.encode("ab\xC3\xA9"); });
  expect_contains(message, "'\xC3\xA9' (U+00E9)");
  expect_contains(message, "byte 2");
  expect_contains(message_of(ErrorKind::kData, [&] { tokenizer.encode("a\n"); }), "U+000A");
  expect_contains(message_of(ErrorKind::kData, [&] { tokenizer.encode("a\xFF"); }),
                  "invalid UTF-8 at byte 1");
  message_of(ErrorKind::kData, [] { Tokenizer::characters(Views{"a\xFF"}, false); });
  message_of(ErrorKind::kData, [] { Tokenizer::characters(Views{""}, true); });
}

TEST(Tokenizer, AnIdOutsideTheVocabularyIsNamed) {
  const Tokenizer tokenizer = Tokenizer::bytes(false);
  for (const int32_t id : {256, 99999999, -1, INT32_MIN}) {
    const std::string message = message_of(ErrorKind::kUse, [&] {
      tokenizer.decode(std::vector<int32_t>{65, id});
    });
    expect_contains(message, std::to_string(id));
    message_of(ErrorKind::kUse, [&] { tokenizer.token_bytes(id); });
  }
}

TEST(Tokenizer, ImpossibleVocabulariesAreRefused) {
  for (const int64_t vocabulary : {int64_t{-1}, int64_t{0}, int64_t{256}, int64_t{1} << 21}) {
    expect_contains(message_of(ErrorKind::kUse, [&] { Tokenizer::train_bpe(Views{kText}, vocabulary); }),
                    std::to_string(vocabulary));
  }
  EXPECT_EQ(Tokenizer::train_bpe(Views{kText}, 257).vocabulary(), 257);
  // Too little text for so many: fewer ids.
  EXPECT_LT(Tokenizer::train_bpe(Views{kText}, 100000).vocabulary(), 400);
}

TEST(Tokenizer, TheFingerprintIsOfWhatDecidesIds) {
  const auto print = [](const Tokenizer& tokenizer) { return tokenizer.fingerprint(); };
  const std::string bpe = print(Tokenizer::train_bpe(Views{kText}, 290));
  EXPECT_EQ(bpe, print(Tokenizer::train_bpe(Views{kText}, 290)));
  EXPECT_EQ(bpe.size(), 16u);
  std::set<std::string> all = {bpe};
  EXPECT_TRUE(all.insert(print(Tokenizer::train_bpe(Views{kText}, 280))).second);
  EXPECT_TRUE(all.insert(print(Tokenizer::train_bpe(Views{kText + " xy xy xy xy xy"}, 290))).second);
  EXPECT_TRUE(all.insert(print(Tokenizer::bytes(true))).second);
  EXPECT_TRUE(all.insert(print(Tokenizer::bytes(false))).second);
  EXPECT_TRUE(all.insert(print(Tokenizer::characters(Views{"ab"}, false))).second);
  EXPECT_TRUE(all.insert(print(Tokenizer::characters(Views{"ab"}, true))).second);
}

TEST(Tokenizer, EncodeIsThreadSafe) {
  const Tokenizer tokenizer = Tokenizer::train_bpe(Views{kText}, 290);
  std::string text;
  for (int i = 0; i < 200; ++i) text += kText;
  const auto expected = tokenizer.encode(text);
  std::vector<std::vector<int32_t>> actual(3);
  std::vector<std::thread> threads;
  for (auto& out : actual) threads.emplace_back([&] { out = tokenizer.encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& out : actual) EXPECT_EQ(out, expected);
}

// GPT-2's vocabulary and merges as one tokenizer.json, the merges spelled either way.
std::filesystem::path gpt2_tokenizer(const TemporaryFolder& folder, bool merges_as_pairs) {
  const auto source = *testing::test_data() / "tokenizer";
  nlohmann::json merges = nlohmann::json::array();
  std::ifstream in(source / "gpt2_merges.txt");
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    if (merges_as_pairs) {
      merges.push_back({line.substr(0, space), line.substr(space + 1)});
    } else {
      merges.push_back(line);
    }
  }
  const nlohmann::json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const nlohmann::json root = {
      {"added_tokens", {{{"id", 50256}, {"content", "<|endoftext|>"}, {"special", true}}}},
      {"pre_tokenizer", byte_level},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"vocab", nlohmann::json::parse(testing::slurp(source / "gpt2_vocab.json"))},
        {"merges", merges}}}};
  return folder.write(merges_as_pairs ? "pairs.json" : "strings.json", root.dump());
}

TEST(Tokenizer, Gpt2CasesGiveTheSameIds) {
  TRIL_NEEDS_TEST_DATA();
  const TemporaryFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(gpt2_tokenizer(folder, false));
  EXPECT_EQ(tokenizer.vocabulary(), 50257);
  EXPECT_EQ(tokenizer.end_of_text(), 50256);
  EXPECT_EQ(tokenizer.fingerprint(), Tokenizer::load(gpt2_tokenizer(folder, true)).fingerprint());
  std::ifstream in(*testing::test_data() / "cases/tokenizer_cases.jsonl");
  std::string line;
  int cases = 0;
  while (std::getline(in, line)) {
    const auto entry = nlohmann::json::parse(line);
    const std::string text = testing::from_base64(entry["utf8_b64"]);
    const auto ids = tokenizer.encode(text);
    EXPECT_EQ(ids, entry["r50k"].get<std::vector<int32_t>>()) << entry["id"] << " " << entry["kind"];
    EXPECT_EQ(tokenizer.decode(ids), text) << entry["id"];
    ++cases;
  }
  EXPECT_EQ(cases, 300);
}

}  // namespace
}  // namespace tril
