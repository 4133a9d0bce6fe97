// The other commands: generate, logits, info, corpus, doctor, bench, help.
#include <algorithm>
#include <cmath>

#include "tests/cli/run_tril.h"
#include "tril/containers/safetensors.h"
#include "tril/text/tokenizer.h"
#include "tril/text/utf8.h"

namespace tril::cli_testing {
namespace {

// One byte-level model for all tests of this file: untrained enough to write any byte.
class Commands : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new testing::TemporaryDirectory;
    write_file(*directory_ / "text.txt", sample_text());
    ASSERT_EQ(run(train_arguments({"--tokenizer", "byte", "--steps", "2", "--out", "model"})).code, 0);
  }
  static void TearDownTestSuite() { delete directory_; }
  static Result run(const std::vector<std::string>& arguments, RunOptions options = {}) {
    options.directory = directory_->path();
    return run_tril(arguments, options);
  }
  static inline testing::TemporaryDirectory* directory_ = nullptr;
};

TEST_F(Commands, GreedyTextIsTheSameEveryTimeAndForAnyThreads) {
  const std::vector<std::string> greedy = {"generate",      "model", "--prompt",     "The",
                                           "--temperature", "0",     "--max-tokens", "40"};
  auto two = greedy, one = greedy;
  one.insert(one.end(), {"--threads", "1"});
  two.insert(two.end(), {"--threads", "2"});
  const Result a = run(one), b = run(one), c = run(two);
  ASSERT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(a.err, "");
  EXPECT_GT(a.out.size(), 20u);
  EXPECT_EQ(a.out, b.out);
  EXPECT_EQ(a.out, c.out);
}

