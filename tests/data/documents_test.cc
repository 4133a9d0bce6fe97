#include "tril/data/documents.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/text/text_testing.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

using testing::expect_contains;
using testing::message_of;
using testing::TemporaryFolder;

std::string all_of(const std::vector<std::string_view>& pieces) {
  std::string out;
  for (const std::string_view piece : pieces) out += piece;
  return out;
}

TEST(ReadDocuments, AFolderWithEverythingPeopleHave) {
  const TemporaryFolder folder;
  folder.write("b with spaces.txt", "second");
  folder.write("a.txt",
               "\xEF\xBB\xBF"
               "first");
  folder.write("sub folder/deeper/c.txt", "third\r\n");
  folder.write("empty.txt", "");
  folder.write("only-a-mark.txt", "\xEF\xBB\xBF");
  folder.write("picture.png", std::string("\x89PNG\0", 5));
  int64_t skipped = -1;
  const auto documents = read_documents({folder.path()}, &skipped);
  ASSERT_EQ(documents.size(), 3u);
  EXPECT_EQ(skipped, 2);
  EXPECT_EQ(documents[0].text, "first");
  EXPECT_EQ(documents[1].text, "second");
  EXPECT_EQ(documents[2].text, "third\r\n");
  expect_contains(documents[2].name, "sub folder");
}

TEST(ReadDocuments, FilesInTheOrderGiven) {
  const TemporaryFolder folder;
  const auto b = folder.write("b.md", "two"), a = folder.write("a", "one");
  const auto documents = read_documents({b, a});
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[0].text + documents[1].text, "twoone");
}

