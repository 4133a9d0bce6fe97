// What a run says of itself while it trains: progress in a file, event files for TensorBoard.
#include <sstream>

#include "tests/cli/run_tril.h"
#include "tests/support/event_file.h"

namespace tril::cli_testing {
namespace {

using tril::testing::read_events;
using tril::testing::ReadEvent;

class TrainLog : public ::testing::Test {
 protected:
  void SetUp() override { write_file(directory_ / "text.txt", sample_text()); }

  Result run(const std::vector<std::string>& arguments, RunOptions options = {}) {
    options.directory = directory_.path();
    return run_tril(arguments, options);
  }

  // Of the one event file of a run that is not empty.
  std::vector<ReadEvent> events(const std::string& out) {
    std::vector<ReadEvent> all;
    int files = 0;
    for (const auto& file : std::filesystem::directory_iterator(directory_ / out / "tensorboard")) {
      if (std::filesystem::file_size(file) == 0) continue;
      all = read_events(read_file(file.path()));
      ++files;
    }
    EXPECT_EQ(files, 1);
    return all;
  }

  // Each step of log.jsonl once, in order, with its values.
  void expect_events_equal_log(const std::string& out) {
    const std::vector<ReadEvent> all = events(out);
    size_t at = 2;  // after the version and the restart
    for (const Json& json : json_lines(read_file(directory_ / out / "log.jsonl"))) {
      const std::string line = to_text(json);
      ASSERT_LT(at, all.size()) << line;
      EXPECT_EQ(all[at].step, json["step"]);
      const std::pair<const char*, const char*> names[] = {
          {"loss/train", "loss_nats"},        {"loss/validation", "validation_loss_nats"},
          {"bits_per_byte", "bits_per_byte"}, {"learning_rate", "learning_rate"},
          {"gradient_norm", "gradient_norm"}, {"tokens", "tokens"},
          {"tokens_per_s", "tokens_per_s"}};
      for (const auto& [tag, name] : names) {
        ASSERT_EQ(all[at].scalars.contains(tag), json.contains(name)) << tag << " in " << line;
        if (!json.contains(name)) continue;
        EXPECT_EQ(all[at].scalars.at(tag), json[name].get<float>()) << tag << " in " << line;
      }
      EXPECT_GE(all[at].wall_time, all[at - 1].wall_time);
      ++at;
    }
    EXPECT_EQ(at, all.size());
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(TrainLog, TensorBoardFollowsTheLog) {
  ASSERT_EQ(run(train_arguments({"--out", "plain"})).code, 0);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "plain" / "tensorboard"));
  ASSERT_EQ(run(train_arguments({"--out", "run", "--eval-every", "10", "--tensorboard"})).code, 0);
  EXPECT_EQ(events("run").size(), 42u);
  expect_events_equal_log("run");
}

// Killed after steps that no save holds: they are trained again, and stand in the file once. The option is
// remembered.
TEST_F(TrainLog, NoStepStandsTwiceAfterAKill) {
  auto words =
      train_arguments({"--steps", "300", "--eval-every", "10", "--save-every", "20", "--out", "run"});
  auto first = words;
  first.push_back("--tensorboard");
  EXPECT_EQ(run(first, {.signal_at = "step 50/", .signal = SIGKILL}).code, 1000 + SIGKILL);
  ASSERT_EQ(run(words).code, 0);
  EXPECT_EQ(events("run").size(), 302u);
  expect_events_equal_log("run");
}

// A run that began without event files gets all of its steps.
TEST_F(TrainLog, TensorBoardFromTheMiddleOfARun) {
  ASSERT_EQ(run(train_arguments({"--out", "run"})).code, 0);
  const Result longer = run(train_arguments({"--out", "run", "--steps", "60", "--resume", "--tensorboard"}));
  ASSERT_EQ(longer.code, 0) << longer.err;
  EXPECT_EQ(events("run").size(), 62u);
  expect_events_equal_log("run");
}

// Standard output is no terminal: whole lines, the first step at once, then a line for each validation and
// one every ten seconds.
TEST_F(TrainLog, ProgressInAFile) {
  const auto begin = std::chrono::steady_clock::now();
  const Result result = run(train_arguments({"--steps", "400", "--eval-every", "100", "--out", "run"}));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_FALSE(has_control_characters(result.out)) << result.out;
  std::vector<std::string> lines;
  std::istringstream text(result.out);
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("step ")) lines.push_back(line);
  ASSERT_GE(lines.size(), 5u) << result.out;
  EXPECT_TRUE(lines[0].starts_with("step 1/400  loss ")) << lines[0];
  for (const char* validated : {"step 100/400  ", "step 200/400  ", "step 300/400  ", "step 400/400  "})
    EXPECT_NE(result.out.find(std::string("\n") + validated), std::string::npos) << validated;
  EXPECT_LE(static_cast<double>(lines.size()), 5 + took.count() / 10) << result.out;
}

}  // namespace
}  // namespace tril::cli_testing
