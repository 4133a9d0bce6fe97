#include <nlohmann/json.hpp>

#include "tests/text/text_testing.h"
#include "tril/text/byte_alphabet.h"
#include "tril/text/tokenizer.h"
#include "tril/text/tokenizer_parts.h"
#include "tril/text/tokenizer_stream.h"

namespace tril {
namespace {

using testing::expect_contains;
using testing::message_of;
using testing::TemporaryFolder;
using Json = nlohmann::json;
using Views = std::vector<std::string_view>;

const std::string kText =
    "the cat sat on the mat and the rat sat on the cat, the other cat; that hat, then the other hat\n\n";

Tokenizer small_bpe() { return Tokenizer::train_bpe(Views{kText}, 270); }

Json saved(const Tokenizer& tokenizer) {
  const TemporaryFolder folder;
  tokenizer.save(folder.path() / "tokenizer.json");
  return Json::parse(testing::slurp(folder.path() / "tokenizer.json"));
}

Tokenizer loaded(const std::string& text) {
  const TemporaryFolder folder;
  return Tokenizer::load(folder.write("tokenizer.json", text));
}

std::string refusal(const Json& json) {
  return message_of(ErrorKind::kData, [&] { loaded(json.dump()); });
}

// Some published vocabularies have no token for bytes that their training text lacked.
TEST(TokenizerJson, BytesOfRareTextMayLack) {
  Json json = saved(small_bpe());
  json["model"]["vocab"].erase("\u0104");  // the byte 4
  const Tokenizer tokenizer = loaded(json.dump());
  EXPECT_EQ(tokenizer.encode(kText), small_bpe().encode(kText));
  expect_contains(message_of(ErrorKind::kData, [&] { tokenizer.encode("cat\x04"); }), "0x04 at 3");
  std::vector<int32_t> ids;
  TokenizerStream stream(tokenizer, false);
  stream.push("cat", ids);
  stream.push("s\x04", ids);  // kept, since a special token might begin there
  expect_contains(message_of(ErrorKind::kData, [&] { stream.finish(ids); }), "0x04 at 4");
  json["model"]["vocab"].erase("Z");
  expect_contains(refusal(json), "0x5a");
}

TEST(ByteAlphabet, SpellsEveryByte) {
  EXPECT_EQ(spell_bytes(" \n!\x7F"), "\xC4\xA0\xC4\x8A!\xC4\xA1");
  std::set<std::string> all;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    all.insert(spell_bytes(one));
    EXPECT_EQ(unspell_bytes(spell_bytes(one)), one);
  }
  EXPECT_EQ(all.size(), 256u);
  EXPECT_EQ(unspell_bytes(" "), std::nullopt);
  EXPECT_EQ(unspell_bytes("\xE4\xB8\xAD"), std::nullopt);
  EXPECT_EQ(unspell_bytes("\xC2\xAD"), std::nullopt);
}

TEST(TokenizerJson, SavedAndLoadedIsTheSame) {
  std::vector<Tokenizer> all;
  all.push_back(small_bpe());
  all.push_back(Tokenizer::train_bpe(Views{kText}, 257));
  all.push_back(Tokenizer::bytes(false));
  all.push_back(Tokenizer::bytes(true));
  all.push_back(Tokenizer::characters(
      Views{"abc \"\\\n\x01\xC3\xA9\xF0\x9F\x8C\x8D", std::string_view("\0", 1)}, false));
  all.push_back(Tokenizer::characters(Views{kText}, true));
  for (const Tokenizer& tokenizer : all) {
    const Tokenizer again = loaded(saved(tokenizer).dump());
    EXPECT_EQ(again.kind(), tokenizer.kind());
    EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
    EXPECT_EQ(again.vocabulary(), tokenizer.vocabulary());
    EXPECT_EQ(again.end_of_text(), tokenizer.end_of_text());
    const std::string text = tokenizer.kind() == Tokenizer::Kind::kCharacter && again.end_of_text() < 0
                                 ? "c\xF0\x9F\x8C\x8D\"a"
                                 : "the cat sat";
    EXPECT_EQ(again.encode(text), tokenizer.encode(text));
  }
}

TEST(TokenizerJson, IsWrittenAsOthersReadIt) {
  const Json bpe = saved(small_bpe());
  EXPECT_EQ(bpe["version"], "1.0");
  EXPECT_EQ(bpe["added_tokens"][0]["id"], 269);
  EXPECT_EQ(bpe["added_tokens"][0]["content"], "<|endoftext|>");
  EXPECT_EQ(bpe["added_tokens"][0]["special"], true);
  EXPECT_EQ(bpe["pre_tokenizer"], Json::parse(R"({"type": "ByteLevel", "add_prefix_space": false,
                                                  "trim_offsets": true, "use_regex": true})"));
  EXPECT_EQ(bpe["model"]["type"], "BPE");
  EXPECT_EQ(bpe["model"]["vocab"]["!"], 0);
  EXPECT_EQ(bpe["model"]["vocab"]["\xC4\xA0"], 220);
  EXPECT_EQ(bpe["model"]["vocab"].size(), 270u);
  EXPECT_EQ(bpe["model"]["merges"].size(), 13u);
  EXPECT_EQ(bpe["model"]["merges"][0], "a t");
  const Json characters = saved(Tokenizer::characters(Views{"ab"}, false));
  EXPECT_TRUE(characters["pre_tokenizer"].is_null());
  EXPECT_EQ(characters["decoder"]["type"], "Fuse");
  EXPECT_EQ(saved(Tokenizer::bytes(false))["pre_tokenizer"]["use_regex"], false);
}

TEST(TokenizerJson, ReadsOtherSpecialTokens) {
  Json json = saved(small_bpe());
  json["added_tokens"].push_back({{"id", 270}, {"content", "<|pad|>"}, {"special", true}});
  const Tokenizer tokenizer = loaded(json.dump());
  EXPECT_EQ(tokenizer.vocabulary(), 271);
  EXPECT_EQ(tokenizer.end_of_text(), 269);
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{0, 270, 0}), "!!");
  EXPECT_EQ(loaded(saved(tokenizer).dump()).fingerprint(), tokenizer.fingerprint());
}

