// Files of other programs: read, written, read again; what a format cannot say; the ids that others give.
#include <nlohmann/json.hpp>

#include "tests/support/mutate.h"
#include "tests/text/text_testing.h"
#include "tril/containers/gguf.h"
#include "tril/text/normalization.h"
#include "tril/text/split_patterns.h"
#include "tril/text/tokenizer.h"
#include "tril/text/tokenizer_parts.h"

namespace tril {
namespace {

using testing::expect_contains;
using testing::message_of;
using testing::random_text;
using testing::TemporaryFolder;
using Format = TokenizerFormat;
using Ids = std::vector<int32_t>;
using Json = nlohmann::json;
using Views = std::vector<std::string_view>;

const std::string kText =
    "The cat sat on the mat. The dog sat on the log, where the cat's mat was; we'll see the cat and the dog "
    "there, and there the frog sat with them.\n\n";

Tokenizer small_bpe() { return Tokenizer::train_bpe(Views{kText}, 290); }

// The bytes, a few words, each with its score; spaces are spaces.
TokenizerParts small_sentencepiece() {
  TokenizerParts parts;
  parts.kind = Tokenizer::Kind::kSentencePiece;
  const auto add = [&](std::string bytes, bool joinable, float score) {
    parts.tokens.push_back(std::move(bytes));
    parts.joinable.push_back(joinable);
    parts.scores.push_back(score);
  };
  for (const char* name : {"<unk>", "<s>", "</s>"}) {
    parts.specials.push_back({static_cast<int32_t>(parts.tokens.size()), name, true});
    add("", false, 0);
  }
  for (int byte = 0; byte < 256; ++byte) {
    parts.byte_tokens[static_cast<size_t>(byte)] = static_cast<int32_t>(parts.tokens.size());
    add(std::string(1, static_cast<char>(byte)), false, 0);
  }
  float score = 0;
  for (const char* token : {"he", " t", " the", "  ", "at", " c", " cat", "caf", "\xC3\xA9", "caf\xC3\xA9",
                            " ", "t", "h", "e", "c", "a", "f"})
    add(token, true, score -= 1);
  parts.unknown = 0;
  parts.begin_of_text = 1;
  parts.end_of_text = 2;
  parts.prefix = SpacePrefix::kAlways;
  parts.strips_space = true;
  return parts;
}

Tokenizer written_and_loaded(const TemporaryFolder& folder, const std::string& name,
                             const std::string& content) {
  return Tokenizer::load(folder.write(name, content));
}

void expect_same(const Tokenizer& a, const Tokenizer& b) {
  EXPECT_EQ(a.fingerprint(), b.fingerprint());
  EXPECT_EQ(a.vocabulary(), b.vocabulary());
  EXPECT_EQ(a.end_of_text(), b.end_of_text());
  EXPECT_EQ(a.pattern(), b.pattern());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::string text = random_text(seed, 200, seed % 2 == 0) + kText;
    const Ids ids = a.encode(text);
    ASSERT_EQ(ids, b.encode(text));
    ASSERT_EQ(a.decode(ids), text);
    ASSERT_EQ(b.decode(ids), text);
  }
}

TEST(TokenizerFormats, AByteLevelBpeGoesThroughEachFormat) {
  const Tokenizer bpe = small_bpe();
  const TemporaryFolder folder;
  bpe.export_to(folder.path() / "files", Format::kVocabAndMerges);
  expect_same(bpe, Tokenizer::load(folder.path() / "files"));
  expect_same(bpe, Tokenizer::load(folder.path() / "files/merges.txt"));
  bpe.export_to(folder.path() / "gpt2_small.tiktoken", Format::kTiktoken);
  expect_same(bpe, Tokenizer::load(folder.path() / "gpt2_small.tiktoken"));
  bpe.export_to(folder.path() / "x.gguf", Format::kGguf);
  expect_same(bpe, Tokenizer::load(folder.path() / "x.gguf"));
  bpe.export_to(folder.path() / "x.json", Format::kTokenizerJson);
  expect_same(bpe, Tokenizer::load(folder.path() / "x.json"));
}

TEST(TokenizerFormats, SentencePieceGoesThroughEachFormat) {
  const TokenizerParts parts = small_sentencepiece();
  const TemporaryFolder folder;
  const Tokenizer bin = written_and_loaded(folder, "tokenizer.bin", format_llama2_tokenizer(parts));
  EXPECT_EQ(bin.kind_name(), "sentencepiece");
  EXPECT_EQ(bin.begin_of_text(), 1);
  EXPECT_EQ(bin.end_of_text(), 2);
  for (const auto& [format, name] :
       {std::pair(Format::kTokenizerJson, "x.json"), {Format::kGguf, "x.gguf"}, {Format::kLlama2, "x.bin"}}) {
    bin.export_to(folder.path() / name, format);
    const Tokenizer again = Tokenizer::load(folder.path() / name);
    EXPECT_EQ(again.begin_of_text(), 1);
    EXPECT_EQ(again.end_of_text(), 2);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const std::string text = random_text(seed, 100, seed % 2 == 0) + " the cafe caf\xC3\xA9   cat";
      const Ids ids = bin.encode(text);
      ASSERT_EQ(ids, again.encode(text)) << name;
      ASSERT_EQ(again.decode(ids), text) << name;
    }
  }
}

