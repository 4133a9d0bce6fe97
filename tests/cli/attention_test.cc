// `tril attention`: its formats, and what it says when it cannot.
#include <map>

#include "tests/cli/run_tril.h"
#include "tril/interop/model_folder.h"

namespace tril::cli_testing {
namespace {

class Attention : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new testing::TemporaryDirectory;
    write_file(*directory_ / "text.txt", sample_text());
    const Result trained =
        run(train_arguments({"--tokenizer", "byte", "--layers", "2", "--steps", "2", "--out", "model"}));
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
  static void TearDownTestSuite() { delete directory_; }
  static Result run(const std::vector<std::string>& arguments, RunOptions options = {}) {
    options.directory = directory_->path();
    return run_tril(arguments, options);
  }
  static Result inspect(std::vector<std::string> more, const std::string& text = "The cat",
                        RunOptions options = {}) {
    more.insert(more.begin(), {"attention", "model", "--text", text});
    return run(more, options);
  }
  static inline testing::TemporaryDirectory* directory_ = nullptr;
};

TEST_F(Attention, WritesAPageUnlessToldOtherwise) {
  const Result page = inspect({});
  ASSERT_EQ(page.code, 0) << page.err;
  EXPECT_EQ(page.err, "");
  EXPECT_NE(page.out.find("7 tokens in 4 heads written to attention.html"), std::string::npos) << page.out;
  EXPECT_TRUE(read_file(*directory_ / "attention.html").starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(inspect({"--format", "csv"}).code, 0);
  EXPECT_TRUE(read_file(*directory_ / "attention.csv").starts_with("layer,head,"));
  EXPECT_EQ(inspect({"--out", "heads.png"}).code, 0);
  EXPECT_TRUE(read_file(*directory_ / "heads.png").starts_with("\x89PNG"));
  EXPECT_EQ(inspect({"--out", "HEADS.Png"}).code, 0);
  EXPECT_TRUE(read_file(*directory_ / "HEADS.Png").starts_with("\x89PNG"));
  EXPECT_EQ(inspect({"--out", "no_ending"}).code, 0);
  EXPECT_TRUE(read_file(*directory_ / "no_ending").starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(inspect({"--out", "x.txt", "--format", "json"}).code, 0);
  EXPECT_TRUE(read_file(*directory_ / "x.txt").starts_with("{"));
}

TEST_F(Attention, StandardInputAndOutput) {
  const Result direct = inspect({"--format", "json", "--out", "-"}, "caf\xc3\xa9\n");
  ASSERT_EQ(direct.code, 0) << direct.err;
  const Result piped =
      inspect({"--format", "json", "--out", "-", "--threads", "1"}, "-", {.input = "caf\xc3\xa9\n"});
  EXPECT_EQ(piped.out, direct.out);
  const Json json = parse_json(direct.out);
  ASSERT_FALSE(json.is_discarded()) << direct.out;
  EXPECT_EQ(json["tokens"], Json({"c", "a", "f", "\\xc3", "\\xa9", "\n"}));
  EXPECT_EQ(json["ids"], Json({99, 97, 102, 0xc3, 0xa9, 10}));
  EXPECT_EQ(json["weights"].size(), 4u);
}

TEST_F(Attention, ChosenLayersAndHeads) {
  const auto chosen = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--format", "json", "--out", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Json json = parse_json(inspect(arguments).out);
    std::string text;
    for (const Json& map : json["weights"]) text += to_text(map["layer"]) + "." + to_text(map["head"]) + " ";
    return text;
  };
  EXPECT_EQ(chosen({}), "0.0 0.1 1.0 1.1 ");
  EXPECT_EQ(chosen({"--layer", "1"}), "1.0 1.1 ");
  EXPECT_EQ(chosen({"--head", "1"}), "0.1 1.1 ");
  EXPECT_EQ(chosen({"--layer", "1,0", "--head", "0"}), "0.0 1.0 ");
}

TEST_F(Attention, MistakesInTheCommand) {
  expect_error(run({"attention"}), 1, {"no model given", "tril attention MODEL"});
  expect_error(run({"attention", "model"}), 1, {"no text given", "--text"});
  expect_error(run({"attention", "nowhere", "--text", "x"}), 2, {"nowhere"});
  expect_error(inspect({}, ""), 1, {"the text is empty"});
  expect_error(inspect({}, "-"), 1, {"the text is empty"});
  expect_error(inspect({"--layer", "2"}), 1, {"--layer 2", "from 0 to 1"});
  expect_error(inspect({"--head", "0,5"}), 1, {"--head 5", "from 0 to 1"});
  expect_error(inspect({"--head", "-1"}), 1, {"--head -1", "from 0 to 1"});
  expect_error(inspect({"--layer", "0,,1"}), 1, {"--layer ''", "whole number"});
  expect_error(inspect({"--layer", "0,"}), 1, {"--layer ''", "whole number"});
  expect_error(inspect({"--head", ","}), 1, {"--head ''", "whole number"});
  expect_error(inspect({"--layer", "first"}), 1, {"--layer 'first'", "whole number"});
  expect_error(inspect({"--layer="}), 1, {"--layer is empty"});
  expect_error(inspect({"--format", "svg"}), 1, {"svg", "html, json, csv or png"});
  for (const char* name : {"unknown.txt", "unknown.png.", "unknown.htm"}) {
    expect_error(inspect({"--out", name}), 1, {name, ".html, .json, .csv or .png", "--format"});
    EXPECT_FALSE(std::filesystem::exists(*directory_ / name));
  }
  expect_error(inspect({}, "The cat sees the moon"), 1, {"21 tokens", "context of 16", "first 16 bytes"});
}

TEST_F(Attention, FilesOfAnyModelStay) {
  const auto contents = [] {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(*directory_ / "model"))
      if (entry.is_regular_file()) all[entry.path().native()] = read_file(entry.path());
    return all;
  };
  const auto before = contents();
  EXPECT_GE(before.size(), 9u);
  std::filesystem::create_directory_symlink("model/steps", *directory_ / "link");
  std::filesystem::create_directories(*directory_ / "other" / "steps");
  for (const auto& [path, content] : before) {
    expect_error(inspect({"--format", "csv", "--out", path}), 1, {path, "a file of the model"});
    expect_error(run({"logits", "other", "--tokens", "1", "--out", path}), 1, {path, "a file of the model"});
    expect_error(run({"corpus", "--stories", "1", "--out", path}), 1, {path, "a file of the model"});
  }
  for (const char* name : {"model/x.safetensors", "model/steps/00000002/manifest.json",
                           "link/00000002/x.safetensors", "other/../model/./tokenizer_x.json"})
    expect_error(inspect({"--format", "csv", "--out", name}), 1, {name, "a file of the model"});
  EXPECT_EQ(contents(), before);

  // A run without a saved model yet, then one whose folder is no run.
  write_file(*directory_ / "other" / "log.jsonl", "{}\n");
  expect_error(inspect({"--out", "other/config.json"}), 1, {"a file of the model"});
  expect_error(inspect({"--out", "other/steps/config.json"}), 1, {"a file of the model"});
  std::filesystem::remove(*directory_ / "other" / "log.jsonl");
  EXPECT_EQ(inspect({"--out", "other/steps/config.json"}).code, 0);
  EXPECT_EQ(inspect({"--out", "other/config.json"}).code, 0);
}

TEST_F(Attention, AModelsFolderCanBeWorkedIn) {
  for (int time = 0; time < 2; ++time) {
    for (const char* format : {"html", "json", "csv", "png"}) {
      const Result result = run_tril({"attention", ".", "--text", "The cat", "--format", format},
                                     {.directory = *directory_ / "model"});
      EXPECT_EQ(result.code, 0) << result.err;
    }
    EXPECT_EQ(inspect({"--out", "model/steps/00000002/heads.json"}).code, 0);
  }
  for (const char* name : {"html", "json", "csv", "png"})
    std::filesystem::remove(*directory_ / "model" / (std::string("attention.") + name));
  std::filesystem::remove(*directory_ / "model" / "steps" / "00000002" / "heads.json");
}

TEST_F(Attention, FilesThatCannotBeWritten) {
  expect_error(inspect({"--out", "nowhere/x.html"}), 2, {"nowhere"});
  expect_error(inspect({"--out", "model"}), 2, {"model"});
  write_file(*directory_ / "full.json", "before");
  expect_error(inspect({"--out", "full.json"}, "The cat", {.file_limit = 512}), 2, {"full.json", "ulimit"});
  EXPECT_EQ(read_file(*directory_ / "full.json"), "before");
  EXPECT_FALSE(std::filesystem::exists(*directory_ / "full.json.tril-tmp"));
}

TEST_F(Attention, ModelsThatCannotBeRead) {
  {
    const LoadedModel loaded = load_model(*directory_ / "model");
    save_model_folder(*directory_ / "mute", loaded.config, *loaded.parameters, *loaded.tokenizer);
    std::filesystem::remove(*directory_ / "mute" / "tokenizer.json");
    loaded.parameters->find("blocks.1.attention.qkv.weight").value.f32()[0] =
        std::numeric_limits<float>::infinity();
    save_model_folder(*directory_ / "damaged", loaded.config, *loaded.parameters, *loaded.tokenizer);
  }
  expect_error(run({"attention", "mute", "--text", "x"}), 2, {"mute", "no tokenizer.json"});
  expect_error(run({"attention", "damaged", "--text", "The", "--out", "damaged.html"}), 3,
               {"layer 1", "damaged"});
  EXPECT_FALSE(std::filesystem::exists(*directory_ / "damaged.html"));
}

TEST_F(Attention, ACharacterTheModelDoesNotKnow) {
  ASSERT_EQ(run(train_arguments({"--steps", "2", "--out", "chars"})).code, 0);
  expect_error(run({"attention", "chars", "--text", "The \xc3\xa9"}), 2, {"\xc3\xa9"});
}

}  // namespace
}  // namespace tril::cli_testing
