// Every mistake ends with its exit code and one line on standard error that names what was wrong.
#include <sys/stat.h>

#include "tests/cli/run_tril.h"
#include "tril/interop/model_folder.h"

namespace tril::cli_testing {
namespace {

class Errors : public ::testing::Test {
 protected:
  void SetUp() override { write_file(directory_ / "text.txt", sample_text()); }

  Result run(const std::vector<std::string>& arguments) {
    return run_tril(arguments, {.directory = directory_.path()});
  }

  void expect_error(const std::vector<std::string>& arguments, int code,
                    const std::vector<std::string>& parts) {
    cli_testing::expect_error(run(arguments), code, parts);
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(Errors, CommandsAndOptions) {
  expect_error({"trian", "text.txt"}, 1, {"trian", "did you mean train?"});
  expect_error({"--versoin"}, 1, {"--versoin", "did you mean --version?"});
  expect_error({"train", "text.txt", "--layer", "2"}, 1, {"--layer", "did you mean --layers?"});
  expect_error({"train", "text.txt", "--chanels=2"}, 1, {"--chanels", "did you mean --channels?"});
  expect_error({"train", "text.txt", "--frobnicate"}, 1, {"unknown option --frobnicate"});
  expect_error({"train"}, 1, {"no text given", "tril train FILE"});
  expect_error({"train", "text.txt", "--layers"}, 1, {"--layers"});
  expect_error({"generate"}, 1, {"no model given"});
  expect_error({"generate", "a", "b"}, 1, {"unexpected argument 'b'"});
  expect_error({"bench", "attenton"}, 1, {"attenton", "did you mean attention?"});
  expect_error({"corpus"}, 1, {"--stories"});
  // Options of the plan that do not exist yet are unknown, not silently taken.
  expect_error({"train", "text.txt", "--ranks", "2"}, 1, {"unknown option --ranks"});
  expect_error({"train", "text.txt", "--optimizer", "adam"}, 1, {"--optimizer 'adam'", "adamw, muon"});
  expect_error({"train", "text.txt", "--ema", "1"}, 1, {"--ema 1"});
  expect_error({"lr-find"}, 1, {"tril lr-find: no text given", "tril lr-find FILE"});
  expect_error({"lr-find", "text.txt", "--out", "run"}, 1, {"lr-find: unknown option --out"});
  expect_error({"lr-find", "text.txt", "--lowest", "0.1", "--highest", "0.01"}, 1,
               {"--lowest 0.1 is not below --highest 0.01"});
}

TEST_F(Errors, EmptyValuesTakeNothingElse) {
  expect_error({"train", "text.txt", "--layers=", "--steps=3"}, 1, {"--layers ''"});
  for (const std::string name : {"--out", "--config", "--preset", "--tokenizer"}) {
    expect_error({"train", "text.txt", name + "=", "--steps=3"}, 1, {name, "empty"});
    expect_error({"train", "text.txt", name, ""}, 1, {name, "empty"});
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 1);
}

TEST_F(Errors, LearningRatesThatTrainNothing) {
  expect_error(train_arguments({"--learning-rate", "0"}), 1, {"--learning-rate 0", "give a number"});
  expect_error(train_arguments({"--min-learning-rate", "0.5"}), 1, {"--min-learning-rate 0.5", "above"});
}

TEST_F(Errors, NamesThatTheSystemRefuses) {
  expect_error(train_arguments({"--out", std::string(300, 'x')}), 2, {"xxx: File name too long"});
  expect_error({"info", std::string(300, 'x')}, 2, {"xxx"});
}

TEST_F(Errors, OutputThatCannotBeWritten) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "there is no /dev/full";
  ASSERT_EQ(run(train_arguments({"--out", "run"})).code, 0);
  for (const std::string arguments :
       {"generate run", "info run", "bench matmul --preset names-1x16 --seconds 0.001"}) {
    const std::string command =
        "cd '" + directory_.path().string() + "' && \"$TRIL_BINARY\" " + arguments + " > /dev/full 2> error";
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << arguments;
    std::ifstream error(directory_ / "error");
    const std::string text((std::istreambuf_iterator<char>(error)), {});
    EXPECT_TRUE(one_line(text)) << text;
    EXPECT_NE(text.find("standard output"), std::string::npos) << text;
  }
}

TEST_F(Errors, Text) {
  write_file(directory_ / "empty.txt", "");
  write_file(directory_ / "binary.txt", std::string("some text\0more", 14));
  write_file(directory_ / "latin1.txt", "caf\xe9 and more text, but not in UTF-8");
  write_file(directory_ / "short.txt", "Hi.");
  std::filesystem::create_directory(directory_ / "folder");
  expect_error(train_arguments({"missing.txt"}), 2, {"missing.txt"});
  expect_error({"train", "empty.txt"}, 2, {"empty.txt", "empty"});
  expect_error({"train", "binary.txt"}, 2, {"binary.txt", "9"});
  expect_error({"train", "latin1.txt"}, 2, {"latin1.txt", "3", "UTF-8"});
  expect_error({"train", "short.txt"}, 2, {"tokens"});
  expect_error({"train", "folder"}, 2, {"folder", ".txt"});
  expect_error({"train", "text.txt", "--context", "100000"}, 2, {"100001"});
  EXPECT_FALSE(std::filesystem::exists(directory_ / "runs"));
}

TEST_F(Errors, WhateverIsQuotedStaysOneLine) {
  expect_error({"tr\nain\x1b[1m\xff"}, 1, {"unknown command"});
  const Result result = run({"tr\nain\x1b[1m\xff"});
  EXPECT_FALSE(has_control_characters(result.err)) << result.err;
  write_file(directory_ / "a\nb\x1b[1m.txt", "");
  expect_error({"train", "a\nb\x1b[1m.txt"}, 2, {"empty"});
}

TEST_F(Errors, Sizes) {
  expect_error({"train", "text.txt", "--layers", "1000000000"}, 1,
               {"layers is 1000000000", "between 1 and 10000"});
  expect_error({"train", "text.txt", "--channels", "100000000", "--heads", "1"}, 1,
               {"head size is 100000000"});
  expect_error({"train", "text.txt", "--batch", "100000000000"}, 1, {"--batch can be at most"});
  expect_error({"train", "text.txt", "--preset", "gpt2-b4t1024", "--batch", "100000000"}, 1,
               {"--batch can be at most"});
  // More bytes, and more parameters, than 64 bits count.
  expect_error({"train", "text.txt", "--channels", "200000000", "--heads", "1", "--head-size", "64"}, 1,
               {"more than can be counted", "--channels can be at most"});
  expect_error({"train", "text.txt", "--channels", "2000000000", "--heads", "1", "--head-size", "64"}, 1,
               {"size overflow"});
  expect_error({"train", "text.txt", "--channels", "1000000", "--heads", "1"}, 1, {"head size is 1000000"});
  expect_error({"train", "text.txt", "--layers", "99999999999999999999"}, 1, {"--layers", "too large"});
  expect_error({"train", "text.txt", "--layers", "0"}, 1, {"--layers 0"});
  expect_error({"train", "text.txt", "--layers", "-5"}, 1, {"--layers -5"});
  expect_error({"train", "text.txt", "--layers", "2.5"}, 1, {"--layers '2.5'", "whole number"});
  expect_error({"train", "text.txt", "--heads", "3", "--channels", "16"}, 1, {"3", "16"});
  expect_error({"train", "text.txt", "--heads", "4", "--kv-heads", "3", "--channels", "16"}, 1, {"4", "3"});
  expect_error({"train", "text.txt", "--learning-rate", "nan"}, 1, {"--learning-rate"});
  expect_error({"train", "text.txt", "--learning-rate", "-1"}, 1, {"--learning-rate -1"});
  expect_error({"train", "text.txt", "--dropout", "1"}, 1, {"--dropout 1"});
  expect_error({"train", "text.txt", "--steps", "10", "--tokens", "100"}, 1, {"--steps", "--tokens"});
  expect_error(train_arguments({"--steps", "5", "--warmup", "100"}), 1, {"--warmup 100", "5 steps"});
  expect_error({"train", "-", "-"}, 1, {"- is given twice"});
  expect_error({"train", "/dev/zero"}, 2, {"/dev/zero", "device"});
  expect_error({"train", "text.txt", "--threads", "0"}, 1, {"--threads 0"});
  expect_error({"train", "text.txt", "--arch", "gtp"}, 1, {"'gtp'", "did you mean gpt?"});
  expect_error({"train", "text.txt", "--preset", "huge"}, 1, {"huge", "char-4x128"});
  expect_error({"train", "text.txt", "--tokenizer", "char", "--vocab", "500"}, 1, {"--vocab 500", "bpe"});
  expect_error({"train", "text.txt", "--resume"}, 1, {"--resume", "no checkpoint"});
  EXPECT_FALSE(std::filesystem::exists(directory_ / "runs"));
}

TEST_F(Errors, ConfigFiles) {
  write_file(directory_ / "a.toml", "# sizes\nlayers = 1\nchanels = 16\n");
  write_file(directory_ / "b.toml", "layers 1\n");
  write_file(directory_ / "c.json", "{\"layers\": 1,");
  write_file(directory_ / "d.json", "{\"layers\": \"many\"}");
  write_file(directory_ / "e.toml", "layers = [1, 2]\n");
  expect_error({"train", "text.txt", "--config", "a.toml"}, 1,
               {"a.toml line 3", "chanels", "did you mean channels?"});
  expect_error({"train", "text.txt", "--config", "b.toml"}, 1, {"b.toml line 1"});
  expect_error({"train", "text.txt", "--config", "c.json"}, 1, {"c.json", "JSON"});
  expect_error({"train", "text.txt", "--config", "d.json"}, 1, {"d.json: layers", "many"});
  expect_error({"train", "text.txt", "--config", "e.toml"}, 1, {"e.toml line 1: layers"});
  write_file(directory_ / "f.toml", "layers = 1\nheads = 1\nlayers = 2\n");
  write_file(directory_ / "g.json", "{\"layers\": 1, \"heads\": 1, \"layers\": 2}");
  write_file(directory_ / "h.toml", "out = \"\"\n");
  write_file(directory_ / "i.toml", "kv_heads = 1\nkv-heads = 2\n");
  expect_error({"train", "text.txt", "--config", "i.toml"}, 1, {"i.toml line 2: kv-heads", "twice"});
  expect_error({"train", "text.txt", "--config", "f.toml"}, 1, {"f.toml line 3: layers", "twice"});
  expect_error({"train", "text.txt", "--config", "g.json"}, 1, {"g.json", "layers", "twice"});
  expect_error({"train", "text.txt", "--config", "h.toml"}, 1, {"h.toml line 1: out", "empty"});
  write_file(directory_ / "j.toml", "out = \"a\\new\"\n");
  write_file(directory_ / "k.toml", "= 3\n");
  write_file(directory_ / "l.json", "{\"weight-decay\": 0.1, \"weight_decay\": 0.2}");
  expect_error({"train", "text.txt", "--config", "j.toml"}, 1, {"j.toml line 1: out", "escape \\n"});
  expect_error({"train", "text.txt", "--config", "k.toml"}, 1, {"k.toml line 1", "no name"});
  expect_error({"train", "text.txt", "--config", "l.json"}, 1, {"l.json: weight_decay", "twice"});
  expect_error({"train", "text.txt", "--config", "none.toml"}, 2, {"none.toml"});
}

TEST_F(Errors, Models) {
  ASSERT_EQ(run(train_arguments({"--steps", "2", "--out", "model"})).code, 0);
  const auto model = directory_ / "model";
  expect_error({"generate", "nowhere"}, 2, {"nowhere"});
  expect_error({"generate", "model", "--temperature", "nan"}, 1, {"--temperature nan"});
  expect_error({"generate", "model", "--temperature", "-1"}, 1, {"--temperature -1"});
  expect_error({"generate", "model", "--top-p", "0"}, 1, {"top"});
  expect_error({"generate", "model", "--top-p", "2"}, 1, {"--top-p 2"});
  expect_error({"generate", "model", "--top-k", "-1"}, 1, {"--top-k -1"});
  expect_error({"generate", "model", "--prompt", "The \xc3\xa9"}, 2, {"\xc3\xa9"});
  expect_error({"logits", "model", "--tokens", "1 99", "--out", "l"}, 1, {"99"});
  expect_error({"logits", "model", "--tokens", "1 x", "--out", "l"}, 1, {"'x'"});
  expect_error({"logits", "model", "--tokens", "", "--out", "l"}, 1, {"no tokens"});
  expect_error({"logits", "model", "--tokens", "1"}, 1, {"--out"});
  expect_error({"logits", "model", "--tokens", "1", "--out", "-"}, 1, {"--out"});
  expect_error({"logits", "model", "--tokens", "1", "--out", "model/model.safetensors"}, 1,
               {"a file of the model"});
  expect_error({"logits", "model", "--tokens", "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "--out", "l"}, 1,
               {"17", "16"});

  {
    const LoadedModel loaded = load_model(model);
    loaded.parameters->items().back().weight->value.f32()[0] = std::numeric_limits<float>::quiet_NaN();
    save_model_folder(directory_ / "nan", loaded.config, *loaded.parameters, *loaded.tokenizer);
  }
  expect_error({"logits", "nan", "--tokens", "1", "--out", "l"}, 3, {"nan", "token 0 at position 0"});
  expect_error({"generate", "nan"}, 3, {"logits"});
  EXPECT_FALSE(std::filesystem::exists(directory_ / "l"));

  const std::string weights = read_file(model / "model.safetensors");
  const auto with_weights = [&](const std::string& bytes) { write_file(model / "model.safetensors", bytes); };
  with_weights(weights.substr(0, weights.size() / 2));
  expect_error({"generate", "model"}, 2, {"model.safetensors"});
  with_weights(weights.substr(0, 4));
  expect_error({"generate", "model"}, 2, {"model.safetensors"});
  std::string altered = weights;
  altered.replace(altered.find("F32"), 3, "F99");
  with_weights(altered);
  expect_error({"info", "model"}, 2, {"model.safetensors"});
  with_weights("");
  expect_error({"generate", "model"}, 2, {"model.safetensors"});
  with_weights(weights);
  write_file(model / "config.json", "{\"model_type\": \"elephant\"}");
  expect_error({"generate", "model"}, 2, {"config.json"});
  std::filesystem::remove(model / "config.json");
  expect_error({"generate", "model"}, 2, {"config.json"});
}

TEST_F(Errors, AModelThatIsNoRunIsNotOverwritten) {
  ASSERT_EQ(run(train_arguments({"--steps", "2", "--out", "model"})).code, 0);
  std::filesystem::remove_all(directory_ / "model" / "steps");
  const std::string weights = read_file(directory_ / "model" / "model.safetensors");
  expect_error(train_arguments({"--out", "model"}), 1, {"model", "--out"});
  EXPECT_EQ(read_file(directory_ / "model" / "model.safetensors"), weights);
  expect_error(train_arguments({"--out", "text.txt"}), 1, {"text.txt"});
}

}  // namespace
}  // namespace tril::cli_testing
