#include "tril/data/build.h"

#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "tests/support/mutate.h"
#include "tests/text/text_testing.h"
#include "tril/containers/json.h"
#include "tril/data/documents.h"
#include "tril/data/export.h"
#include "tril/data/lint.h"
#include "tril/data/source_tokenizer.h"
#include "tril/data/token_file_writer.h"

namespace tril {
namespace {

using testing::expect_contains;
using testing::message_of;
using testing::slurp;
using testing::TemporaryFolder;

std::string story(int i, int words = 40) {
  static const char* const kWords[] = {"the",  "cat", "saw",  "a",     "red",
                                       "ball", "in",  "deep", "grass", "caf\xC3\xA9"};
  const RandomStream random(11, "stories", static_cast<uint64_t>(i));
  std::string text;
  for (int w = 0; w < words; ++w)
    text += kWords[random.below(static_cast<uint64_t>(w), 10)] + std::string(w % 9 == 8 ? ".\n" : " ");
  return text + std::to_string(i) + "\n";
}

std::string json_lines(int documents, int words = 40) {
  std::string out;
  for (int i = 0; i < documents; ++i) out += to_text({{"text", story(i, words)}}) + "\n";
  return out;
}

// The same, apart in their ends alone and soon made.
std::string many_lines(int documents, int words) {
  const std::string text = to_text(story(0, words));
  std::string out;
  for (int i = 0; i < documents; ++i)
    out += "{\"text\": " + text.substr(0, text.size() - 1) + std::to_string(i) + "\"}\n";
  return out;
}

Tokenizer byte_tokenizer(const std::vector<SourceFile>&) {
  return Tokenizer::bytes(/*with_end_of_text=*/true);
}

BuildResult build(
    const std::vector<Path>& sources, const Path& out, BuildOptions options = {}, int threads = 2,
    const std::function<bool()>& go_on = [] { return true; }) {
  ThreadPool pool(threads);
  return build_token_store(sources, byte_tokenizer, options, out, pool,
                           [&](const BuildProgress&) { return go_on(); });
}

void expect_same_store(const Path& a, const Path& b) {
  for (const char* name : {"train.tokens", "validation.tokens", "tokenizer.json"})
    EXPECT_TRUE(slurp(a / name) == slurp(b / name)) << name;
  Json first = parse_json(slurp(a / "store.json")), second = parse_json(slurp(b / "store.json"));
  EXPECT_EQ(first["fingerprint"], second["fingerprint"]);
}

std::vector<int32_t> all_of(const TokenView& view) {
  std::vector<int32_t> out(static_cast<size_t>(view.size()));
  view.copy(0, view.size(), out.data());
  return out;
}

// The tokens, their order and the split are those of the same text in memory.
TEST(TokenStore, IsTheCorpusOfTheSameText) {
  const TemporaryFolder folder;
  for (const int documents : {1, 3, 19, 20, 200}) {
    const Path text = folder.write("texts" + std::to_string(documents) + ".jsonl", json_lines(documents));
    const Path out = folder.path() / ("store" + std::to_string(documents));
    const BuildResult result = build({text}, out);
    EXPECT_TRUE(result.finished);
    EXPECT_EQ(result.split_by_ends, documents < 20);
    const auto store = std::make_shared<const TokenStore>(out);
    store->train.verify();
    store->validation.verify();
    const Corpus expected =
        tokenize(read_documents({text}), Tokenizer::bytes(/*with_end_of_text=*/true), 0.1, 8);
    const Corpus corpus = open_corpus(store, 8);
    EXPECT_EQ(all_of(corpus.train_tokens()), expected.train);
    EXPECT_EQ(all_of(corpus.validation_tokens()), expected.validation);
    EXPECT_EQ(corpus.fingerprint, expected.fingerprint);
    EXPECT_EQ(corpus.documents, expected.documents);
    EXPECT_EQ(corpus.train_bytes, expected.train_bytes);
    EXPECT_EQ(corpus.validation_bytes, expected.validation_bytes);
    EXPECT_EQ(corpus.end_of_text, expected.end_of_text);
    EXPECT_FALSE(
        std::filesystem::exists(folder.path() / ("store" + std::to_string(documents) + ".building")));
  }
}

TEST(TokenStore, TheSameBytesForAnyNumberOfThreads) {
  const TemporaryFolder folder;
  const Path text = folder.write("texts.jsonl", json_lines(3000, 200));
  build({text}, folder.path() / "one", {}, 1);
  build({text}, folder.path() / "five", {}, 5);
  expect_same_store(folder.path() / "one", folder.path() / "five");
}

// Stopped after each batch, and killed somewhere behind the last save.
TEST(TokenStore, GoesOnWhereItWasStopped) {
  const TemporaryFolder folder;
  for (int i = 0; i < 3; ++i) folder.write("in/" + std::to_string(i) + ".jsonl", many_lines(30'000, 60 + i));
  folder.write("in/long.txt", [] {
    std::string part, text;
    for (int i = 0; i < 100; ++i) part += story(i, 400);
    while (text.size() < 20'000'000) text += part;
    return text;
  }());
  BuildOptions options;
  options.deduplicate = true;
  const BuildResult whole = build({folder.path() / "in"}, folder.path() / "whole", options);
  EXPECT_EQ(whole.duplicates, 0);
  const Path out = folder.path() / "stopped";
  BuildResult result;
  int stops = 0;
  do {
    result = build({folder.path() / "in"}, out, options, 2, [] { return false; });
    EXPECT_EQ(result.resumed, stops > 0);
    // What a kill leaves behind the last save.
    if (!result.finished) {
      for (const char* name : {"train.tokens", "validation.tokens", "hashes", "train.tokens.ends"})
        append_to_file(folder.path() / "stopped.building" / name, "more than was saved");
    }
  } while (!result.finished && ++stops < 100);
  EXPECT_GT(stops, 3);
  EXPECT_LT(stops, 100);
  expect_same_store(folder.path() / "whole", out);
  EXPECT_EQ(result.train_documents, whole.train_documents);
  // Other sources: anew.
  build({folder.path() / "in/0.jsonl"}, folder.path() / "other", {}, 2, [] { return false; });
  const BuildResult other = build({folder.path() / "in/1.jsonl"}, folder.path() / "other");
  EXPECT_TRUE(other.started_anew);
  EXPECT_FALSE(other.resumed);
  EXPECT_TRUE(other.finished);
}

// Also where a document is cut into pieces: words, spaces and punctuation on both sides of each cut.
TEST(TokenStore, PiecesHaveTheTokensOfTheWhole) {
  const TemporaryFolder folder;
  const std::string noise = testing::random_text(3, 40'000, /*valid_utf8=*/true);
  std::string text;
  for (int i = 0; text.size() < 400'000; ++i) {
    text += story(i);
    if (i % 7 == 0)
      text += noise.substr(noise.find(' ', static_cast<size_t>(i) * 10), 1) + "/path\n\n  x'll\n";
  }
  const Path path = folder.write("a.txt", text);
  const std::string_view view = text;
  Tokenizer bpe = Tokenizer::train_bpe(std::span(&view, 1), 600);
  bpe.save(folder.path() / "bpe.json");
  BuildOptions options;
  options.sources.piece_bytes = 512;
  ThreadPool pool(2);
  build_token_store(
      {path}, [&](const std::vector<SourceFile>&) { return Tokenizer::load(folder.path() / "bpe.json"); },
      options, folder.path() / "store", pool, [](const BuildProgress&) { return true; });
  const TokenStore store(folder.path() / "store");
  const Corpus expected = tokenize(read_documents({path}), bpe, 0.1, 8);
  EXPECT_TRUE(all_of(store.train.tokens()) == expected.train);
  EXPECT_TRUE(all_of(store.validation.tokens()) == expected.validation);
}

// SentencePiece puts a space in front of what it is given, so that its texts are not cut.
TEST(TokenStore, SentencePieceHasTheTokensOfTheWhole) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; text.size() < 300'000; ++i) text += story(i);
  const Path path = folder.write("a.txt", text);
  const Path cases = Path(TRIL_TOKENIZER_CASES_FOLDER) / "llama2.json";
  folder.write("sp.json", to_text(parse_json(slurp(cases))["tokenizer"]));
  const Tokenizer tokenizer = Tokenizer::load(folder.path() / "sp.json");
  const Corpus expected = tokenize(read_documents({path}), tokenizer, 0.1, 8);
  const Corpus corpus = read_corpus(find_sources({path}, {}), tokenizer, {}, 0.1, 8);
  EXPECT_TRUE(corpus.train == expected.train);
  EXPECT_TRUE(corpus.validation == expected.validation);
  ThreadPool pool(2);
  build_token_store(
      {path}, [&](const std::vector<SourceFile>&) { return Tokenizer::load(folder.path() / "sp.json"); }, {},
      folder.path() / "store", pool, [](const BuildProgress&) { return true; });
  const TokenStore store(folder.path() / "store");
  EXPECT_TRUE(all_of(store.train.tokens()) == expected.train);
  EXPECT_TRUE(all_of(store.validation.tokens()) == expected.validation);
  std::string written;
  export_tokens(store.train, tokenizer, ExportFormat::kText, [&](std::string_view b) { written += b; });
  EXPECT_TRUE(written == tokenizer.decode(expected.train));
}

// Where the tokenizer's models start every text with a token, documents begin with it, once, and no part of
// one.
class BeginOfText : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, BeginOfText, ::testing::Values("<|im_start|>", "<|endoftext|>"));

TEST_P(BeginOfText, StandsBeforeEachDocument) {
  const TemporaryFolder folder;
  Json json = parse_json(slurp(Path(TRIL_TOKENIZER_CASES_FOLDER) / "llama3.json"))["tokenizer"];
  const std::string name_of_begin = GetParam();
  int32_t begin = -1;
  for (const Json& token : json["added_tokens"])
    if (token["content"] == name_of_begin) begin = token["id"];
  ASSERT_GE(begin, 0);
  json["post_processor"]["special_tokens"] = {
      {name_of_begin,
       {{"id", name_of_begin}, {"ids", Json::array({begin})}, {"tokens", Json::array({name_of_begin})}}}};
  for (const char* form : {"single", "pair"})
    json["post_processor"][form][0]["SpecialToken"]["id"] = name_of_begin;
  const Path file = folder.write("tokenizer.json", json.dump());
  const Tokenizer tokenizer = Tokenizer::load(file);
  ASSERT_EQ(tokenizer.begin_of_text(), begin);
  const auto build_with = [&](const Path& source, const std::string& out, int64_t piece_bytes) {
    SerialExecutor executor;
    BuildOptions options;
    options.sources.piece_bytes = piece_bytes;
    build_token_store(
        {source}, [&](const std::vector<SourceFile>&) { return Tokenizer::load(file); }, options,
        folder.path() / out, executor, [](const BuildProgress&) { return true; });
    return std::make_shared<const TokenStore>(folder.path() / out);
  };
  for (const int documents : {1, 3, 40}) {
    const std::string name = std::to_string(documents);
    const Path text = folder.write(name + ".jsonl", json_lines(documents));
    const auto store = build_with(text, "store" + name, 64);
    EXPECT_EQ(store->train.header().begin_of_text, begin);
    const bool ends = documents > 1 && tokenizer.end_of_text() != begin;
    EXPECT_EQ(store->train.header().end_of_text, ends ? tokenizer.end_of_text() : -1);
    for (const TokenFile* side : {&store->train, &store->validation}) {
      side->verify();
      const bool parts = documents < 20 && side == &store->validation;
      for (int64_t i = 0; i < side->documents(); ++i) {
        const std::vector<int32_t> ids = all_of(side->document(i)), inner = all_of(side->text_of(i));
        EXPECT_EQ(std::count(ids.begin(), ids.end(), begin), parts ? 0 : 1);
        EXPECT_EQ(ids[0] == begin, !parts);
        EXPECT_EQ(inner.front(), ids[parts ? 0 : 1]);
        EXPECT_EQ(inner.size() + (parts ? 0 : 1) + (ends ? 1 : 0), ids.size());
        EXPECT_EQ(side->text_begin(i), side->document_begin(i) + (parts ? 0 : 1));
        EXPECT_EQ(std::count(inner.begin(), inner.end(), tokenizer.end_of_text()), 0);
      }
    }
    const Corpus corpus = open_corpus(store, 8), direct = tokenize(read_documents({text}), tokenizer, 0.1, 8);
    EXPECT_EQ(corpus.separator(), begin);
    EXPECT_EQ(direct.separator(), begin);
    EXPECT_EQ(corpus.fingerprint, direct.fingerprint);
    EXPECT_EQ(read_corpus(find_sources({text}, {}), tokenizer, {}, 0.1, 8).fingerprint, direct.fingerprint);
    // Tokens that begin with it already stay as they are.
    std::string bin;
    export_tokens(store->train, tokenizer, ExportFormat::kNanoGpt,
                  [&](std::string_view bytes) { bin += bytes; });
    const auto again = build_with(folder.write(name + ".bin", bin), "again" + name, 64);
    const std::vector<int32_t> ids = all_of(again->train.tokens());
    EXPECT_EQ(std::count(ids.begin(), ids.end(), begin), again->train.documents());
    EXPECT_EQ(ids[0], begin);
  }
}

// A cut within the first character of a later piece.
TEST(TokenStore, ACutAtTheBeginOfAPieceEndsTheDocument) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 1311; ++i) text += std::string(99, 'a') + "\n";
  text += "\xD0\xB4" + std::string(131'100, 'z');
  const std::vector<Path> paths = {folder.write("border.txt", text), folder.write("second.txt", story(1))};
  BuildOptions options;
  options.validation_fraction = 0.5;
  build(paths, folder.path() / "store", options);
  const TokenStore store(folder.path() / "store");
  store.train.verify();
  EXPECT_EQ(store.train.documents(), 2);
  const Corpus expected = tokenize(read_documents(paths), byte_tokenizer({}), 0.5, 8);
  EXPECT_TRUE(all_of(store.train.tokens()) == expected.train);
  EXPECT_TRUE(all_of(store.validation.tokens()) == expected.validation);
}

// Not from the ends that are for validation.
TEST(TokenStore, MergesAreLearnedFromTheTrainingPart) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += story(i);
  const size_t cut = text.size() * 9 / 10;
  for (size_t i = cut + 1; i < text.size(); ++i) text[i] = "xyz"[i % 3];
  const Path path = folder.write("a.txt", text);
  const std::string_view train = std::string_view(text).substr(0, cut);
  ThreadPool pool(2);
  EXPECT_EQ(train_bpe_on(find_sources({path}, {}), {}, 0.1, 400, 1 << 20, pool).fingerprint(),
            Tokenizer::train_bpe(std::span(&train, 1), 400).fingerprint());
}

TEST(TokenStore, AddedFilesMoveNoDocumentToTheOtherSide) {
  const TemporaryFolder folder;
  const Path one = folder.write("one.jsonl", json_lines(300)), two = folder.write("two.jsonl", [] {
    std::string out;
    for (int i = 1000; i < 1400; ++i) out += to_text({{"text", story(i)}}) + "\n";
    return out;
  }());
  build({one}, folder.path() / "a");
  build({two, one}, folder.path() / "b");
  const TokenStore a(folder.path() / "a"), b(folder.path() / "b");
  const std::vector<int32_t> few = all_of(a.validation.tokens()), more = all_of(b.validation.tokens());
  ASSERT_GT(few.size(), 100u);
  EXPECT_NE(std::search(more.begin(), more.end(), few.begin(), few.end()), more.end());
}

TEST(TokenStore, DuplicatesAndBrokenDocumentsAreLeftOutAndCounted) {
  const TemporaryFolder folder;
  // The long one is a document in pieces, broken at its end, or twice.
  std::string lengthy;
  for (int i = 0; lengthy.size() < 3'000'000; ++i) lengthy += story(i);
  folder.write("in/a.txt", lengthy);
  folder.write("in/b.txt", lengthy);
  folder.write("in/c.txt", lengthy + "\xFF");
  folder.write("in/d.jsonl", json_lines(50) + json_lines(50));
  BuildOptions options;
  options.deduplicate = true;
  int broken = 0;
  options.sources.on_broken = [&](const std::string&) { ++broken; };
  const BuildResult result = build({folder.path() / "in"}, folder.path() / "store", options);
  EXPECT_EQ(broken, 1);
  EXPECT_EQ(result.skipped_broken, 1);
  EXPECT_EQ(result.duplicates, 51);
  EXPECT_EQ(result.train_documents + result.validation_documents, 51);
  const TokenStore store(folder.path() / "store");
  store.train.verify();
  EXPECT_EQ(store.train.header().text_bytes + store.validation.header().text_bytes,
            store.train.header().tokens + store.validation.header().tokens - 51);
  ThreadPool pool(2);
  const LintReport lint = lint_store(store, Tokenizer::load(store.tokenizer_path()), pool);
  EXPECT_EQ(lint.documents, 51);
  EXPECT_EQ(lint.train_duplicates + lint.validation_duplicates + lint.leaked_documents, 0);
}

TEST(TokenStore, LintFindsWhatIsOdd) {
  const TemporaryFolder folder;
  std::string lines = json_lines(400);
  for (const char* text : {"bad \xEF\xBF\xBD", "bell \\u0007", "zero\xE2\x80\x8Bwidth", "own \xEE\x80\x80",
                           "end <|endoftext|> of <| text"})
    lines += "{\"text\":\"" + std::string(text) + "\"}\n";
  const Path text = folder.write("a.jsonl", lines);
  const Path twice = folder.write("b.jsonl", json_lines(5));
  build({text, twice}, folder.path() / "store");
  const TokenStore store(folder.path() / "store");
  ThreadPool one(1), three(3);
  for (ThreadPool* pool : {&one, &three}) {
    const LintReport r = lint_store(store, Tokenizer::load(store.tokenizer_path()), *pool);
    for (const OddCharacters* odd : {&r.replacement, &r.control, &r.invisible, &r.private_use, &r.literals}) {
      EXPECT_EQ(odd->count, 1);
      EXPECT_EQ(odd->documents, 1);
    }
    EXPECT_EQ(r.broken.count, 0);
    EXPECT_EQ(r.train_duplicates + r.validation_duplicates, 5);
    EXPECT_EQ(r.leaked_documents, 0);
    EXPECT_GT(r.sampled_runs, 0);
    EXPECT_LT(r.leaked_runs, r.sampled_runs);
    EXPECT_GT(r.leaked_runs, 0);  // few words, so runs of letters come again
  }
  const Tokenizer other = Tokenizer::bytes(false);
  message_of(ErrorKind::kUse, [&] { lint_store(store, other, one); });
}

TEST(TokenStore, LintOfManyBeginningsOfLiteralsIsQuick) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += "<|";
  for (const size_t size : {38, 39}) text += "<|" + std::string(size, 'x') + "|>";
  build({folder.write("a.txt", text)}, folder.path() / "store");
  const TokenStore store(folder.path() / "store");
  ThreadPool pool(1);
  const auto start = std::chrono::steady_clock::now();
  const LintReport r = lint_store(store, Tokenizer::load(store.tokenizer_path()), pool);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));  // to the end each: minutes
  EXPECT_EQ(r.literals.count, 1);
}

