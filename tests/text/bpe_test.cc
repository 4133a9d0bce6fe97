#include "tril/text/bpe.h"

#include <ctime>
#include <map>
#include <string>

#include "tests/text/text_testing.h"
#include "tril/base/parallel.h"
#include "tril/text/bpe_count.h"
#include "tril/text/bpe_merge.h"
#include "tril/text/bpe_train.h"
#include "tril/text/pretokenizer.h"
#include "tril/text/tokenizer.h"

namespace tril {
namespace {

using testing::random_text;

ByteIds plain_ids() {
  ByteIds ids;
  for (size_t byte = 0; byte < 256; ++byte) ids[byte] = static_cast<int32_t>(byte);
  return ids;
}

// By the calling thread alone and with GPT-2's pattern.
std::vector<Merge> train_merges(std::span<const std::string_view> texts, const ByteIds& byte_ids,
                                int64_t count) {
  SerialExecutor executor;
  BpeTrainOptions options;
  options.merges = count;
  BpeTrainer trainer(std::move(options), executor);
  for (const std::string_view text : texts) {
    trainer.add(text);
    trainer.end_document();
  }
  return trainer.train(byte_ids);
}

BpeModel model_of(const std::vector<Merge>& merges) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const Merge& merge : merges) {
    tokens.push_back(tokens[static_cast<size_t>(merge.left)] + tokens[static_cast<size_t>(merge.right)]);
  }
  return BpeModel(tokens, plain_ids(), merges);
}

// The definition, step by step: count all pairs anew for each merge.
std::vector<Merge> train_slowly(const std::vector<std::string>& texts, int64_t count) {
  std::map<std::vector<int32_t>, int64_t> words;
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const std::string& text : texts) {
    Pretokenizer().split(text, [&](std::string_view piece) {
      std::vector<int32_t> ids;
      for (const char byte : piece) ids.push_back(static_cast<unsigned char>(byte));
      ++words[ids];
    });
  }
  std::vector<Merge> merges;
  while (std::ssize(merges) < count) {
    std::map<std::pair<int32_t, int32_t>, int64_t> pairs;
    for (const auto& [word, times] : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) pairs[{word[i], word[i + 1]}] += times;
    }
    std::pair<int32_t, int32_t> best;
    int64_t most = 1;
    for (const auto& [pair, times] : pairs) {
      const std::string bytes =
          tokens[static_cast<size_t>(pair.first)] + tokens[static_cast<size_t>(pair.second)];
      if (times > most && std::find(tokens.begin(), tokens.end(), bytes) == tokens.end()) {
        best = pair;
        most = times;
      }
    }
    if (most < 2) break;
    const auto id = static_cast<int32_t>(tokens.size());
    tokens.push_back(tokens[static_cast<size_t>(best.first)] + tokens[static_cast<size_t>(best.second)]);
    merges.push_back({best.first, best.second, id});
    std::map<std::vector<int32_t>, int64_t> merged;
    for (const auto& [word, times] : words) {
      std::vector<int32_t> out;
      for (size_t i = 0; i < word.size(); ++i) {
        if (i + 1 < word.size() && word[i] == best.first && word[i + 1] == best.second) {
          out.push_back(id);
          ++i;
        } else {
          out.push_back(word[i]);
        }
      }
      merged[out] += times;
    }
    words = std::move(merged);
  }
  return merges;
}

