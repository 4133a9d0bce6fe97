// --weights of `tril generate`, `tril eval` and `tril bench generate`.
#include "tests/cli/run_tril.h"

namespace tril::cli_testing {
namespace {

class Weights : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new testing::TemporaryDirectory;
    write_file(*directory_ / "text.txt", sample_text());
    const Result trained =
        run(train_arguments({"--tokenizer", "byte", "--channels", "32", "--steps", "20", "--out", "model"}));
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
  static void TearDownTestSuite() { delete directory_; }
  static Result run(const std::vector<std::string>& arguments, RunOptions options = {}) {
    options.directory = directory_->path();
    return run_tril(arguments, options);
  }
  static double loss_with(const std::string& type) {
    const Result result = run({"eval", "model", "text.txt", "--weights", type, "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    return parse_json(result.out)["loss_nats"].get<double>();
  }
  static inline testing::TemporaryDirectory* directory_ = nullptr;
};

TEST_F(Weights, FewerBitsLoseLittle) {
  const double stored = loss_with("stored");
  EXPECT_EQ(loss_with("f32"), stored);
  // Half a step of each type: of a weight in f16 and bf16, of the largest of 32 in the others. The loss moves
  // by less: 8e-6, 5e-5, 5e-5, 6e-3 and 6e-4 nats were measured.
  for (const auto& [type, half_step] : {std::pair("f16", 1.0 / 2048),
                                        {"bf16", 1.0 / 256},
                                        {"q8_0", 1.0 / 254},
                                        {"q4_0", 1.0 / 16},
                                        {"q4_1", 1.0 / 15}}) {
    const double loss = loss_with(type);
    EXPECT_NE(loss, stored) << type;
    EXPECT_NEAR(loss, stored, half_step) << type;
  }
}

TEST_F(Weights, GenerateAndBench) {
  const std::vector<std::string> greedy = {"generate", "model", "--temperature", "0", "--max-tokens", "20"};
  const auto with = [&](std::vector<std::string> arguments, const std::string& type) {
    arguments.insert(arguments.end(), {"--weights", type});
    return run(arguments);
  };
  EXPECT_EQ(with(greedy, "stored").out, run(greedy).out);
  EXPECT_EQ(with(greedy, "q8_0").code, 0);
  const Result bench = with({"bench", "generate", "model", "--seconds", "0.01", "--json"}, "q8_0");
  ASSERT_EQ(bench.code, 0) << bench.err;
  const Json row = parse_json(bench.out.substr(0, bench.out.find('\n')));
  EXPECT_EQ(row["weights"], "q8_0");
  for (const char* const key :
       {"prefill_tokens_per_s", "decode_tokens_per_s", "weights_gb_per_s", "bandwidth_fraction"})
    EXPECT_GT(row[key].get<double>(), 0) << key;
}

TEST_F(Weights, UnknownTypesAreRefused) {
  for (const std::string command : {"generate", "eval"}) {
    std::vector<std::string> arguments = {command, "model"};
    if (command == "eval") arguments.push_back("text.txt");
    arguments.insert(arguments.end(), {"--weights", "q5_1"});
    expect_error(run(arguments), 1, {"--weights is 'q5_1'; give stored, f32"});
  }
  expect_error(run({"bench", "step", "--weights", "q8_0"}), 1, {"bench step: --weights has no meaning here"});
}

}  // namespace
}  // namespace tril::cli_testing
