// `tril plot`: a real run's log in every format, several runs, logs with damage, mistakes.
#include <sstream>

#include "tests/cli/run_tril.h"

namespace tril::cli_testing {
namespace {

class Plot : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new testing::TemporaryDirectory;
    write_file(*directory_ / "text.txt", sample_text());
    for (const char* out : {"one", "two"}) {
      const Result trained = run(train_arguments({"--eval-every", "10", "--out", out}));
      ASSERT_EQ(trained.code, 0) << trained.err;
    }
  }
  static void TearDownTestSuite() { delete directory_; }
  static Result run(const std::vector<std::string>& arguments) {
    return run_tril(arguments, {.directory = directory_->path()});
  }
  static Result plot(std::vector<std::string> words) {
    words.insert(words.begin(), "plot");
    return run(words);
  }
  static std::vector<Json> log(const std::string& name) {
    return json_lines(read_file(*directory_ / name / "log.jsonl"));
  }
  static inline testing::TemporaryDirectory* directory_ = nullptr;
};

TEST_F(Plot, InTheTerminalsAlphabet) {
  ::setenv("LC_ALL", "en_US.UTF-8", 1);
  const Result utf8 = plot({"one"});
  ::setenv("LC_ALL", "C", 1);
  const Result ascii = plot({"one", "two"});
  ::unsetenv("LC_ALL");
  ASSERT_EQ(utf8.code, 0) << utf8.err;
  EXPECT_EQ(utf8.err, "");
  EXPECT_NE(utf8.out.find("\u2502"), std::string::npos) << utf8.out;
  EXPECT_FALSE(has_control_characters(utf8.out));
  EXPECT_EQ(std::count_if(ascii.out.begin(), ascii.out.end(), [](char c) { return (c & 0x80) != 0; }), 0)
      << ascii.out;
  for (const char* piece : {"\na training ", "\nB validation ", "  one\n", "steps", "lowest"})
    EXPECT_NE(ascii.out.find(piece), std::string::npos) << ascii.out;
  std::istringstream lines(ascii.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u);
}

TEST_F(Plot, FormatsByNameAndByEnding) {
  const std::vector<Json> lines = log("one");
  const Result json = plot({"one", "--format", "json", "--smooth", "0", "--x", "tokens"});
  ASSERT_EQ(json.code, 0) << json.err;
  const Json report = parse_json(json.out)["runs"][0];
  EXPECT_EQ(report["lines"], 40);
  EXPECT_EQ(report["training_loss"]["last"], lines.back()["loss_nats"]);
  EXPECT_EQ(report["validation_loss"]["last"], lines.back()["validation_loss_nats"]);
  for (const char* name :
       {"step", "loss_nats", "gradient_norm", "learning_rate", "tokens", "seconds", "tokens_per_s"})
    for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(report["columns"][name][i], lines[i][name]) << name;

  const Result csv = plot({"one", "two", "--out", "both.CSV"});
  ASSERT_EQ(csv.code, 0) << csv.err;
  EXPECT_NE(csv.out.find("2 runs drawn into both.CSV"), std::string::npos) << csv.out;
  const std::string table = read_file(*directory_ / "both.CSV");
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 81);
  EXPECT_TRUE(table.starts_with("run,step,loss_nats,"));

  EXPECT_EQ(plot({"one", "--format", "html"}).code, 0);
  EXPECT_TRUE(read_file(*directory_ / "plot.html").starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(plot({"one/log.jsonl", "--out", "page.html", "--x", "seconds"}).code, 0);
  EXPECT_TRUE(read_file(*directory_ / "page.html").starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(plot({"one", "--out", "chart.txt"}).code, 0);
  EXPECT_NE(read_file(*directory_ / "chart.txt").find("loss, nats a token"), std::string::npos);
}

TEST_F(Plot, ALogCutShortInItsLastLine) {
  std::filesystem::create_directory(*directory_ / "cut");
  const std::string whole = read_file(*directory_ / "one" / "log.jsonl");
  write_file(*directory_ / "cut" / "log.jsonl", whole.substr(0, whole.size() - 30));
  const Result result = plot({"cut", "--format", "json"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(one_line(result.err)) << result.err;
  EXPECT_NE(result.err.find("cut/log.jsonl line 40: not a JSON object; 1 of 40 lines passed over"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(parse_json(result.out)["runs"][0]["columns"]["step"].size(), 39u);
}

TEST_F(Plot, Mistakes) {
  expect_error(plot({}), 1, {"no run given", "tril plot RUN"});
  expect_error(plot({"one", "--x", "epochs"}), 1, {"--x 'epochs'", "steps, tokens or seconds"});
  expect_error(plot({"one", "--smooth", "1"}), 1, {"--smooth 1", "out of range"});
  expect_error(plot({"one", "--format", "png"}), 1, {"png", "text, html, csv or json"});
  expect_error(plot({"one", "--out", "x.png"}), 1, {"x.png", "--format"});
  expect_error(plot({"one", "--out="}), 1, {"--out is empty"});
  expect_error(plot({"one", "nowhere"}), 2, {"nowhere", "No such file"});
  expect_error(plot({"one/steps"}), 2, {"one/steps", "no log.jsonl"});
  expect_error(plot({"text.txt"}), 2, {"text.txt line 1: not a JSON object", "log.jsonl of tril train"});
  expect_error(plot({"one", "--format", "json", "--out", "one/log.jsonl"}), 1, {"file of the model"});
  EXPECT_EQ(log("one").size(), 40u);
}

}  // namespace
}  // namespace tril::cli_testing
