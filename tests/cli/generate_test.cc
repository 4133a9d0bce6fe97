// `tril generate`: where a text ends, several together, JSON.
#include <set>

#include "tests/cli/train_run.h"

namespace tril::cli_testing {
namespace {

class GenerateCommandTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new testing::TemporaryDirectory;
    write_file(*directory_ / "text.txt", sample_text());
    write_file(*directory_ / "more.txt", sample_text(20));
    const Result result = run_tril(train_arguments({"more.txt", "--tokenizer", "byte", "--steps", "120",
                                                    "--learning-rate", "1e-2", "--out", "model"}),
                                   {.directory = directory_->path()});
    ASSERT_EQ(result.code, 0) << result.err;
  }
  static void TearDownTestSuite() { delete directory_; }
  static Result run(std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "model"});
    return run_tril(more, {.directory = directory_->path()});
  }
  static std::vector<Json> json(std::vector<std::string> more) {
    more.emplace_back("--json");
    const Result result = run(more);
    EXPECT_EQ(result.code, 0) << result.err;
    return json_lines(result.out);
  }
  static void expect_error(const std::vector<std::string>& more, int code, const std::string& part) {
    cli_testing::expect_error(run(more), code, {part});
  }
  static testing::TemporaryDirectory* directory_;
};
testing::TemporaryDirectory* GenerateCommandTest::directory_ = nullptr;