TEST(SentencePiece, MergesBecomeScoresWhereTheyCan) {
  const TemporaryFolder folder;
  TokenizerParts parts = small_sentencepiece();
  parts.metaspace = true;
  const Tokenizer from_json = written_and_loaded(folder, "x.json", format_tokenizer_json(parts));
  from_json.export_to(folder.path() / "y.bin", Format::kLlama2);
  from_json.export_to(folder.path() / "y.gguf", Format::kGguf);
  for (const char* name : {"y.bin", "y.gguf"}) {
    const Tokenizer again = Tokenizer::load(folder.path() / name);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const std::string text = random_text(seed, 100, seed % 2 == 0) + " the cafe caf\xC3\xA9   cat";
      ASSERT_EQ(from_json.encode(text), again.encode(text)) << name;
    }
  }
}

TEST(SentencePiece, ATokenThatNoTextReachesKeepsItsSpelling) {
  const TemporaryFolder folder;
  TokenizerParts parts = small_sentencepiece();
  parts.metaspace = true;
  parts.tokens.push_back(" the");  // beside the token of U+2581 and "the"
  parts.joinable.push_back(false);
  parts.scores.push_back(-100);
  const Tokenizer from_gguf = written_and_loaded(folder, "x.gguf", format_gguf_tokenizer(parts));
  EXPECT_EQ(from_gguf.vocabulary(), std::ssize(parts.tokens));
  from_gguf.export_to(folder.path() / "y.gguf", Format::kGguf);
  expect_same(from_gguf, Tokenizer::load(folder.path() / "y.gguf"));
}

TEST(SentencePiece, JoinsTheHighestScoreFirstAndTheLeftmostAmongEquals) {
  const TemporaryFolder folder;
  TokenizerParts parts = small_sentencepiece();
  const auto id_of = [&](std::string_view token) {
    for (size_t id = 0; id < parts.tokens.size(); ++id)
      if (parts.joinable[id] && parts.tokens[id] == token) return static_cast<int32_t>(id);
    return -1;
  };
  const auto encode = [&](std::string_view text) {
    return written_and_loaded(folder, "t.bin", format_llama2_tokenizer(parts)).encode(text);
  };
  EXPECT_EQ(encode("the"), Ids{id_of(" the")});
  // "he" before " t": " the" is made of " t" and "he". "at" comes before " c", so " cat" has to wait for it.
  EXPECT_EQ(encode("cat the"), (Ids{id_of(" cat"), id_of(" the")}));
  EXPECT_EQ(encode(" the"), (Ids{id_of(" "), id_of(" the")}));  // " t" comes before "  "
  EXPECT_EQ(encode("caf\xC3\xA9"), (Ids{id_of(" c"), id_of("a"), id_of("f"), id_of("\xC3\xA9")}));
  // A character without a token: its bytes. Bytes that are no text as well.
  EXPECT_EQ(encode("\xE4\xB8\xAD\xFF"), (Ids{id_of(" "), 3 + 0xE4, 3 + 0xB8, 3 + 0xAD, 3 + 0xFF}));
  EXPECT_TRUE(encode("").empty());
  // Equal scores: the leftmost.
  for (size_t id = 0; id < parts.scores.size(); ++id) parts.scores[id] = 0;
  EXPECT_EQ(encode("hehe"), (Ids{id_of(" "), id_of("he"), id_of("he")}));
  EXPECT_EQ(encode("  "), (Ids{id_of("  "), id_of(" ")}));
  const Tokenizer equal = written_and_loaded(folder, "t.bin", format_llama2_tokenizer(parts));
  expect_contains(message_of(ErrorKind::kUse, [&] { equal.save(folder.path() / "x.json"); }), "same score");
}

