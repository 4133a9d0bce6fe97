#include "tril/text/bpe.h"

#include <ctime>
#include <map>
#include <string>

#include "tests/text/text_testing.h"
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
  const std::string run(3'000'000, 'a');
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

TEST(BpeEncode, LongRunsOfOneCharacterTakeSeconds) {
  const std::string text = "aa aaaa aaaaaaaa aa aaaa aaaaaaaa bb bb !! !! \n\n \n\n ";
  const std::vector<std::string_view> views = {text};
  const Tokenizer tokenizer = Tokenizer::train_bpe(views, 300);
  for (const std::string unit : {"a", " ", "!", "\n", "\xF0\x9F\x8C\x8D"}) {
    std::string long_text;
    const size_t length = unit == "a" ? 10'000'000 : 1'000'000;
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