std::vector<int32_t> encode_slowly(std::string_view text, const std::vector<Merge>& merges) {
  std::vector<int32_t> all;
  Pretokenizer().split(text, [&](std::string_view piece) {
    std::vector<int32_t> ids;
    for (const char byte : piece) ids.push_back(static_cast<unsigned char>(byte));
    for (const Merge& merge : merges) {
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        if (ids[i] != merge.left || ids[i + 1] != merge.right) continue;
        ids[i] = merge.result;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
    all.insert(all.end(), ids.begin(), ids.end());
  });
  return all;
}

// Words over few letters: many pairs of equal count, overlaps and runs.
std::string random_words(uint64_t seed, size_t length) {
  const RandomStream random(seed, "words");
  std::string out;
  for (uint64_t i = 0; i < length; ++i) out += "aaabbc d"[random.below(i, 8)];
  return out;
}

TEST(BpeTrain, EqualsTheDefinition) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const std::vector<std::string> texts = {random_words(seed, 400), random_text(seed, 200, true)};
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    const auto expected = train_slowly(texts, 60);
    const auto actual = train_merges(views, plain_ids(), 60);
    ASSERT_GT(expected.size(), 10u);
    ASSERT_EQ(actual.size(), expected.size()) << seed;
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(actual[i], expected[i])
          << "seed " << seed << ", merge " << i << ": " << actual[i].left << " " << actual[i].right
          << ", not " << expected[i].left << " " << expected[i].right;
    }
  }
}

TEST(BpeTrain, TiesGoToTheSmallerPair) {
  const std::vector<std::string_view> texts = {"zq", "ba", "zq", "bc", "ba", "bc"};
  const std::vector<Merge> expected = {{'b', 'a', 256}, {'b', 'c', 257}, {'z', 'q', 258}};
  EXPECT_EQ(train_merges(texts, plain_ids(), 10), expected);
}

TEST(BpeTrain, StopsWhenNothingOccursTwice) {
  const std::vector<std::string_view> texts = {"abcdef"};
  EXPECT_TRUE(train_merges(texts, plain_ids(), 100).empty());
  EXPECT_TRUE(train_merges({}, plain_ids(), 100).empty());
}

TEST(BpeTrain, ALongPieceIsNoTrouble) {
  const std::string run(1'000'000, 'a');
  const std::vector<std::string_view> texts = {run};
  const auto merges = train_merges(texts, plain_ids(), 50);
  ASSERT_GE(merges.size(), 15u);
  EXPECT_EQ(merges[0], (Merge{'a', 'a', 256}));
  EXPECT_EQ(merges[1], (Merge{256, 256, 257}));
}

TEST(BpeEncode, EqualsTheDefinition) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const std::string text = random_words(seed, 600);
    const std::vector<std::string_view> views = {text};
    const auto merges = train_merges(views, plain_ids(), 80);
    const BpeModel model = model_of(merges);
    const std::string other = random_words(seed + 1000, 700);
    std::vector<int32_t> actual;
    model.encode(other, actual);
    ASSERT_EQ(actual, encode_slowly(other, merges)) << seed;
    EXPECT_LT(actual.size(), other.size() * 2 / 3);
  }
}

TEST(BpeEncode, LongPiecesEqualTheDefinition) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::string piece = random_words(seed, 900);
    std::erase(piece, ' ');
    const std::vector<std::string_view> views = {piece};
    const auto merges = train_merges(views, plain_ids(), 60);
    ASSERT_GT(merges.size(), 30u);
    const BpeModel model = model_of(merges);
    for (const size_t length : {63, 64, 65, 66, 200, 700}) {
      std::vector<int32_t> actual;
      model.encode(std::string_view(piece).substr(0, length), actual);
      ASSERT_EQ(actual, encode_slowly(std::string_view(piece).substr(0, length), merges)) << seed;
    }
  }
}