TEST(SentencePiece, LongWordsAndManyWords) {
  const TemporaryFolder folder;
  const Tokenizer tokenizer =
      written_and_loaded(folder, "t.bin", format_llama2_tokenizer(small_sentencepiece()));
  for (const std::string unit : {"he", " ", " cat the", "\xF0\x9F\x8C\x8D"}) {
    std::string text;
    while (text.size() < 300'000) text += unit;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(TokenizerFormats, WhatAFormatCannotSayIsRefused) {
  const TemporaryFolder folder;
  const auto refusal = [&](const Tokenizer& tokenizer, Format format) {
    const std::string message =
        message_of(ErrorKind::kUse, [&] { tokenizer.export_to(folder.path() / "out", format); });
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "out"));
    return message;
  };
  const Tokenizer characters = Tokenizer::characters(Views{kText}, true);
  for (const Format format : {Format::kVocabAndMerges, Format::kTiktoken, Format::kGguf})
    expect_contains(refusal(characters, format), "byte-level BPE");
  expect_contains(refusal(small_bpe(), Format::kLlama2), "SentencePiece");
  expect_contains(refusal(Tokenizer::bytes(true), Format::kLlama2), "SentencePiece");
  const auto changed = [&](auto&& change) {
    small_bpe().save(folder.path() / "t.json");
    Json json = Json::parse(testing::slurp(folder.path() / "t.json"));
    change(json);
    return written_and_loaded(folder, "t.json", json.dump());
  };
  const Tokenizer llama3 = changed([](Json& json) {
    json["pre_tokenizer"] = Json::parse(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Digits", "individual_digits": true}, {"type": "ByteLevel", "add_prefix_space": false}]})");
  });
  EXPECT_EQ(llama3.pattern(), "digits");
  expect_contains(refusal(llama3, Format::kVocabAndMerges), "digits");
  const Tokenizer nfc = changed([](Json& json) { json["normalizer"] = {{"type", "NFC"}}; });
  expect_contains(refusal(nfc, Format::kGguf), "normalization form C");
  const Tokenizer text_token = changed([](Json& json) {
    json["added_tokens"].push_back({{"id", 290}, {"content", "<tool>"}, {"special", false}});
  });
  expect_contains(refusal(text_token, Format::kTiktoken), "<tool>");
  expect_contains(refusal(text_token, Format::kVocabAndMerges), "<tool>");
  // "e s" with the id of "s e": ids are no ranks.
  const Tokenizer shuffled =
      changed([](Json& json) { std::swap(json["model"]["merges"][0], json["model"]["merges"][1]); });
  expect_contains(refusal(shuffled, Format::kTiktoken), "in another order");
  const Tokenizer whole = changed([](Json& json) {
    json["model"]["ignore_merges"] = true;
    json["model"]["merges"].erase(json["model"]["merges"].size() - 1);
  });
  expect_contains(refusal(whole, Format::kVocabAndMerges), "ignore_merges");
}

