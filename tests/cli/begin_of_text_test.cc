// A model whose texts begin with a token is given that token before a prompt and before each document.
#include <cmath>
#include <sstream>

#include "tests/cli/run_tril.h"
#include "tril/containers/safetensors.h"
#include "tril/generate/sampler.h"
#include "tril/text/tokenizer.h"

namespace tril::cli_testing {
namespace {

class BeginOfText : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new testing::TemporaryDirectory;
    std::string documents;
    std::istringstream text(sample_text());
    for (std::string line; std::getline(text, line);) documents += to_text({{"text", line}}) + "\n";
    write_file(*directory_ / "lines.jsonl", documents);
    ASSERT_EQ(run({"tokenizer", "train", "lines.jsonl", "--vocab", "300", "--special",
                   "<|begin|>,<|endoftext|>", "--out", "plain.json"})
                  .code,
              0);
    Json json = parse_json(read_file(*directory_ / "plain.json"));
    const std::string name = "<|begin|>";
    const Json special = {{"SpecialToken", {{"id", name}, {"type_id", 0}}}},
               sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    json["post_processor"]["type"] = "TemplateProcessing";
    json["post_processor"]["single"] = Json::array({special, sequence});
    json["post_processor"]["special_tokens"][name]["ids"] = Json::array({json["added_tokens"][0]["id"]});
    write_file(*directory_ / "begin.json", to_text(json));
    const Result trained = run(
        {"train",      "lines.jsonl", "--tokenizer", "begin.json", "--layers",        "1",   "--heads", "2",
         "--channels", "16",          "--context",   "32",         "--batch",         "4",   "--steps", "60",
         "--out",      "model",       "--threads",   "1",          "--learning-rate", "1e-2"});
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
  static void TearDownTestSuite() { delete directory_; }
  static Result run(const std::vector<std::string>& arguments, RunOptions options = {}) {
    options.directory = directory_->path();
    return run_tril(arguments, options);
  }
  // Of `text` after the token `first`, in nats: of all of it, and of its last token.
  struct LogProbabilities {
    double all = 0, last = 0;
  };
  LogProbabilities log_probabilities(int32_t first, const std::vector<int32_t>& text) {
    std::string ids = std::to_string(first);
    for (const int32_t id : text) ids += " " + std::to_string(id);
    EXPECT_EQ(run({"logits", "model", "--tokens", ids, "--out", "l.safetensors"}).code, 0);
    const SafetensorsFile file(*directory_ / "l.safetensors");
    const int64_t vocabulary = tokenizer_.vocabulary();
    const ConstView logits = file.f32("logits", {std::ssize(text) + 1, vocabulary});
    LogProbabilities out;
    for (size_t i = 0; i < text.size(); ++i) {
      const float* const row = logits.f32() + static_cast<int64_t>(i) * vocabulary;
      out.last = log_probability({row, static_cast<size_t>(vocabulary)}, text[i]).log_probability;
      out.all += out.last;
    }
    return out;
  }

  static inline testing::TemporaryDirectory* directory_ = nullptr;
  const Tokenizer tokenizer_ = Tokenizer::load(*directory_ / "model" / "tokenizer.json");
  const int32_t begin_ = tokenizer_.begin_of_text(), end_ = tokenizer_.end_of_text();
};

TEST_F(BeginOfText, EvalPredictsTheFirstTokenFromIt) {
  const std::string text = "The cat sees the moon.";
  const std::vector<int32_t> ids = tokenizer_.encode(text);
  const Result result = run({"eval", "model", "-", "--json"}, {.input = text});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json scores = parse_json(result.out);
  EXPECT_EQ(scores["tokens"], ids.size());
  EXPECT_EQ(scores["bytes"], text.size());
  const double expected = -log_probabilities(begin_, ids).all;
  EXPECT_NEAR(scores["loss_nats"].get<double>() * static_cast<double>(ids.size()), expected, 1e-5 * expected);
  EXPECT_GT(std::abs(log_probabilities(end_, ids).all + expected), 1e-2 * expected);
}

TEST_F(BeginOfText, GenerateGoesOnFromItAndThePrompt) {
  for (const std::string prompt : {"", "The cat"}) {
    // Spelled out it stands for the one that is put there.
    for (const std::string spelled : {"", "<|begin|>"}) {
      const Result result = run({"generate", "model", "--prompt", spelled + prompt, "--special",
                                 "--temperature", "0", "--max-tokens", "1", "--json", "--logprobs", "0"});
      ASSERT_EQ(result.code, 0) << result.err;
      const Json drawn = parse_json(result.out)["log_probabilities"][0];
      std::vector<int32_t> ids = tokenizer_.encode(prompt);
      ids.push_back(drawn["id"]);
      const double expected = log_probabilities(begin_, ids).last;
      EXPECT_NEAR(drawn["log_probability_nats"].get<double>(), expected, -1e-5 * expected) << prompt;
      EXPECT_GT(std::abs(log_probabilities(end_, ids).last - expected), -1e-3 * expected) << prompt;
    }
  }
}

}  // namespace
}  // namespace tril::cli_testing
