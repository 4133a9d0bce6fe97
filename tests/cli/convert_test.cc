// tril convert, and the commands on models of other formats.
#include <limits>

#include "tests/cli/run_tril.h"
#include "tril/interop/model_folder.h"

namespace tril::cli_testing {
namespace {

class Convert : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new testing::TemporaryDirectory;
    write_file(*directory_ / "text.txt", sample_text());
    ASSERT_EQ(run(train_arguments({"--arch", "llama", "--tokenizer", "bpe", "--vocab", "300", "--steps", "20",
                                   "--out", "model"}))
                  .code,
              0);
    ASSERT_EQ(run({"convert", "model", "model.gguf", "--json"}).code, 0);
  }
  static void TearDownTestSuite() { delete directory_; }
  static Result run(const std::vector<std::string>& arguments, RunOptions options = {}) {
    options.directory = directory_->path();
    return run_tril(arguments, options);
  }
  static std::string greedy(const std::string& model) {
    const Result result =
        run({"generate", model, "--prompt", "The", "--temperature", "0", "--max-tokens", "20"});
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }
  static void expect_use_error(const std::vector<std::string>& arguments, const std::string& part) {
    expect_error(run(arguments), 1, {part});
  }
  static inline testing::TemporaryDirectory* directory_ = nullptr;
};

TEST_F(Convert, SaysWhatItDid) {
  const Result result = run({"convert", "model", "q8.gguf", "--type", "q8_0", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json report = parse_json(result.out);
  EXPECT_EQ(report["layout"], "llama");
  EXPECT_EQ(report["format"], "gguf");
  EXPECT_EQ(report["model_type"], "llama");
  EXPECT_EQ(report["type"], "q8_0");
  EXPECT_EQ(report["checked"]["tokens"], 16);
  // Measured: 2e-4; 7e-8 in f32, 2e-3 in q4_0.
  const double difference = report["checked"]["relative_difference"];
  EXPECT_GT(difference, 1e-5);
  EXPECT_LT(difference, 1e-3);
  EXPECT_EQ(report["bytes"], std::filesystem::file_size(*directory_ / "q8.gguf"));
  const Result text = run({"convert", "model", "own", "--to", "tril", "--no-verify"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("-> own: tril, tril, f32"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("--no-verify"), std::string::npos) << text.out;
}

TEST_F(Convert, EveryCommandOpensAFile) {
  EXPECT_EQ(greedy("model.gguf"), greedy("model"));
  const Json info = parse_json(run({"info", "model.gguf", "--json"}).out);
  EXPECT_EQ(info["layout"], "gguf");
  EXPECT_EQ(info["parameters"], parse_json(run({"info", "model", "--json"}).out)["parameters"]);
  EXPECT_GT(info["types"]["f32"], 10);
  const auto loss = [&](const std::string& model) {
    const Result result = run({"eval", model, "text.txt", "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    return parse_json(result.out)["loss_nats"].get<double>();
  };
  EXPECT_NEAR(loss("model.gguf"), loss("model"), 1e-5);
  EXPECT_EQ(run({"logits", "model.gguf", "--tokens", "1 2 3", "--out", "l.safetensors"}).code, 0);
  const Result more = run({"train", "text.txt", "--from", "model.gguf", "--steps", "2", "--out", "more"});
  EXPECT_EQ(more.code, 0) << more.err;
}

TEST_F(Convert, ThereAndBack) {
  ASSERT_EQ(run({"convert", "model.gguf", "back"}).code, 0);
  EXPECT_EQ(read_file(*directory_ / "back" / "model.safetensors"),
            read_file(*directory_ / "model" / "model.safetensors"));
}

TEST_F(Convert, RefusesWithAReason) {
  expect_use_error({"convert", "model", "model.gguf"}, "--force");
  expect_use_error({"convert", "model", "x.gguf", "--type", "q5_0"}, "q8_0");
  expect_use_error({"convert", "model", "x", "--type", "q8_0"}, "cannot hold q8_0");
  expect_use_error({"convert", "model", "x", "--to", "onnx"}, "onnx");
  expect_use_error({"convert", "model"}, "usage");
  expect_use_error({"convert", "model", "model", "--force"}, "the model itself");
  EXPECT_FALSE(std::filesystem::exists(*directory_ / "x"));
  expect_use_error({"convert", "model", "model/config.json", "--to", "gguf", "--force"},
                   "of the model itself");
  write_file(*directory_ / "text.bin", "no model");
  expect_error(run({"convert", "text.bin", "y"}), 2, {"not a model"});
}

TEST_F(Convert, ReplacesWhenToldTo) {
  ASSERT_EQ(run({"convert", "model", "twice.gguf"}).code, 0);
  EXPECT_EQ(run({"convert", "model", "twice.gguf", "--force", "--type", "f16"}).code, 0);
  // A folder keeps what else is in it.
  ASSERT_EQ(run({"convert", "model", "folder"}).code, 0);
  write_file(*directory_ / "folder" / "notes.txt", "mine");
  EXPECT_EQ(run({"convert", "model", "folder", "--force", "--type", "bf16"}).code, 0);
  EXPECT_EQ(read_file(*directory_ / "folder" / "notes.txt"), "mine");
}

TEST_F(Convert, AModelThatFailsItsCheckReplacesNothing) {
  ASSERT_EQ(run({"convert", "model", "good.gguf"}).code, 0);
  ASSERT_EQ(run({"convert", "model", "good"}).code, 0);
  {
    const LoadedModel loaded = load_model(*directory_ / "model");
    loaded.parameters->find("ln_final.weight").value.f32()[0] = std::numeric_limits<float>::quiet_NaN();
    save_model_folder(*directory_ / "bad", loaded.config, *loaded.parameters, *loaded.tokenizer);
  }
  const std::string file = read_file(*directory_ / "good.gguf"),
                    weights = read_file(*directory_ / "good" / "model.safetensors");
  for (const char* out : {"good.gguf", "good", "new.gguf", "new"})
    expect_error(run({"convert", "bad", out, "--force"}), 3,
                 {"bad: its logits are not finite", "nothing was written"});
  EXPECT_EQ(read_file(*directory_ / "good.gguf"), file);
  EXPECT_EQ(read_file(*directory_ / "good" / "model.safetensors"), weights);
  for (const char* out : {"new.gguf", "new"}) EXPECT_FALSE(std::filesystem::exists(*directory_ / out)) << out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_->path()))
    EXPECT_EQ(entry.path().string().find(".tril-tmp"), std::string::npos) << entry.path();
}

}  // namespace
}  // namespace tril::cli_testing