TEST(Specials, AreFoundOnlyWhereTheyAreAllowed) {
  const TemporaryFolder folder;
  small_bpe().save(folder.path() / "t.json");
  Json json = Json::parse(testing::slurp(folder.path() / "t.json"));
  for (const auto& [id, content, special] : {std::tuple(290, "<|end", true),
                                             {291, "<|endoftext|><|end", true},
                                             {292, "<tool>", false},
                                             {293, "  ", false}})
    json["added_tokens"].push_back({{"id", id}, {"content", content}, {"special", special}});
  const Tokenizer tokenizer = written_and_loaded(folder, "t.json", json.dump());
  const int32_t end = tokenizer.end_of_text();
  const std::string text = "a<|endoftext|>b<|end c<|endoftext|><|end<tool>  d";
  EXPECT_EQ(tokenizer.count_specials(text), 3);
  const Ids ordinary = tokenizer.encode(text);
  for (const int32_t id : {end, 290, 291}) EXPECT_EQ(std::count(ordinary.begin(), ordinary.end(), id), 0);
  for (const int32_t id : {292, 293}) EXPECT_EQ(std::count(ordinary.begin(), ordinary.end(), id), 1);
  EXPECT_EQ(tokenizer.decode(ordinary), text);
  // The longest that starts at a place.
  const Ids all = tokenizer.encode_with_specials(text);
  EXPECT_EQ(all[1], end);
  EXPECT_EQ(all[3], 290);
  EXPECT_EQ(std::count(all.begin(), all.end(), 291), 1);
  EXPECT_EQ(tokenizer.decode(all), "ab c<tool>  d");
  EXPECT_EQ(tokenizer.decode(all, Tokenizer::Controls::kShow), text);
  const Ids some = tokenizer.encode_with_specials(text, Views{"<|endoftext|>"});
  EXPECT_EQ(std::count(some.begin(), some.end(), end), 2);
  EXPECT_EQ(std::count(some.begin(), some.end(), 290), 0);
  expect_contains(message_of(ErrorKind::kUse, [&] { tokenizer.encode_with_specials(text, Views{"<|x|>"}); }),
                  "<|x|>");
  expect_contains(message_of(ErrorKind::kUse, [&] { tokenizer.decode(Ids{294}); }), "294");
}

TEST(TokenizerFormats, IdsWithoutATokenAreNamed) {
  const TemporaryFolder folder;
  small_bpe().save(folder.path() / "t.json");
  Json json = Json::parse(testing::slurp(folder.path() / "t.json"));
  json["model"]["vocab"]["<|late|>"] = 300;
  json["added_tokens"].push_back({{"id", 300}, {"content", "<|late|>"}, {"special", true}});
  const Tokenizer tokenizer = written_and_loaded(folder, "t.json", json.dump());
  EXPECT_EQ(tokenizer.vocabulary(), 301);
  EXPECT_TRUE(tokenizer.is_defined(300));
  EXPECT_FALSE(tokenizer.is_defined(295));
  EXPECT_EQ(tokenizer.token_bytes(295), "");
  expect_contains(message_of(ErrorKind::kUse, [&] { tokenizer.decode(Ids{0, 295}); }), "id 295 at place 1");
  tokenizer.save(folder.path() / "again.json");
  EXPECT_EQ(Tokenizer::load(folder.path() / "again.json").fingerprint(), tokenizer.fingerprint());
}

TEST(TokenizerFormats, FilesAreFoundAndNamed) {
  const TemporaryFolder folder;
  expect_contains(message_of(ErrorKind::kData, [&] { Tokenizer::load(folder.path()); }),
                  "no tokenizer is in this folder");
  small_bpe().export_to(folder.path() / "a.tiktoken", Format::kTiktoken);
  expect_contains(message_of(ErrorKind::kData, [&] { Tokenizer::load(folder.path()); }), "--pattern");
  EXPECT_EQ(Tokenizer::load(folder.path() / "a.tiktoken", "qwen2").pattern(), "qwen2");
  expect_contains(
      message_of(ErrorKind::kUse, [&] { Tokenizer::load(folder.path() / "a.tiktoken", "gpt-5"); }), "llama3");
  small_bpe().export_to(folder.path() / "b.gguf", Format::kGguf);
  expect_contains(message_of(ErrorKind::kData, [&] { Tokenizer::load(folder.path()); }),
                  "several tokenizers");
  small_bpe().save(folder.path() / "tokenizer.json");
  EXPECT_EQ(Tokenizer::load(folder.path()).pattern(), "gpt2");
  expect_contains(message_of(ErrorKind::kUse, [&] { Tokenizer::load(folder.path(), "llama3"); }),
                  "leave --pattern out");
  expect_contains(message_of(ErrorKind::kData, [&] { written_and_loaded(folder, "t.model", "\x0A\x05"); }),
                  "SentencePiece");
  expect_contains(message_of(ErrorKind::kData, [&] { written_and_loaded(folder, "t.xyz", "abc"); }),
                  "no tokenizer that is known");
  std::filesystem::remove(folder.path() / "tokenizer.json");
  folder.write("vocab.json", "{}");
  expect_contains(message_of(ErrorKind::kData, [&] { Tokenizer::load(folder.path()); }),
                  "merges.txt is not there");
}