// Pieces of every length and number of ids, more than any cache holds, again and again.
TEST(BpeEncode, CachesChangeNothing) {
  std::string learned;
  for (uint64_t seed = 0; seed < 5; ++seed)
    learned += random_words(seed, 2000) + random_text(seed, 2000, true);
  const std::vector<std::string_view> views = {learned};
  const auto merges = train_merges(views, plain_ids(), 500);
  const RandomStream random(7, "pieces");
  std::string text;
  for (uint64_t i = 0, draw = 0; i < 120'000; ++i) {
    const uint64_t length = 1 + random.below(draw++, i % 50 == 0 ? 70 : i % 7000 == 1 ? 3000 : 18);
    for (uint64_t j = 0; j < length; ++j) text += "aabcdefg"[random.below(draw++, 8)];
    text += ' ';
  }
  const Merger merger(plain_ids(), merges);
  std::vector<int32_t> expected;
  Pretokenizer().split(text, [&](std::string_view piece) { merger.merge(piece, expected); });
  const BpeModel model = model_of(merges);
  BpeEncoder encoder(model);
  for (int round = 0; round < 3; ++round) {
    std::vector<int32_t> ids;
    encoder.encode(text, ids);
    ASSERT_EQ(ids, expected) << round;
  }
  // Many at a time, with one model.
  ThreadPool pool(4);
  std::vector<std::vector<int32_t>> all(8);
  parallel_for(pool, 8, 1, [&](int64_t i, int64_t, int) {
    model.encode(std::string_view(text).substr(0, text.size() / 8), all[static_cast<size_t>(i)]);
  });
  for (const auto& ids : all) EXPECT_TRUE(std::equal(ids.begin(), ids.end() - 80, expected.begin()));
}

TEST(BpeEncode, TokensThatMergesDoNotReachAreNotUsed) {
  // "abc" is a token, but b and c merge first and then nothing takes them.
  const std::vector<Merge> merges = {{'b', 'c', 256}, {'a', 'b', 257}, {257, 'c', 258}};
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), {"bc", "ab", "abc", "a long token, longer than 15 bytes"});
  std::vector<int32_t> ids;
  BpeModel(tokens, plain_ids(), merges).encode("abc", ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{'a', 256}));
  ids.clear();
  const BpeModel whole(tokens, plain_ids(), merges, {SplitPattern::kGpt2, true});
  whole.encode("abc", ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{258}));
  ids.clear();
  BpeModel(tokens, plain_ids(), merges, {SplitPattern::kNone, true}).encode(tokens.back(), ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{259}));
  const std::vector<Merge> far = {{0, 1, 1 << 21}};
  testing::expect_contains(testing::message_of(ErrorKind::kData, [&] { BpeModel(tokens, plain_ids(), far); }),
                           "2097152");
}

TEST(BpeEncode, AStreamGivesTheIdsOfTheWhole) {
  const std::string learned = random_words(1, 3000) + random_text(1, 3000, true);
  const std::vector<std::string_view> views = {learned};
  const auto merges = train_merges(views, plain_ids(), 300);
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const SplitPattern pattern : {SplitPattern::kGpt2, SplitPattern::kO200k, SplitPattern::kNone}) {
    const BpeModel model(tokens, plain_ids(), merges, {pattern, false});
    for (uint64_t seed = 0; seed < 30; ++seed) {
      const std::string text = random_text(seed, 400, seed % 2 == 0) + random_words(seed, 100);
      std::vector<int32_t> whole, parts;
      model.encode(text, whole);
      BpeStream stream(model);
      for (size_t at = 0; at < text.size(); at += 1 + seed) {
        stream.push(std::string_view(text).substr(at, 1 + seed), parts);
      }
      stream.finish(parts);
      ASSERT_EQ(parts, whole) << seed;
      stream.finish(parts);
      ASSERT_EQ(parts, whole);
    }
  }
}

TEST(BpeTrain, ThreadsAndPartsDoNotMatter) {
  std::string text;
  for (uint64_t seed = 0; seed < 40; ++seed) text += random_words(seed, 9000) + random_text(seed, 9000, true);
  BpeTrainOptions options;
  options.merges = 400;
  const std::vector<std::string_view> views = {text};
  const auto expected = train_merges(views, plain_ids(), options.merges);
  ASSERT_EQ(expected.size(), 400u);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const size_t part : {size_t{7}, size_t{50'000}, text.size()}) {
      BpeTrainer trainer(options, pool);
      for (size_t at = 0; at < text.size(); at += part) trainer.add(std::string_view(text).substr(at, part));
      EXPECT_EQ(trainer.train(plain_ids()), expected) << threads << " " << part;
    }
  }
}