TEST_F(GenerateCommandTest, StopStringsEndTheTextAndDoNotShow) {
  // No pair of tokens comes twice, so that a stop string of three stands only where it was taken from.
  const std::vector<std::string> words = {"--prompt",          "The", "--temperature", "0",
                                          "--no-repeat-ngram", "2",   "--max-tokens",  "60"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::string whole = run(words).out;
  ASSERT_GT(whole.size(), 60u);
  const std::string stop = whole.substr(13, 3), before = whole.substr(3, 10);
  EXPECT_EQ(run(with({"--stop", "never", "--stop", stop})).out, "The" + before + "\n");
  const Json line = json(with({"--stop", stop})).at(0);
  EXPECT_EQ(line["text"], before);
  EXPECT_EQ(line["finish"], "stop");
  EXPECT_EQ(line["stop"], stop);
  // An escape in it; the bias draws line breaks.
  const Json lines = json(with({"--stop", "\\n", "--logit-bias", "10:1000"})).at(0);
  EXPECT_EQ(lines["text"], "");
  EXPECT_EQ(lines["finish"], "stop");
  EXPECT_EQ(lines["stop"], "\n");
}

TEST_F(GenerateCommandTest, StopIds) {
  // No token comes twice.
  const std::vector<std::string> words = {"--prompt",          "The", "--temperature", "0",
                                          "--no-repeat-ngram", "1",   "--max-tokens",  "20"};
  const Json whole = json(words).at(0);
  EXPECT_EQ(whole["finish"], "length");
  std::vector<int> tokens = whole["tokens"];
  ASSERT_EQ(tokens.size(), 20u);
  tokens.resize(10);
  std::vector<std::string> stopped = words;
  stopped.insert(stopped.end(), {"--stop-id", std::to_string(tokens.back())});
  const Json cut = json(stopped).at(0);
  EXPECT_EQ(cut["finish"], "stop_id");
  EXPECT_EQ(cut["tokens"], tokens);
}

TEST_F(GenerateCommandTest, TogetherAsAlone) {
  write_file(*directory_ / "prompts.txt", "The cat\nA\n\nNobody likes the old house, but my aunt\r\n");
  const auto texts = [](const std::vector<Json>& lines) {
    std::vector<std::string> out;
    for (const Json& line : lines)
      out.push_back(line["prompt"].get<std::string>() + "|" + line["text"].get<std::string>());
    return out;
  };
  const std::vector<std::string> base = {"--prompts", "prompts.txt", "--samples",    "2",
                                         "--seed",    "5",           "--max-tokens", "40"};
  std::vector<std::string> one = base, three = base, many = base;
  one.insert(one.end(), {"--batch", "1"});
  three.insert(three.end(), {"--batch", "3", "--threads", "2"});
  const std::vector<std::string> alone = texts(json(one));
  ASSERT_EQ(alone.size(), 8u);
  EXPECT_EQ(texts(json(three)), alone);
  EXPECT_EQ(texts(json(many)), alone);
  EXPECT_NE(alone[0], alone[1]);
  EXPECT_TRUE(alone[6].starts_with("Nobody likes the old house, but my aunt|"));
  const std::vector<Json> second = json({"--prompt", "A", "--seed", "6", "--max-tokens", "40"});
  EXPECT_EQ(texts(second)[0], alone[3]);
  // As text, with a line between two.
  const std::string shown = run(base).out;
  size_t at = 0;
  for (size_t i = 0; i < alone.size(); ++i) {
    if (i > 0) {
      EXPECT_EQ(shown.substr(at, 4), "---\n");
    }
    std::string text = alone[i];
    text.erase(text.find('|'), 1);
    if (!text.ends_with('\n')) text += '\n';
    at += i > 0 ? 4 : 0;
    EXPECT_EQ(shown.substr(at, text.size()), text) << i;
    at += text.size();
  }
  EXPECT_EQ(at, shown.size());
}

TEST_F(GenerateCommandTest, LogProbabilities) {
  const Json line =
      json({"--prompt", "The", "--temperature", "0", "--max-tokens", "4", "--logprobs", "2"}).at(0);
  ASSERT_EQ(line["log_probabilities"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const Json& one = line["log_probabilities"][i];
    EXPECT_EQ(one["id"], line["tokens"][i]);
    EXPECT_LE(one["log_probability_nats"].get<double>(), 0);
    ASSERT_EQ(one["likeliest"].size(), 2u);
    EXPECT_EQ(one["likeliest"][0]["id"], one["id"]);  // greedy
    EXPECT_GE(one["likeliest"][0]["log_probability_nats"].get<double>(),
              one["likeliest"][1]["log_probability_nats"].get<double>());
  }
  expect_error({"--logprobs", "2"}, 1, "--logprobs: they are written as JSON; add --json");
}

TEST_F(GenerateCommandTest, SpecialTokensInThePrompt) {
  // As tokens end-of-text is one, as text thirteen; it begins a text like no prompt at all.
  EXPECT_EQ(json({"--prompt", "<|endoftext|>", "--special", "--max-tokens", "20"}).at(0)["text"],
            json({"--max-tokens", "20"}).at(0)["text"]);
  EXPECT_NE(json({"--prompt", "<|endoftext|>", "--max-tokens", "20"}).at(0)["text"],
            json({"--max-tokens", "20"}).at(0)["text"]);
}

TEST_F(GenerateCommandTest, Filters) {
  const Json banned =
      json({"--prompt", "The", "--max-tokens", "200", "--logit-bias", "32:-inf,101:-inf"}).at(0);
  EXPECT_EQ(banned["text"].get<std::string>().find_first_of(" e"), std::string::npos);
  const Json forced = json({"--prompt", "The", "--max-tokens", "5", "--logit-bias", "33:100"}).at(0);
  EXPECT_EQ(forced["text"], "!!!!!");
  const Json once =
      json({"--prompt", "", "--temperature", "0", "--no-repeat-ngram", "1", "--max-tokens", "30"}).at(0);
  const auto tokens = once["tokens"].get<std::vector<int>>();
  EXPECT_EQ(std::set<int>(tokens.begin(), tokens.end()).size(), 30u);
}

TEST_F(GenerateCommandTest, ErrorsNameTheOption) {
  expect_error({"--min-p", "2"}, 1, "--min-p 2");
  expect_error({"--repetition-penalty", "0"}, 1, "--repetition-penalty is 0");
  expect_error({"--presence-penalty", "nan"}, 1, "--presence-penalty nan");
  expect_error({"--frequency-penalty", "1000"}, 1, "--frequency-penalty 1000");
  expect_error({"--no-repeat-ngram", "-1"}, 1, "--no-repeat-ngram -1");
  expect_error({"--logit-bias", "5"}, 1, "--logit-bias '5': give ID:X");
  expect_error({"--logit-bias", "5:x"}, 1, "--logit-bias 'x'");
  expect_error({"--logit-bias", "300:1"}, 1, "there is no token 300");
  expect_error({"--stop", ""}, 1, "--stop: a stop string is empty");
  expect_error({"--stop-id", "257"}, 1, "--stop-id 257");
  expect_error({"--prompt", "a", "--prompts", "more.txt"}, 1, "--prompt and --prompts");
  expect_error({"--prompts", "missing.txt"}, 2, "missing.txt");
}

}  // namespace
}  // namespace tril::cli_testing