TEST(TokenizerFormats, DamageIsNamed) {
  const auto tiktoken = [](const std::string& text) {
    return message_of(ErrorKind::kData, [&] { parse_tiktoken(text, "x.tiktoken"); });
  };
  std::string bytes =
      format_tiktoken(parse_llama2_tokenizer(format_llama2_tokenizer(small_sentencepiece()), "t"));
  EXPECT_FALSE(bytes.empty());
  const TemporaryFolder folder;
  Tokenizer::bytes(false).export_to(folder.path() / "b.json", Format::kTokenizerJson);
  std::string ranks;
  const Tokenizer bpe = Tokenizer::train_bpe(Views{""}, 257);
  bpe.export_to(folder.path() / "b.tiktoken", Format::kTiktoken);
  ranks = testing::slurp(folder.path() / "b.tiktoken");
  expect_contains(tiktoken(""), "byte 0x00");
  expect_contains(tiktoken("IQ== 0\nx\n"), "line 2");
  expect_contains(tiktoken("IQ== -1\n"), "line 1");
  expect_contains(tiktoken("IQ== 99999999999\n"), "line 1");
  expect_contains(tiktoken("I=== 1\n"), "line 1");
  expect_contains(tiktoken("IQ== 2000000000\n"), "rank 2000000000 of 1 tokens");
  expect_contains(tiktoken(ranks + "IQ== 256\n"), "\"!\" is there twice");
  expect_contains(tiktoken(ranks + "YWI= 5\n"), "rank 5 is there twice");
  expect_contains(tiktoken(ranks + "YWJj 256\n"), "\"abc\" of rank 256 is made of 3 parts");
  const auto llama2 = [](const std::string& file) {
    return message_of(ErrorKind::kData, [&] { parse_llama2_tokenizer(file, "t.bin"); });
  };
  const std::string good = format_llama2_tokenizer(small_sentencepiece());
  expect_contains(llama2(""), "cut off");
  expect_contains(llama2(good.substr(0, good.size() - 1)), "token 275");
  expect_contains(llama2(good.substr(0, 100)), "t.bin");
  expect_contains(llama2(good.substr(0, 16) + std::string("\xff\xff\xff\x7f", 4)), "t.bin");
  expect_contains(llama2(good + good.substr(good.size() - 9)), "\"f\", is there twice");
  const auto gguf = [](const GgufHeader& header) {
    return message_of(ErrorKind::kData, [&] { parse_gguf_tokenizer(header.without_tensors(), "x.gguf"); });
  };
  GgufHeader header;
  expect_contains(gguf(header), "has no tokenizer");
  header.add("tokenizer.ggml.model", std::string_view("bert"));
  expect_contains(gguf(header), "\"bert\" is not supported");
}

// Bytes of every format under damage: refused in one line, or a tokenizer that gives a text back.
class FormatFuzz : public ::testing::Test {
 protected:
  template <class Parse>
  void damage(const std::string& good, std::string_view telling, uint64_t stream, uint64_t rounds,
              Parse&& parse) {
    EXPECT_NO_THROW(parse(good));
    for (uint64_t i = 0; i < rounds; ++i) {
      const RandomStream random(stream, "formats", i);
      const bool number = i % 3 == 0;
      const std::string bad =
          number ? testing::mutate_number(good, random.below(9, good.size()), 4 << (i % 2), random)
                 : testing::mutate(good, random, telling);
      try {
        const TokenizerParts parts = parse(bad);
        EXPECT_LE(parts.tokens.size(), 400u + kMostGaps);
        ++accepted_;
      } catch (const Error& error) {
        EXPECT_EQ(std::string_view(error.what()).find_first_of("\n\r\x1b"), std::string_view::npos)
            << error.what();
        EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
        ++refused_;
      }
    }
  }
  static std::string exported(const Tokenizer& tokenizer, Format format) {
    const TemporaryFolder folder;
    tokenizer.export_to(folder.path() / "x", format);
    return testing::slurp(folder.path() / "x");
  }
  const uint64_t rounds_ = testing::fuzz_rounds(1500);
  int accepted_ = 0, refused_ = 0;
};

TEST_F(FormatFuzz, Tiktoken) {
  damage(exported(small_bpe(), Format::kTiktoken), "=+/ \nAZ09", 1, rounds_,
         [](const std::string& text) { return parse_tiktoken(text, "x"); });
  EXPECT_GT(refused_, 500);
}