TEST(TokenizerJson, WhatCannotBeExpressedIsRefusedByName) {
  struct Case {
    const char* pointer;
    Json value;
    const char* named;
  };
  const std::vector<Case> cases = {
      {"/model/type", "WordPiece", "WordPiece"},
      {"/model/type", "Unigram", "Unigram"},
      {"/normalizer", {{"type", "NFKC"}}, "NFKC"},
      {"/normalizer", {{"type", "Lowercase"}}, "Lowercase"},
      {"/truncation", {{"max_length", 5}}, "truncation"},
      {"/padding", {{"length", 5}}, "padding"},
      {"/post_processor", {{"type", "TemplateProcessing"}}, "TemplateProcessing"},
      {"/pre_tokenizer/type", "Whitespace", "Whitespace"},
      {"/pre_tokenizer/type", "Metaspace", "Metaspace"},
      {"/pre_tokenizer/add_prefix_space", true, "add_prefix_space"},
      {"/pre_tokenizer/use_regex", 1, "use_regex"},
      {"/post_processor", {{"type", "RobertaProcessing"}}, "RobertaProcessing"},
      {"/pre_tokenizer", nullptr, "ByteLevel"},
      {"/decoder", nullptr, "decoder"},
      {"/decoder/type", "WordPiece", "WordPiece"},
      {"/model/dropout", 0.1, "dropout"},
      {"/model/continuing_subword_prefix", "##", "continuing_subword_prefix"},
      {"/model/end_of_word_suffix", "</w>", "end_of_word_suffix"},
      {"/model/byte_fallback", 1, "byte_fallback"},
      {"/model/byte_fallback", true, "byte_fallback"},
      {"/model/ignore_merges", "yes", "ignore_merges"},
      {"/added_tokens/0/special", nullptr, "special"},
      {"/added_tokens/0/lstrip", true, "lstrip"},
      {"/added_tokens/0/rstrip", true, "rstrip"},
      {"/added_tokens/0/single_word", true, "single_word"},
      {"/added_tokens/0/id", 5, "<|endoftext|>"},
      {"/added_tokens/0/content", 5, "content"},
      {"/added_tokens", 7, "added_tokens"},
      {"/model", nullptr, "model"},
      {"/model/vocab", nullptr, "vocab"},
      {"/model/vocab", Json::object(), "vocab"},
      {"/model/merges", nullptr, "merges"},
      {"/model/merges", Json::array(), "the merges were lost"},
      {"/model/merges/3", 5, "merge 3"},
      {"/model/merges/3", "abc", "merge 3"},
      {"/model/merges/3", "a b c", "merge 3"},
      {"/model/merges/3", {"a"}, "merge 3"},
      {"/model/merges/3", "q z", "qz"},
      {"/model/merges/3", "unknown x", "unknown"},
      {"/model/vocab/!", 1, "same id 1"},
      {"/model/vocab/!", -1, "-1"},
      {"/model/vocab/!", 4000000000u, "4000000000"},
      {"/model/vocab/!", 1.5, "1.5"},
      {"/model/vocab/!", "0", "id"},
      {"/model/vocab/\xE4\xB8\xAD", 270, "byte alphabet"},
  };
  const Json good = saved(small_bpe());
  EXPECT_NO_THROW(loaded(good.dump()));
  for (const Case& c : cases) {
    Json bad = good;
    bad[Json::json_pointer(c.pointer)] = c.value;
    SCOPED_TRACE(c.pointer);
    const std::string message = refusal(bad);
    expect_contains(message, c.named);
    expect_contains(message, "tokenizer.json: ");
  }
}

