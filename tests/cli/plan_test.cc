// `tril plan`, and `tril train --memory`: what is said before must hold afterwards.
#include <algorithm>

#include "tests/cli/run_tril.h"
#include "tests/support/kernel_test.h"

namespace tril::cli_testing {
namespace {

class Plan : public ::testing::Test {
 protected:
  void SetUp() override { write_file(directory_ / "text.txt", sample_text()); }

  Result run(const std::vector<std::string>& arguments) {
    return run_tril(arguments, {.directory = directory_.path()});
  }
  Json json(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return parse_json(result.out.substr(0, result.out.find('\n')));
  }

  testing::TemporaryDirectory directory_;
};

// 55 MB of parameters, gradients and moments, 20 of activations.
const std::vector<std::string> kMiddle = {
    "text.txt", "--layers", "4", "--channels",  "256",  "--heads", "4", "--context", "64", "--batch",
    "8",        "--steps",  "3", "--tokenizer", "char", "--seed",  "3", "--threads", "2"};

std::vector<std::string> words_of(const char* command, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {command};
  words.insert(words.end(), kMiddle.begin(), kMiddle.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(Plan, SaysWhatIsKeptAndWhatItTakes) {
  const Result result = run({"plan", "--preset", "gpt2-b4t256", "--checkpointing", "selective"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* piece : {"123,849,984 parameters", "memory", "gradients", "tokens/s", "MFLOP a token",
                            "query, key, value", "kept", "a product of the normed stream", "tile by tile"})
    EXPECT_NE(result.out.find(piece), std::string::npos) << piece << " missing in\n" << result.out;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 1);
}

TEST_F(Plan, AgreesWithTrain) {
  Json plan = json(words_of("plan"));
  Json train = json(words_of("train", {"--out", "run"}));
  for (const char* key :
       {"options", "parameters", "steps", "tokens_per_step", "flops_per_step", "train_tokens"})
    EXPECT_EQ(plan.at(key), train.at(key)) << key;
  for (const char* key : {"parameters", "gradients", "moments", "activations", "scratch"})
    EXPECT_EQ(plan.at("memory_bytes").at(key), train.at("memory_bytes").at(key)) << key;
  // What is chosen by the measured machine may differ from one measurement to the next, but it is there.
  const Json chosen = json({"plan", "text.txt", "--hours", "1", "--threads", "2"});
  EXPECT_GT(chosen.at("options").at("layers"), 0);
  EXPECT_GT(chosen.at("passes"), 0);
}

// The peak of the real run, as the system counts it.
TEST_F(Plan, MemoryIsWithinFivePercentOfThePeak) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  for (const char* level : {"none", "block"}) {
    // Some 200 MB: what a first step adds to the process differs by a few between machines.
    const auto words = [&](const char* command, const std::vector<std::string>& more) {
      std::vector<std::string> all = words_of(command, {"--checkpointing", level});
      *(std::find(all.begin(), all.end(), "--channels") + 1) = "384";
      *(std::find(all.begin(), all.end(), "--layers") + 1) = "6";
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    const Json plan = json(words("plan", {}));
    const Result result = run(words("train", {"--out", level, "--json"}));
    ASSERT_EQ(result.code, 0) << result.err;
    const auto planned = plan["memory_bytes"]["total"].get<double>();
    EXPECT_NEAR(planned / static_cast<double>(result.peak_bytes), 1, 0.05)
        << level << ": " << planned << " planned, " << result.peak_bytes << " at the most";
  }
}

TEST_F(Plan, CheckpointingLevelsAreOrdered) {
  double activations = 1e18, again = -1;
  for (const char* level : {"none", "selective", "block"}) {
    const Json plan = json(words_of("plan", {"--checkpointing", level}));
    EXPECT_LT(plan["memory_bytes"]["activations"], activations) << level;
    EXPECT_GT(plan["recomputed_flops_per_step"], again) << level;
    activations = plan["memory_bytes"]["activations"];
    again = plan["recomputed_flops_per_step"];
  }
}

// The same weights from a run in less memory, that says so in its plan.
TEST_F(Plan, MemoryIsKept) {
  std::vector<std::string> words = {"train",       "text.txt", "--layers",  "4",  "--channels", "128",
                                    "--heads",     "4",        "--context", "64", "--steps",    "2",
                                    "--tokenizer", "char",     "--threads", "1",  "--json"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Json free = json(with({"--out", "free"}));
  const int64_t total = free["memory_bytes"]["total"];
  const int64_t limit = total - free["memory_bytes"]["activations"].get<int64_t>() / 3;
  const Json less = json(with({"--out", "less", "--memory", std::to_string(limit / 1000) + "K"}));
  EXPECT_LE(less["memory_bytes"]["total"], limit + 2'000'000);  // the process is measured twice
  EXPECT_LT(less["memory_bytes"]["total"], total);
  EXPECT_EQ(less["tokens_per_step"], free["tokens_per_step"]);

  expect_error(run(with({"--out", "none", "--memory", "1M"})), 1, {"of --memory 1 MB"});
  EXPECT_EQ(run(with({"--memory", "4"})).code, 1);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "none"));
}

// The level may change when a run goes on: it changes no bit.
TEST_F(Plan, ARunGoesOnWithAnotherLevel) {
  const auto train = [&](const std::string& out, const std::string& steps,
                         std::vector<std::string> more = {}) {
    for (const char* word : {"--dropout", "0.1", "--schedule", "constant", "--warmup", "0", "--out"})
      more.emplace_back(word);
    more.insert(more.end(), {out, "--steps", steps});
    const Result result = run(train_arguments(more));
    EXPECT_EQ(result.code, 0) << result.err;
    return read_file(directory_ / out / "model.safetensors");
  };
  const std::string whole = train("whole", "40");
  EXPECT_FALSE(train("parts", "20") == whole);
  EXPECT_TRUE(train("parts", "40", {"--checkpointing", "block", "--resume"}) == whole);
}

}  // namespace
}  // namespace tril::cli_testing
