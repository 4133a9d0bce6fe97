// tril data: stores built, looked at, exported, trained on; stopped and killed builds; what is refused.
#include "tests/cli/run_tril.h"
#include "tril/base/random.h"

namespace tril::cli_testing {
namespace {

class Data : public ::testing::Test {
 protected:
  Result run(const std::vector<std::string>& words, RunOptions options = {}) {
    options.directory = directory_.path();
    return run_tril(words, options);
  }
  Json json_of(const std::vector<std::string>& words) {
    const Result result = run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return parse_json(result.out);
  }
  void refuse(const std::vector<std::string>& words, int code, const std::vector<std::string>& parts) {
    Result result = run(words);
    result.out.clear();  // a build says what it has read
    expect_error(result, code, parts);
  }
  std::string lines(int count) const {
    std::string out;
    for (int i = 0; i < count; ++i)
      out += to_text({{"text", sample_text(20) + std::to_string(i * 7919)}}) + "\n";
    return out;
  }
  testing::TemporaryDirectory directory_;
};

TEST_F(Data, FromTextToATrainedModel) {
  write_file(directory_ / "a.jsonl", lines(60) + "{\"id\":1}\n");
  refuse({"data", "build", "a.jsonl", "--out", "a.store"}, 2,
         {"a.jsonl, line 61", "no field 'text'", "'id'"});
  const Result built =
      run({"data", "build", "a.jsonl", "--tokenizer", "char", "--on-error", "skip", "--out", "a.store"});
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_NE(built.err.find("skipped: a.jsonl, line 61"), std::string::npos) << built.err;
  EXPECT_NE(built.out.find("tril train a.store"), std::string::npos) << built.out;
  const Json info = json_of({"data", "info", "a.store", "--json"});
  EXPECT_EQ(info["train"]["documents"].get<int>() + info["validation"]["documents"].get<int>(), 60);
  EXPECT_EQ(info["token_bits"], 16);
  EXPECT_EQ(run({"data", "info", "a.store"}).code, 0);
  const Json lint = json_of({"data", "lint", "a.store", "--json"});
  EXPECT_EQ(lint["train_duplicates"], 0);
  EXPECT_EQ(run({"data", "lint", "a.store"}).code, 0);
  EXPECT_NE(run({"data", "show", "a.store"}).out.find("The cat sees the moon."), std::string::npos);
  const Json batch = json_of({"data", "show", "a.store", "--batch", "3", "--rows", "2", "--context", "16",
                              "--document-mask", "--json"});
  EXPECT_EQ(batch["tokens"].size(), 32u);
  EXPECT_EQ(batch["positions"].size(), 32u);
  EXPECT_NE(run({"data", "show", "a.store", "--batch", "0"}).out.find("targets count"), std::string::npos);

  std::vector<std::string> words = train_arguments();
  words[1] = "a.store";
  words.resize(words.size() - 2);  // the store has the tokenizer
  const Result trained = run(words);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(run({"generate", "runs/a.store", "--max-tokens", "5"}).code, 2);
  // The same text, read directly, is the same run.
  std::vector<std::string> direct = train_arguments({"--on-error", "skip", "--out", "runs/direct"});
  direct[1] = "a.jsonl";
  ASSERT_EQ(run(direct).code, 0);
  EXPECT_TRUE(read_file(directory_ / "runs/a.store/model.safetensors") ==
              read_file(directory_ / "runs/direct/model.safetensors"));
  words.insert(words.end(), {"--val-fraction", "0.2", "--out", "runs/b"});
  refuse(words, 1, {"--val-fraction", "store"});
}

TEST_F(Data, ExportsAndTokenFiles) {
  write_file(directory_ / "text.txt", sample_text(400));
  ASSERT_EQ(run({"data", "build", "text.txt", "--tokenizer", "byte", "--out", "t.store"}).code, 0);
  std::filesystem::create_directory(directory_ / "nano");
  ASSERT_EQ(run({"data", "export", "t.store", "--to", "nanogpt", "--out", "nano/train.bin"}).code, 0);
  ASSERT_EQ(
      run({"data", "export", "t.store", "--to", "nanogpt", "--validation", "--out", "nano/val.bin"}).code, 0);
  ASSERT_EQ(run({"data", "build", "nano", "--tokenizer", "byte", "--out", "n.store"}).code, 0);
  // Two documents, so that an end-of-text token stands behind each.
  const Json one = json_of({"data", "info", "t.store", "--json"}),
             two = json_of({"data", "info", "n.store", "--json"});
  for (const char* side : {"train", "validation"})
    EXPECT_EQ(two[side]["tokens"].get<int>(), one[side]["tokens"].get<int>() + 1);
  std::vector<std::string> words = train_arguments();
  words[1] = "nano";
  words.back() = "byte";
  const Result trained = run(words);
  EXPECT_EQ(trained.code, 0) << trained.err;
  refuse({"train", "nano", "--out", "runs/x"}, 1, {"token ids", "--tokenizer"});
}

TEST_F(Data, KilledAndStoppedBuildsGoOn) {
  write_file(directory_ / "big.jsonl", lines(30'000));
  const auto words = [](const std::string& out) {
    return std::vector<std::string>{"data", "build",   "big.jsonl", "--tokenizer",
                                    "byte", "--dedup", "--out",     out};
  };
  ASSERT_EQ(run(words("whole")).code, 0);
  const RandomStream random(3, "kills");
  Result result;
  int kills = 0;
  for (; kills < 30; ++kills) {
    const auto delay = static_cast<int64_t>(random.below(static_cast<uint64_t>(kills), 120'000));
    result = run(words("killed"),
                 {.signal_at = "", .signal = kills % 2 == 0 ? SIGKILL : SIGINT, .delay_us = delay});
    if (std::filesystem::exists(directory_ / "killed")) break;
  }
  if (!std::filesystem::exists(directory_ / "killed")) {
    result = run(words("killed"));
    ASSERT_EQ(result.code, 0) << result.err;
  }
  for (const char* name : {"train.tokens", "validation.tokens"})
    EXPECT_TRUE(read_file(directory_ / "whole" / name) == read_file(directory_ / "killed" / name)) << name;
  refuse(words("whole"), 1, {"whole", "is there already"});
}

TEST_F(Data, WhatIsRefused) {
  write_file(directory_ / "text.txt", sample_text());
  write_file(directory_ / "latin1.txt", "caf\xE9");
  refuse({"data", "build", "latin1.txt", "--out", "s"}, 2,
         {"latin1.txt", "byte offset 3", "--encoding latin-1"});
  EXPECT_EQ(
      run({"data", "build", "latin1.txt", "--encoding", "latin-1", "--tokenizer", "byte", "--out", "s"}).code,
      0);
  write_file(directory_ / "one.txt", "x");
  refuse({"data", "build", "one.txt", "--tokenizer", "byte", "--out", "one"}, 2, {"0 tokens to train on"});
  refuse({"data", "build", "one.txt", "--tokenizer", "missing.json", "--out", "one"}, 2, {"missing.json"});
  EXPECT_FALSE(std::filesystem::exists(directory_ / "one.building"));
  refuse({"data", "build", "text.txt"}, 1, {"--out"});
  refuse({"data", "build", "--out", "x"}, 1, {"give a file"});
  refuse({"data", "build", "text.txt", "--out", "x", "--tokenizer", "byte", "--vocab", "300"}, 1,
         {"--vocab"});
  refuse({"data", "build", "text.txt", "--out", "x", "--on-error", "ask"}, 1, {"--on-error", "skip"});
  refuse({"data", "info", "nothing"}, 2, {"nothing", "tril data build"});
  refuse({"data", "info", "."}, 2, {"not a token store"});
  refuse({"data", "export", "s", "--to", "csv", "--out", "x"}, 1, {"csv", "nanogpt"});
  refuse({"data", "lnt"}, 1, {"lnt", "lint"});
  const Result help = run({"data", "--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* part : {"build", "info", "lint", "show", "export"}) {
    EXPECT_NE(help.out.find(part), std::string::npos);
    EXPECT_EQ(run({"data", part, "--help"}).code, 0);
  }
  // An id of the store that its tokenizer does not have is damage, not wrong use.
  ASSERT_EQ(run({"tokenizer", "train", "text.txt", "--vocab", "300", "--out", "bpe.json"}).code, 0);
  ASSERT_EQ(run({"data", "build", "text.txt", "--tokenizer", "bpe.json", "--out", "b"}).code, 0);
  std::filesystem::copy_file(directory_ / "s/tokenizer.json", directory_ / "b/tokenizer.json",
                             std::filesystem::copy_options::overwrite_existing);
  refuse({"data", "show", "b"}, 2, {"b/train.tokens", "has id"});
  refuse({"data", "show", "b", "--batch", "0"}, 2, {"b/train.tokens"});
  refuse({"data", "export", "b", "--to", "txt", "--out", "-"}, 2, {"b/train.tokens", "has id"});
  std::string bytes = read_file(directory_ / "s/train.tokens");
  write_file(directory_ / "s/train.tokens", bytes.substr(0, 200));
  refuse({"data", "info", "s"}, 2, {"train.tokens", "cut or damaged"});
}

}  // namespace
}  // namespace tril::cli_testing