TEST(TokenizerJson, MissingAndDoubleTokensAreRefused) {
  Json missing = saved(Tokenizer::bytes(false));
  missing["model"]["vocab"].erase("A");
  missing["model"]["vocab"]["AA"] = 65;
  expect_contains(refusal(missing), "byte 0x41");
  Json gap = saved(Tokenizer::characters(Views{"abc"}, false));
  gap["model"]["vocab"]["d"] = 5000;
  expect_contains(refusal(gap), "5000");
  Json twice = saved(small_bpe());
  twice["model"]["merges"][1] = twice["model"]["merges"][0];
  expect_contains(refusal(twice), "twice");
  Json two_letters = saved(Tokenizer::characters(Views{"abc"}, false));
  two_letters["model"]["vocab"].erase("b");
  two_letters["model"]["vocab"]["bb"] = 1;
  expect_contains(refusal(two_letters), "not one character");
  Json unknown = saved(Tokenizer::characters(Views{"abc"}, false));
  unknown["model"]["unk_token"] = "a";
  expect_contains(refusal(unknown), "unk_token");
}

TEST(TokenizerJson, HostileFilesAreRefused) {
  const std::string deep(200'000, '[');
  expect_contains(message_of(ErrorKind::kData, [&] { loaded(deep); }), "deep");
  std::string deep_objects;
  for (int i = 0; i < 50'000; ++i) deep_objects += "{\"a\":";
  expect_contains(message_of(ErrorKind::kData, [&] { loaded(deep_objects); }), "deep");
  for (const std::string text :
       {"", "nonsense", "[]", "3", "{}", "{\"model\": []}", "\xFF\xFE", "{\"model\": {\"vocab\"",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}"}) {
    message_of(ErrorKind::kData, [&] { loaded(text); });
  }
  message_of(ErrorKind::kData, [] { Tokenizer::load("/nowhere/tokenizer.json"); });
}

// Damaged files load or are refused; nothing else comes out.
TEST(TokenizerJson, RandomDamageIsRefusedOrHarmless) {
  const std::vector<std::string> originals = {saved(Tokenizer::train_bpe(Views{kText}, 262)).dump(),
                                              saved(Tokenizer::characters(Views{"abc\n"}, true)).dump()};
  const std::string inserts =
      "\"{}[],:0123456789-.eE\\u \n\xFF"
      "ab";
  int refused = 0, accepted = 0;
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    const RandomStream random(seed, "damage");
    std::string text = originals[seed % originals.size()];
    uint64_t draw = 0;
    const uint64_t changes = 1 + random.below(draw++, 4);
    for (uint64_t i = 0; i < changes; ++i) {
      const size_t at = random.below(draw++, text.size());
      const char c = inserts[random.below(draw++, inserts.size())];
      switch (random.below(draw++, 4)) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        case 2:
          text.erase(at, 1 + random.below(draw++, 8));
          break;
        default: {
          const size_t from = random.below(draw++, text.size());
          text.insert(at, text.substr(from, random.below(draw++, 40)));
        }
      }
      if (text.empty()) text = "x";
    }
    try {
      const TokenizerParts parts = parse_tokenizer_json(text, "damaged");
      EXPECT_LE(parts.tokens.size(), 300u + kMostGaps);
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::kData));
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 5);
}

}  // namespace
}  // namespace tril