TEST(TokenStore, ExportsAreReadBackAsTheSameTokens) {
  const TemporaryFolder folder;
  build({folder.write("a.jsonl", json_lines(60))}, folder.path() / "store");
  const TokenStore store(folder.path() / "store");
  const Tokenizer tokenizer = Tokenizer::load(store.tokenizer_path());
  const std::vector<int32_t> expected = all_of(store.train.tokens());
  const std::pair<const char*, const char*> kinds[] = {
      {"npy", "t.npy"}, {"nanogpt", "t.bin"}, {"llmc", "l.bin"}, {"jsonl", "t.jsonl"}, {"txt", "t.txt"}};
  for (const auto& [format, name] : kinds) {
    std::string bytes;
    export_tokens(store.train, tokenizer, parse_export_format(format),
                  [&](std::string_view b) { bytes += b; });
    BuildOptions options;
    options.validation_fraction = 0;
    options.sources.separator = "\n<|endoftext|>\n";
    const Path out = folder.path() / (std::string("again-") + format);
    build({folder.write(name, bytes)}, out, options);
    EXPECT_EQ(all_of(TokenStore(out).train.tokens()), expected) << format;
  }
}

TEST(TokenStore, WideTokensAndViews) {
  const TemporaryFolder folder;
  const Path path = folder.path() / "train.tokens";
  const std::vector<int32_t> tokens = {0, 70'000, 5, 99'999, 1, 2, 3};
  ThreadPool pool(2);
  const TokenFileHeader header{.token_bytes = 4, .vocabulary = 100'000, .end_of_text = 5, .tokenizer = "abc"};
  TokenFileWriter::Kept kept;
  {
    TokenFileWriter writer(path, header, {});
    writer.append(std::span(tokens).first(3));
    writer.end_document();
    writer.append(tokens);
    writer.drop_document();
    writer.append(std::span(tokens).subspan(3));
    writer.end_document();
    writer.sync();
    kept = writer.kept();
    writer.finish(pool, 77);
  }
  // A build that was killed before its other side was complete goes on from what it had kept.
  const std::string finished = slurp(path);
  TokenFileWriter(path, header, kept).finish(pool, 77);
  EXPECT_EQ(slurp(path), finished);
  const TokenFile file(path);
  file.verify();
  EXPECT_EQ(all_of(file.tokens()), tokens);
  EXPECT_EQ(file.documents(), 2);
  EXPECT_EQ(file.document_begin(1), 3);
  EXPECT_EQ(all_of(file.document(1)), (std::vector<int32_t>{99'999, 1, 2, 3}));
  EXPECT_EQ(file.counts()[70'000], 1u);
  EXPECT_EQ(file.header().text_bytes, 77);
  EXPECT_EQ(file.tokens().part(1, 2)[0], 70'000);
  message_of(ErrorKind::kUse, [&] { file.document(2); });
}

// Killed after a document was dropped of which a part had been saved.
TEST(TokenStore, GoesOnBeforeADrop) {
  const TemporaryFolder folder;
  const Path path = folder.path() / "train.tokens";
  const std::vector<int32_t> tokens = {1, 2, 3}, lengthy(100'000, 7);
  const TokenFileHeader header{.token_bytes = 2, .vocabulary = 10, .end_of_text = 5, .tokenizer = "abc"};
  TokenFileWriter::Kept kept;
  {
    TokenFileWriter writer(path, header, {});
    writer.append(tokens);
    writer.end_document();
    writer.append(lengthy);
    writer.sync();
    kept = writer.kept();
    writer.append(lengthy);
    writer.drop_document();
    writer.sync();
  }
  ThreadPool pool(1);
  {
    TokenFileWriter writer(path, header, kept);
    writer.append(lengthy);
    writer.drop_document();
    writer.append(tokens);
    writer.end_document();
    writer.finish(pool, 6);
  }
  const TokenFile file(path);
  file.verify();
  EXPECT_EQ(all_of(file.tokens()), (std::vector<int32_t>{1, 2, 3, 1, 2, 3}));
  // What had ended must be there.
  std::filesystem::resize_file(path, 130);
  expect_contains(message_of(ErrorKind::kData, [&] { TokenFileWriter(path, header, kept); }),
                  "remove the folder");
}

TEST(TokenStore, DamagedFilesAreNoticed) {
  const TemporaryFolder folder;
  build({folder.write("a.jsonl", json_lines(30, 5))}, folder.path() / "store");
  const Path path = folder.path() / "store" / "train.tokens";
  const std::string whole = slurp(path);
  int opened = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const std::string damaged = testing::mutate(whole, RandomStream(5, "stores", i));
    if (damaged == whole) continue;
    folder.write("store/train.tokens", damaged);
    const bool opens = testing::ends_well([&] {
      const TokenFile file(path);
      ++opened;
      for (int64_t d = 0; d < file.documents(); ++d) testing::ends_well([&] { all_of(file.document(d)); });
      all_of(file.tokens());
    });
    EXPECT_FALSE(opens && testing::ends_well([&] { TokenFile(path).verify(); })) << i;
  }
  EXPECT_GT(opened, 20);
  for (size_t size = 0; size < whole.size(); size += 97) {
    folder.write("store/train.tokens", whole.substr(0, size));
    EXPECT_FALSE(testing::ends_well([&] { TokenFile file(path); })) << size;
  }
}

TEST(TokenStore, PipesAreReadWhole) {
  const TemporaryFolder folder;
  const Path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string text = story(1, 30'000);
  std::thread writer([&] { std::ofstream(pipe, std::ios::binary) << text; });
  const Path file = folder.write("a.txt", story(2));
  build({pipe, file}, folder.path() / "piped");
  writer.join();
  build({folder.write("same.txt", text), file}, folder.path() / "store");
  expect_same_store(folder.path() / "store", folder.path() / "piped");
  expect_contains(message_of(ErrorKind::kUse,
                             [&] { read_corpus(find_sources({pipe}, {}), byte_tokenizer({}), {}, 0.1, 8); }),
                  "read twice");
}

TEST(TokenStore, WhatCannotBeBuiltIsSaid) {
  const TemporaryFolder folder;
  const Path text = folder.write("a.txt", story(1));
  build({text}, folder.path() / "store");
  expect_contains(message_of(ErrorKind::kUse, [&] { build({text}, folder.path() / "store"); }),
                  "is there already");
  const Path empty = folder.write("b.jsonl", "{\"text\":\"\"}\n");
  expect_contains(message_of(ErrorKind::kData, [&] { build({empty}, folder.path() / "no"); }), "no document");
  expect_contains(message_of(ErrorKind::kData, [&] { TokenStore(folder.path() / "nothing"); }),
                  "train.tokens");
  const Path tokens = folder.write("c.bin", std::string("\xFF\xFF", 2));
  expect_contains(message_of(ErrorKind::kData, [&] { build({tokens}, folder.path() / "no2"); }), "id 65535");
  const Path one = folder.write("one.txt", "x");
  expect_contains(message_of(ErrorKind::kData, [&] { build({one}, folder.path() / "no3"); }),
                  "0 tokens to train on and 1 for validation");
  BuildOptions all_for_training;
  all_for_training.validation_fraction = 0;
  expect_contains(
      message_of(ErrorKind::kData, [&] { build({one}, folder.path() / "no4", all_for_training); }),
      "1 tokens to train on");
  const Path latin1 = folder.write("latin1.txt", "caf\xE9");
  expect_contains(message_of(ErrorKind::kData, [&] { build({latin1}, folder.path() / "no5"); }), "0xe9");
  // What failed left nothing.
  for (const char* name : {"no", "no2", "no3", "no4", "no5"})
    for (const char* ending : {"", ".building"})
      EXPECT_FALSE(std::filesystem::exists(folder.path() / (std::string(name) + ending))) << name << ending;
}

// Not what an earlier build had saved, nor what another one is at work in.
TEST(TokenStore, AFailureKeepsWhatGoesOn) {
  const TemporaryFolder folder;
  const Path text = folder.write("a.jsonl", json_lines(30'000, 200) + "no JSON\n");
  const Path out = folder.path() / "store", building = folder.path() / "store.building";
  int batches = 0;
  EXPECT_FALSE(build({text}, out, {}, 1, [&] { return ++batches < 2; }).finished);
  expect_contains(message_of(ErrorKind::kData, [&] { build({text}, out); }), "line 30001");
  EXPECT_TRUE(std::filesystem::exists(building / "train.tokens"));
  const AtomicFile busy(building / "store.json");
  EXPECT_FALSE(testing::ends_well([&] { build({folder.write("b.txt", "b")}, out); }));
  EXPECT_TRUE(std::filesystem::exists(building / "train.tokens"));
}

}  // namespace
}  // namespace tril