TEST(ReadDocuments, StandardInput) {
  const TemporaryFolder folder;
  const auto path = folder.write("piped", std::string(100'000, 'x') + "\xC3\xA9");
  ASSERT_NE(std::freopen(path.c_str(), "r", stdin), nullptr);
  const auto documents = read_documents({"-"});
  ASSERT_EQ(documents.size(), 1u);
  EXPECT_EQ(documents[0].name, "standard input");
  EXPECT_EQ(documents[0].text.size(), 100'002u);
  expect_contains(message_of(ErrorKind::kData, [] { read_documents({"-"}); }), "standard input: empty");
}

TEST(ReadDocuments, EachFaultIsOneLineThatNamesIt) {
  const TemporaryFolder folder;
  const auto refuse = [&](const std::filesystem::path& path) {
    const std::string message = message_of(ErrorKind::kData, [&] { read_documents({path}); });
    expect_contains(message, path.filename().string());
    return message;
  };
  refuse(folder.path() / "missing.txt");
  expect_contains(refuse(folder.write("empty.txt", "")), "empty");
  expect_contains(refuse(folder.write("mark.txt", "\xEF\xBB\xBF")), "empty");
  expect_contains(refuse(folder.write("binary.txt", std::string("ab\0c", 4))), "offset 2");
  expect_contains(refuse(folder.write("latin1.txt", "caf\xE9 au lait")), "offset 3 (0xe9)");
  expect_contains(refuse(folder.write("cut.txt", "caf\xC3")), "offset 3");
  expect_contains(refuse(folder.write("wide.txt", std::string("\xFF\xFE"
                                                              "a\0",
                                                              4))),
                  "UTF-16");
  std::filesystem::create_directories(folder.path() / "no texts");
  expect_contains(refuse(folder.path() / "no texts"), "*.txt");
  folder.write("hollow/x.txt", "");
  expect_contains(refuse(folder.path() / "hollow"), "empty");
  folder.write("bad/sub/latin1.txt", "\xE9");
  expect_contains(message_of(ErrorKind::kData, [&] { read_documents({folder.path() / "bad"}); }),
                  "latin1.txt");
  message_of(ErrorKind::kUse, [] { read_documents({}); });
}

TEST(SplitDocuments, FewDocumentsGiveTheirEnds) {
  const std::vector<Document> documents = {{"a", std::string(100, 'a')}, {"b", std::string(50, 'b')}};
  const TextSplit split = split_documents(documents, 0.1);
  ASSERT_EQ(split.train.size(), 2u);
  EXPECT_EQ(split.train[0].size(), 90u);
  EXPECT_EQ(split.validation[0], std::string(10, 'a'));
  EXPECT_EQ(split.validation[1], std::string(5, 'b'));
  const TextSplit none = split_documents(documents, 0);
  EXPECT_TRUE(none.validation.empty());
  EXPECT_EQ(all_of(none.train).size(), 150u);
}

TEST(SplitDocuments, NeverInsideACharacter) {
  for (size_t size = 1; size < 60; ++size) {
    for (const std::string unit : {"\xC3\xA9", "\xE4\xB8\xAD", "\xF0\x9F\x8C\x8D"}) {
      std::string text(size % 4, 'x');
      while (text.size() < size * 4) text += unit;
      const std::vector<Document> documents = {{"a", text}};
      const TextSplit split = split_documents(documents, 0.37);
      EXPECT_EQ(all_of(split.train) + all_of(split.validation), text);
      for (const auto& piece : split.train) EXPECT_FALSE(first_invalid_utf8(piece).has_value());
      for (const auto& piece : split.validation) EXPECT_FALSE(first_invalid_utf8(piece).has_value());
    }
  }
}

TEST(SplitDocuments, ManyDocumentsGoWholeByTheirText) {
  std::vector<Document> documents;
  for (int i = 0; i < 2000; ++i) documents.push_back({"n", "document number " + std::to_string(i)});
  const TextSplit split = split_documents(documents, 0.1);
  EXPECT_EQ(split.train.size() + split.validation.size(), documents.size());
  EXPECT_NEAR(static_cast<double>(split.validation.size()), 200, 60);
  // The side depends on the text alone, not on the neighbours.
  std::vector<std::string> before(split.validation.begin(), split.validation.end());
  std::reverse(documents.begin(), documents.end());
  const TextSplit reversed = split_documents(documents, 0.1);
  std::vector<std::string> after(reversed.validation.rbegin(), reversed.validation.rend());
  EXPECT_EQ(before, after);
}

TEST(SplitDocuments, NoSideStaysEmptyByChance) {
  int by_ends = 0;
  for (int set = 0; set < 60; ++set) {
    std::vector<Document> documents;
    for (int i = 0; i < kFewDocuments; ++i) {
      documents.push_back({"n", "number " + std::to_string(set * 1000 + i) + " of the documents"});
    }
    const TextSplit split = split_documents(documents, 0.1);
    EXPECT_FALSE(split.train.empty());
    ASSERT_FALSE(split.validation.empty());
    by_ends += split.validation.size() == documents.size();
  }
  EXPECT_GT(by_ends, 0);
  EXPECT_LT(by_ends, 30);
}

TEST(SplitDocuments, ImpossibleFractionsAreRefused) {
  for (const double fraction : {-0.1, 1.0, 2.0, std::nan("")}) {
    message_of(ErrorKind::kUse, [&] { split_documents({}, fraction); });
  }
}

TEST(Tokenize, TinyShakespeareSplitsAsUsual) {
  TRIL_NEEDS_TEST_DATA();
  const auto documents = read_documents({*testing::test_data() / "corpus/tinyshakespeare.txt"});
  const std::vector<std::string_view> views = {documents[0].text};
  const Corpus corpus = tokenize(documents, Tokenizer::characters(views, false), 0.1, 256);
  EXPECT_EQ(corpus.train.size(), 1'003'854u);
  EXPECT_EQ(corpus.validation.size(), 111'540u);
  EXPECT_EQ(corpus.train_bytes, 1'003'854);
  EXPECT_EQ(corpus.validation_bytes, 111'540);
  EXPECT_EQ(corpus.documents, 1);
}

TEST(Tokenize, EndOfTextStandsBetweenDocuments) {
  const Tokenizer bytes = Tokenizer::bytes(true);
  const std::vector<Document> two = {{"a", "aaaaaaaaaa"}, {"b", "bbbbbbbbbb"}};
  const Corpus corpus = tokenize(two, bytes, 0.2, 1);
  EXPECT_EQ(std::count(corpus.train.begin(), corpus.train.end(), 256), 2);
  EXPECT_EQ(corpus.train[8], 256);
  EXPECT_EQ(corpus.train.size(), 18u);
  EXPECT_EQ(corpus.validation, (std::vector<int32_t>{'a', 'a', 256, 'b', 'b', 256}));
  EXPECT_EQ(corpus.train_bytes, 16);
  const Corpus one = tokenize(std::span(two).first(1), bytes, 0.2, 1);
  EXPECT_EQ(std::count(one.train.begin(), one.train.end(), 256), 0);
  const Corpus without = tokenize(two, Tokenizer::bytes(false), 0.2, 1);
  EXPECT_EQ(without.train.size(), 16u);
}

TEST(Tokenize, TooLittleTextIsSaidWithCounts) {
  const Tokenizer bytes = Tokenizer::bytes(false);
  constexpr int64_t kContext = 16;
  const auto of_size = [](size_t size) { return std::vector<Document>{{"a", std::string(size, 'x')}}; };
  for (const size_t size : {0, 1, 16}) {
    const auto documents = of_size(size);
    const std::string message =
        message_of(ErrorKind::kData, [&] { tokenize(documents, bytes, 0, kContext); });
    expect_contains(message, std::to_string(size) + " tokens");
    expect_contains(message, "17");
  }
  for (const size_t size : {17, 18, 32}) {
    const auto documents = of_size(size);
    EXPECT_EQ(tokenize(documents, bytes, 0, kContext).train.size(), size);
    message_of(ErrorKind::kData, [&] { tokenize(documents, bytes, 0.1, kContext); });
  }
  const std::string message =
      message_of(ErrorKind::kData, [&] { tokenize(of_size(160), bytes, 0.1, kContext); });
  expect_contains(message, "validation text has 16 tokens");
  expect_contains(message, "--val-fraction");
  EXPECT_EQ(tokenize(of_size(170), bytes, 0.1, kContext).validation.size(), 17u);
}

TEST(Tokenize, AnUnknownCharacterIsNamedWithItsDocument) {
  const std::vector<std::string_view> views = {"xyz"};
  const std::vector<Document> documents = {{"first.txt", "xyzxyzxyzx"}, {"second.txt", "xyzxyzxyzq"}};
  const std::string message =
      message_of(ErrorKind::kData, [&] { tokenize(documents, Tokenizer::characters(views, false), 0.2, 1); });
  expect_contains(message, "second.txt, from byte 8");
  expect_contains(message, "'q'");
}

TEST(ReadCorpus, AnUnknownCharacterIsNamedWithItsDocument) {
  const TemporaryFolder folder;
  const std::string_view known = "abc";
  const Tokenizer tokenizer = Tokenizer::characters(std::span(&known, 1), /*with_end_of_text=*/false);
  const std::vector<SourceFile> files = find_sources({folder.write("odd.txt", "abcabcxabc")}, {});
  expect_contains(message_of(ErrorKind::kData, [&] { read_corpus(files, tokenizer, {}, 0, 2); }), "odd.txt");
}

TEST(Tokenize, TheFingerprintIsOfTokensAndSplit) {
  const Tokenizer bytes = Tokenizer::bytes(false);
  const auto print = [&](const std::string& text, double fraction) {
    const std::vector<Document> documents = {{"a", text}};
    return tokenize(documents, bytes, fraction, 1).fingerprint;
  };
  const std::string text(100, 'x');
  EXPECT_EQ(print(text, 0.1), print(text, 0.1));
  EXPECT_NE(print(text, 0.1), print(text, 0.2));
  EXPECT_NE(print(text, 0.1), print(text + "x", 0.1));
  std::string changed = text;
  changed[57] = 'y';
  EXPECT_NE(print(text, 0.1), print(changed, 0.1));
}

}  // namespace
}  // namespace tril