TEST_F(Commands, RandomBytesComeOutAsWholeCharacters) {
  const Result result =
      run({"generate", "model", "--prompt", "\xe2\x82\xac", "--temperature", "50", "--max-tokens", "300"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(first_invalid_utf8(result.out), std::nullopt);
  EXPECT_NE(result.out.find("\xef\xbf\xbd"), std::string::npos)
      << "a uniform choice of bytes holds invalid ones";
  EXPECT_EQ(result.out.substr(0, 3), "\xe2\x82\xac");
  EXPECT_EQ(result.out.back(), '\n');
}

TEST_F(Commands, PromptsAndSamples) {
  const Result piped =
      run({"generate", "model", "--prompt", "-", "--max-tokens", "5", "--seed", "3"}, {.input = "A dog"});
  EXPECT_EQ(piped.out,
            run({"generate", "model", "--prompt", "A dog", "--max-tokens", "5", "--seed", "3"}).out);
  const Result empty = run({"generate", "model", "--prompt", "", "--max-tokens", "5"});
  EXPECT_EQ(empty.code, 0) << empty.err;
  EXPECT_EQ(empty.out, run({"generate", "model", "--max-tokens", "5"}).out);
  EXPECT_EQ(run({"generate", "model", "--prompt", "x", "--max-tokens", "0"}).out, "x\n");
  const Result two =
      run({"generate", "model", "--prompt", "x", "--samples", "2", "--max-tokens", "20", "--seed", "1"});
  const size_t middle = two.out.find("\n---\n");
  ASSERT_NE(middle, std::string::npos) << two.out;
  EXPECT_EQ(two.out.substr(middle + 5),
            run({"generate", "model", "--prompt", "x", "--max-tokens", "20", "--seed", "2"}).out);
  // Longer than the context of 16: the window slides.
  EXPECT_EQ(run({"generate", "model", "--prompt", sample_text(3), "--max-tokens", "3"}).code, 0);
}

TEST_F(Commands, AnEmptyPromptStartsFromEndOfText) {
  ASSERT_EQ(
      run(train_arguments({"--tokenizer", "bpe", "--vocab", "300", "--steps", "30", "--out", "bpe"})).code,
      0);
  const Tokenizer tokenizer = Tokenizer::load(*directory_ / "bpe" / "tokenizer.json");
  ASSERT_GE(tokenizer.end_of_text(), 0);
  ASSERT_EQ(
      run({"logits", "bpe", "--tokens", std::to_string(tokenizer.end_of_text()), "--out", "e.safetensors"})
          .code,
      0);
  const SafetensorsFile file(*directory_ / "e.safetensors");
  const float* logits = file.f32("logits", {1, tokenizer.vocabulary()}).f32();
  const auto best = static_cast<int32_t>(std::max_element(logits, logits + tokenizer.vocabulary()) - logits);
  Utf8Stream stream;
  std::string expected = stream.push(tokenizer.token_bytes(best));
  expected += stream.finish();
  EXPECT_EQ(run({"generate", "bpe", "--temperature", "0", "--max-tokens", "1"}).out,
            expected.ends_with('\n') ? expected : expected + "\n");
}

TEST_F(Commands, LogitsOfTextAndTokensAgree) {
  ASSERT_EQ(run({"logits", "model", "--tokens", "84 104,101", "--out", "a.safetensors"}).code, 0);
  const Result text =
      run({"logits", "model", "--text", "The", "--out", "b.safetensors", "--threads", "2", "--json"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(parse_json(text.out)["shape"], Json({3, 256}));
  EXPECT_EQ(read_file(*directory_ / "a.safetensors"), read_file(*directory_ / "b.safetensors"));
  const SafetensorsFile file(*directory_ / "a.safetensors");
  const ConstView logits = file.f32("logits", {3, 256});
  EXPECT_NE(logits.f32()[0], logits.f32()[256]);
}

TEST_F(Commands, EvalMeasuresText) {
  const std::string text = sample_text();
  const Result result = run({"eval", "model", "text.txt", "--stride", "3", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json scores = parse_json(result.out);
  // A byte is a token; the first one is predicted from nothing and does not count.
  EXPECT_EQ(scores["tokens"], text.size() - 1);
  EXPECT_EQ(scores["bytes"], text.size() - 1);
  EXPECT_EQ(scores["documents"], 1);
  const auto spaces = std::count_if(text.begin(), text.end(), [](char c) { return c == ' ' || c == '\n'; });
  EXPECT_EQ(scores["words"], spaces);
  const double loss = scores["loss_nats"];
  EXPECT_GT(loss, 1);
  EXPECT_LT(loss, 6);
  EXPECT_NEAR(scores["bits_per_byte"], loss / std::log(2.0), 1e-9);
  EXPECT_NEAR(scores["perplexity"], std::exp(loss), 1e-6 * std::exp(loss));
  EXPECT_EQ(scores["context"], 16);
  EXPECT_EQ(scores["stride"], 3);
  const Result piped =
      run({"eval", "model", "-", "--stride", "3", "--json", "--threads", "2"}, {.input = text});
  EXPECT_EQ(parse_json(piped.out)["loss_nats"], scores["loss_nats"]) << piped.err;
  EXPECT_NE(run({"eval", "model", "text.txt"}).out.find("bits per byte"), std::string::npos);
  for (const auto& [arguments, code] : std::vector<std::pair<std::vector<std::string>, int>>{
           {{"eval", "model"}, 1},
           {{"eval", "model", "missing.txt"}, 2},
           {{"eval", "model", "text.txt", "--context", "17"}, 1},
           {{"eval", "model", "text.txt", "--stride", "17"}, 1}}) {
    expect_error(run(arguments), code, {});
  }
  // Broken documents count for nothing, also where a long one breaks late.
  std::string broken;
  while (broken.size() < 300'000) broken += text;
  write_file(*directory_ / "broken.txt", broken + "\xFF");
  const Json rest = parse_json(
      run({"eval", "model", "text.txt", "broken.txt", "--on-error", "skip", "--stride", "3", "--json"}).out);
  EXPECT_EQ(rest["skipped_documents"], 1);
  EXPECT_EQ(rest["documents"], 1);
  for (const char* name : {"tokens", "bytes", "words", "loss_nats"})
    EXPECT_EQ(rest[name], scores[name]) << name;
  expect_error(run({"eval", "model", "-"}, {.input = "x"}), 2, {"at least two tokens"});
}

TEST_F(Commands, Info) {
  const Result result = run({"info", "model", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json info = parse_json(result.out);
  EXPECT_EQ(info["config"]["channels"], 16);
  EXPECT_EQ(info["tokenizer"]["kind"], "byte");
  EXPECT_EQ(info["training"]["step"], 2);
  int64_t sum = 0;
  for (const Json& group : info["groups"])
    for (const Json& tensor : group["tensors"]) {
      int64_t elements = 1;
      for (const int64_t size : tensor["shape"]) elements *= size;
      sum += elements;
    }
  EXPECT_EQ(info["parameters"], sum);
  const Result text = run({"info", "model"});
  EXPECT_NE(text.out.find("blocks.0.attention.qkv.weight"), std::string::npos) << text.out;
}

TEST_F(Commands, Corpus) {
  const Result a = run({"corpus", "--stories", "3", "--seed", "7"});
  ASSERT_EQ(a.code, 0) << a.err;
  ASSERT_EQ(run({"corpus", "--stories", "3", "--seed", "7", "--out", "stories.txt"}).code, 0);
  EXPECT_EQ(read_file(*directory_ / "stories.txt"), a.out);
  EXPECT_NE(run({"corpus", "--stories", "3", "--seed", "8"}).out, a.out);
  const Json judged = parse_json(run({"corpus", "--judge", "stories.txt", "--json"}).out);
  EXPECT_GE(judged["names_introduced"], 3);
  for (const char* mistakes : {"words_unknown", "names_unknown", "pronouns_wrong", "object_mismatches"})
    EXPECT_EQ(judged[mistakes], 0) << mistakes;
  EXPECT_EQ(run({"corpus", "--judge", "stories.txt", "--out", "x"}).code, 1);
  EXPECT_EQ(run({"corpus", "--stories", "1", "--json"}).code, 1);
  const Result of_text = run({"corpus", "--judge", "text.txt"});
  EXPECT_EQ(of_text.code, 0) << of_text.err;
  EXPECT_NE(of_text.out.find("words "), std::string::npos) << of_text.out;
  EXPECT_EQ(run({"corpus", "--stories", "2", "--seed", "7"}).out,
            a.out.substr(0, run({"corpus", "--stories", "2", "--seed", "7"}).out.size()));
}

TEST_F(Commands, Doctor) {
  const Result result = run({"doctor", "--json", "--threads", "1"});
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  const Json report = parse_json(result.out);
  EXPECT_TRUE(report["ok"]);
  EXPECT_GE(report["checks"].size(), 14u);
  EXPECT_GT(report["machine"]["fma_peak_gflops"], 1);
  for (const Json& check : report["checks"]) EXPECT_TRUE(check["ok"]) << to_text(check);
}

TEST_F(Commands, BenchKeys) {
  const auto rows = [&](const std::vector<std::string>& arguments) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return json_lines(result.out);
  };
  const auto step = rows({"bench", "step", "--preset", "names-1x16", "--seconds", "0.01", "--json"});
  ASSERT_EQ(step.size(), 1u);
  for (const char* key : {"preset", "tokens_per_s", "gflops", "peak_fraction", "peak_rss_bytes"})
    EXPECT_TRUE(step[0].contains(key)) << key;
  const auto matmul = rows({"bench", "matmul", "--preset", "names-1x16", "--seconds", "0.001", "--json"});
  EXPECT_EQ(matmul.size(), 15u);
}

TEST_F(Commands, LrFindSuggestsARateAndWritesNothing) {
  const auto files = [] {
    return std::distance(std::filesystem::recursive_directory_iterator(directory_->path()),
                         std::filesystem::recursive_directory_iterator());
  };
  const auto before = files();
  std::vector<std::string> words = train_arguments({"--lowest", "1e-4", "--highest", "10"});
  words[0] = "lr-find";
  const Result text = run(words);
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* piece : {"rate", "loss", "####", "\n  --learning-rate 0.0"})
    EXPECT_NE(text.out.find(piece), std::string::npos) << piece << " missing in\n" << text.out;
  words.emplace_back("--json");
  const Result result = run(words);
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = parse_json(result.out);
  ASSERT_TRUE(json.is_object()) << result.out;
  EXPECT_GT(json["suggestion"], 1e-3);
  EXPECT_LT(json["suggestion"], 0.1);
  EXPECT_GT(json["points"].size(), 50u);
  EXPECT_EQ(json["points"][0]["learning_rate"], 1e-4);
  EXPECT_EQ(files(), before);
}

TEST_F(Commands, HelpShowsExamplesFirst) {
  const Result help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("tril train book.txt"), std::string::npos);
  for (const char* command : {"train", "plan", "lr-find", "generate", "attention", "plot", "info", "convert",
                              "logits", "corpus", "doctor", "bench"}) {
    EXPECT_NE(help.out.find(std::string("\n  ") + command), std::string::npos) << command;
    const Result own = run({command, "--help"});
    EXPECT_EQ(own.code, 0);
    EXPECT_EQ(own.err, "");
    const size_t examples = own.out.find("Examples:"), options = own.out.find("--help");
    ASSERT_NE(examples, std::string::npos) << own.out;
    EXPECT_LT(examples, options) << own.out;
  }
  const Result version = run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.substr(0, 5), "tril ");
}

}  // namespace
}  // namespace tril::cli_testing