TEST_F(FormatFuzz, Llama2) {
  damage(format_llama2_tokenizer(small_sentencepiece()), std::string_view("\0\1\2\xff <", 6), 2, rounds_,
         [](const std::string& bytes) { return parse_llama2_tokenizer(bytes, "x"); });
  EXPECT_GT(refused_, 500);
}

TEST_F(FormatFuzz, Gguf) {
  for (const Tokenizer::Kind kind : {Tokenizer::Kind::kBpe, Tokenizer::Kind::kSentencePiece}) {
    const std::string good = kind == Tokenizer::Kind::kBpe ? exported(small_bpe(), Format::kGguf)
                                                           : format_gguf_tokenizer(small_sentencepiece());
    damage(good, std::string_view("\0\1\2\x9\xff <", 7), 3, rounds_ / 2,
           [](const std::string& bytes) { return parse_gguf_tokenizer(bytes, "x"); });
  }
  EXPECT_GT(refused_, 300);
}

TEST_F(FormatFuzz, VocabAndMerges) {
  const TemporaryFolder folder;
  small_bpe().export_to(folder.path(), Format::kVocabAndMerges);
  const std::string vocab = testing::slurp(folder.path() / "vocab.json"),
                    merges = testing::slurp(folder.path() / "merges.txt");
  damage(vocab, "\"{}:, 0129", 4, rounds_ / 2,
         [&](const std::string& text) { return parse_vocab_and_merges(text, merges, "", "x"); });
  damage(merges, " \n#ab", 5, rounds_ / 2,
         [&](const std::string& text) { return parse_vocab_and_merges(vocab, text, "{\"<x>\": 290}", "x"); });
  EXPECT_GT(refused_, 300);
}

TEST_F(FormatFuzz, SentencePieceJson) {
  damage(format_tokenizer_json(small_sentencepiece()), "\"{}[]:, 0129", 6, rounds_,
         [](const std::string& text) { return parse_tokenizer_json(text, "x"); });
  EXPECT_GT(refused_, 300);
}

TEST(SplitPatterns, HaveNamesAndLimits) {
  for (const std::string& name : split_names()) {
    const auto splits = splits_of_name(name);
    ASSERT_TRUE(splits.has_value());
    EXPECT_EQ(name_of_splits(*splits), name);
    std::string all;
    pretokenizer_of(*splits).split(kText, [&](std::string_view piece) { all += piece; });
    EXPECT_EQ(all, kText) << name;
  }
  for (const char* good : {"\\p{L}+", "[^\\s\\p{N}]{2,3}| ?a++", "(?:x|y)z(?!\\S)", "\\p{Han}+", "[a\\-z\\]]",
                           "(?i:'s|'t|'re|'ve|'m|'ll|'d)"})
    EXPECT_EQ(split_pattern_fault(good), std::nullopt) << good;
  for (const char* bad : {"", "[a[bc]]", "[a&&b]", "\\h", "x$", "^x", "(?i:ss)", "\\p{Greek}", "a{2}+",
                          "a{,3}", "[\\S]", "a*?", "\\", "[a", "(?<n>a)", "\\1", "\\p{L"})
    EXPECT_NE(split_pattern_fault(bad), std::nullopt) << bad;
  expect_contains(message_of(ErrorKind::kData, [] { pretokenizer_of({"x("}); }), "x(");
}

TEST(Normalization, FormC) {
  EXPECT_TRUE(is_surely_nfc("caf\xC3\xA9 abc"));
  EXPECT_FALSE(is_surely_nfc("e\xCC\x81"));
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"cafe\xCC\x81!", "caf\xC3\xA9!"},
      {"\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"},  // Hangul of three parts
      {"\xEA\xB0\x80\xE1\x86\xA8", "\xEA\xB0\x81"},              // and of two
      {"\xE2\x84\xAB", "\xC3\x85"},                              // Angstrom sign: one character for another
      {"a\xCC\x81\xCC\xA3", "\xE1\xBA\xA1\xCC\x81"},             // the dot below comes first
      {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC"},              // excluded from composition
      {"\xCC\x81\xCC\xA3", "\xCC\xA3\xCC\x81"},                  // marks alone
      {"e\xFF\xCC\x81", "e\xFF\xCC\x81"},                        // nothing across bytes that are no text
      {"\xF0\x91\x82\x99\xF0\x91\x82\xBA", "\xF0\x91\x82\x9A"},  // beyond 16 bits
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(to_nfc(text), expected) << ::testing::PrintToString(text);
    EXPECT_EQ(to_nfc(expected), expected);
  }
}