TEST(BpeTrain, MinimumCountPatternAndDocuments) {
  SerialExecutor executor;
  const auto train = [&](BpeTrainOptions options, const std::vector<std::string>& texts) {
    options.merges = 100;
    BpeTrainer trainer(std::move(options), executor);
    for (const std::string& text : texts) {
      trainer.add(text);
      trainer.end_document();
    }
    return trainer.train(plain_ids());
  };
  const std::vector<std::string> texts = {"ab ab ab", "xy xy", "x", "y"};
  // "ab" occurs 3 times, " a" twice; "x" and "y" are never neighbours across documents.
  EXPECT_EQ(train({.min_count = 3}, texts), (std::vector<Merge>{{'a', 'b', 256}}));
  EXPECT_EQ(train({.min_count = 2}, texts),
            (std::vector<Merge>{{'a', 'b', 256}, {' ', 256, 257}, {'x', 'y', 258}}));
  const auto none = train({.pretokenizer = SplitPattern::kNone}, {"a b a b a b"});
  ASSERT_FALSE(none.empty());
  EXPECT_EQ(none[0], (Merge{' ', 'b', 256}));  // across what other patterns cut
  EXPECT_EQ(none[1], (Merge{'a', 256, 257}));
  testing::message_of(ErrorKind::kUse, [&] { BpeTrainer({.min_count = 0}, executor); });
  testing::message_of(ErrorKind::kUse, [&] { BpeTrainer({.merges = -1}, executor); });
}

TEST(BpeTrain, RarePiecesMakeRoom) {
  ThreadPool pool(2);
  BpeTrainer trainer({.merges = 10, .most_pieces = 100}, pool);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::string text;
    for (uint64_t i = 0; i < 3000; ++i)
      text += i % 2 == 0 ? " often" : " q" + std::to_string(seed * 3000 + i) + "x";
    trainer.add(text);
    trainer.end_document();
  }
  EXPECT_GT(trainer.forgotten_pieces(), 20'000);
  EXPECT_LT(trainer.distinct_pieces(), 10'000);
  const auto merges = trainer.train(plain_ids());
  std::vector<int32_t> ids;
  model_of(merges).encode(" often", ids);
  EXPECT_EQ(ids.size(), 1u);
}

TEST(BpeTrain, CountsAreThoseOfAMap) {
  PieceCounts counts, other;
  std::map<std::string, int64_t> expected;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::string text =
        random_text(seed, 3000, seed % 2 == 0) + std::string(seed, 'q') + random_words(seed, 900);
    (seed % 3 == 0 ? other : counts).count(Pretokenizer(), text);
    Pretokenizer().split(text, [&](std::string_view piece) { ++expected[std::string(piece)]; });
  }
  counts.add(other);
  const auto all = [](const PieceCounts& from) {
    std::map<std::string, int64_t> map;
    from.each([&](std::string_view piece, int64_t times) { EXPECT_TRUE(map.emplace(piece, times).second); });
    EXPECT_EQ(map.size(), from.size());
    return map;
  };
  EXPECT_GT(expected.size(), 5000u);
  EXPECT_EQ(all(counts), expected);
  std::erase_if(expected, [](const auto& entry) { return entry.second < 3; });
  counts.keep_at_least(3);
  EXPECT_GT(expected.size(), 200u);
  EXPECT_EQ(all(counts), expected);
}

TEST(BpeEncode, LongRunsOfOneCharacterTakeSeconds) {
  const std::string text = "aa aaaa aaaaaaaa aa aaaa aaaaaaaa bb bb !! !! \n\n \n\n ";
  const std::vector<std::string_view> views = {text};
  const Tokenizer tokenizer = Tokenizer::train_bpe(views, 300);
  for (const std::string unit : {"a", " ", "!", "\n", "\xF0\x9F\x8C\x8D"}) {
    std::string long_text;
    const size_t length = unit == "a" ? 2'000'000 : 200'000;
    while (long_text.size() < length) long_text += unit;
    const std::clock_t start = std::clock();
    const auto ids = tokenizer.encode(long_text);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 60) << unit;
    EXPECT_EQ(tokenizer.decode(ids), long_text);
  }
}

}  // namespace
}  // namespace tril