// Small tokenizers of each kind with the ids that Hugging Face's tokenizers gives;
// tests/interop_scripts/check_tokenizer_formats.py --write-cases makes them.
TEST(TokenizerFormats, CasesOfOthersGiveTheSameIds) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TRIL_TOKENIZER_CASES_FOLDER)) {
    const Json json = Json::parse(testing::slurp(entry.path()));
    const TemporaryFolder folder;
    const std::string name = entry.path().stem().string();
    const Tokenizer tokenizer = written_and_loaded(folder, "tokenizer.json", json["tokenizer"].dump());
    const bool sentencepiece = name == "llama2" || name == "mistral";
    EXPECT_EQ(tokenizer.pattern(), sentencepiece ? "none" : name == "smollm" ? "digits" : name);
    tokenizer.save(folder.path() / "again.json");
    const Tokenizer again = Tokenizer::load(folder.path() / "again.json");
    EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint()) << name;
    ASSERT_GE(json["texts"].size(), 20u);
    for (size_t i = 0; i < json["texts"].size(); ++i) {
      const auto text = json["texts"][i].get<std::string>();
      EXPECT_EQ(tokenizer.encode_with_specials(text), json["ids"][i].get<Ids>())
          << name << ": " << json["texts"][i];
      EXPECT_EQ(again.encode_with_specials(text), json["ids"][i].get<Ids>())
          << name << ": " << json["texts"][i];
    }
    ++files;
  }
  EXPECT_EQ(files, 10);
}

TEST(TokenizerFormats, PublishedFilesGiveTheIdsOfTheCases) {
  TRIL_NEEDS_TEST_DATA();
  const auto folder = *testing::test_data() / "tokenizer";
  const Tokenizer r50k = Tokenizer::load(folder / "r50k_base.tiktoken");
  const Tokenizer gpt2 = Tokenizer::load(folder / "gpt2_vocab.json");
  const Tokenizer cl100k = Tokenizer::load(folder / "cl100k_base.tiktoken");
  EXPECT_EQ(r50k.vocabulary(), 50257);
  EXPECT_EQ(r50k.end_of_text(), 50256);
  EXPECT_EQ(r50k.fingerprint(), gpt2.fingerprint());
  EXPECT_EQ(cl100k.vocabulary(), 100277);
  EXPECT_EQ(cl100k.end_of_text(), 100257);
  EXPECT_FALSE(cl100k.is_defined(100256));
  std::ifstream in(*testing::test_data() / "cases/tokenizer_cases.jsonl");
  int cases = 0;
  for (std::string line; std::getline(in, line); ++cases) {
    const Json entry = Json::parse(line);
    const std::string text = testing::from_base64(entry["utf8_b64"]);
    EXPECT_EQ(r50k.encode(text), entry["r50k"].get<Ids>()) << entry["id"];
    EXPECT_EQ(gpt2.encode(text), entry["r50k"].get<Ids>()) << entry["id"];
    EXPECT_EQ(r50k.decode(entry["r50k"].get<Ids>()), text) << entry["id"];
    if (entry.contains("cl100k")) {
      EXPECT_EQ(cl100k.encode(text), entry["cl100k"].get<Ids>()) << entry["id"];
      EXPECT_EQ(cl100k.decode(entry["cl100k"].get<Ids>()), text) << entry["id"];
    }
  }
  EXPECT_EQ(cases, 300);
}

TEST(TokenizerFormats, ARealTokenizerOfLlama2c) {
  TRIL_NEEDS_TEST_DATA();
  const Tokenizer tokenizer = Tokenizer::load(*testing::test_data() / "models/tok512.bin");
  EXPECT_EQ(tokenizer.vocabulary(), 512);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("Once upon a time")), "Once upon a time");
  const std::string text = testing::slurp(*testing::test_data() / "cases/stories260K_greedy200.txt");
  const Ids ids = tokenizer.encode(text);
  EXPECT_EQ(tokenizer.decode(ids), text);
  EXPECT_LT(ids.size(), text.size() / 2);
  EXPECT_EQ(tokenizer.token_bytes(ids[0])[0], ' ');
}

}  // namespace
}  // namespace tril
