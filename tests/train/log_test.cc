#include "tril/train/log.h"

#include <cmath>
#include <limits>

#include "tests/train/small_run.h"

namespace tril {
namespace {

StepReport report(int64_t step) {
  StepReport r;
  r.step = step;
  r.loss = 3.25;
  r.gradient_norm = 0.5;
  r.learning_rate = 0.001f;
  return r;
}

TEST(RunLog, AStepIsOneObject) {
  EXPECT_EQ(
      to_text(log_line(report(1), 64, 0.25, 256)),
      R"({"step":1,"loss_nats":3.25,"gradient_norm":0.5,"learning_rate":0.001,"tokens":64,"seconds":0.25,"tokens_per_s":256.0})");
  StepReport evaluated = report(2);
  evaluated.validation = Evaluation{.loss_nats = 2.5, .bits_per_byte = 1.25, .tokens = 100};
  const Json line = log_line(evaluated, 128, 0.5, 256);
  EXPECT_EQ(line["validation_loss_nats"], 2.5);
  EXPECT_EQ(line["bits_per_byte"], 1.25);
  EXPECT_EQ(line["validation_tokens"], 100);
  StepReport skipped = report(3);
  skipped.loss = std::numeric_limits<double>::quiet_NaN();
  skipped.skipped = true;
  EXPECT_EQ(
      to_text(log_line(skipped, 192, 0.75, 256)),
      R"({"step":3,"loss_nats":null,"gradient_norm":0.5,"learning_rate":0.001,"tokens":192,"skipped":true,"seconds":0.75,"tokens_per_s":256.0})");
}

TEST(RunLog, LinesAfterTheCheckpointGo) {
  const testing::TemporaryFolder folder;
  const Path path = folder.path() / "log.jsonl";
  trim_log(path, 3);
  EXPECT_FALSE(std::filesystem::exists(path));
  const auto line = [](int64_t step) { return to_text(log_line(report(step), 64 * step, 1, 64)) + "\n"; };
  write_file_atomic(path, line(1) + line(2) + line(3) + line(4) + line(5).substr(0, 20));
  trim_log(path, 3);
  EXPECT_EQ(read_text_file(path), line(1) + line(2) + line(3));
}

// Every value that a line holds comes back under its name.
TEST(RunLog, IsReadAgain) {
  StepReport evaluated = report(2);
  evaluated.validation = Evaluation{.loss_nats = 2.5, .bits_per_byte = 1.25, .tokens = 100};
  LogEntry entry;
  ASSERT_EQ(read_log_line(log_line(evaluated, 128, 0.5, 256), entry), "");
  EXPECT_EQ(entry.step, 2);
  const Json line = log_line(evaluated, 128, 0.5, 256);
  EXPECT_EQ(line.size(), 1 + log_columns().size()) << "a column is unknown to log_columns()";
  for (const LogColumn& column : log_columns())
    EXPECT_EQ(line.at(column.name), entry.*column.value) << column.name;
  ASSERT_EQ(read_log_line(log_line(report(3), 192, 0.75, 256), entry), "");
  EXPECT_TRUE(std::isnan(entry.validation_loss_nats));
  EXPECT_EQ(entry.loss_nats, 3.25);
}

TEST(RunLog, LinesOfOtherVersionsAreRead) {
  LogEntry entry;
  EXPECT_EQ(read_log_line(parse_json(R"({"step":4,"loss_nats":1.5})"), entry), "");
  EXPECT_EQ(entry.loss_nats, 1.5);
  EXPECT_TRUE(std::isnan(entry.tokens));
  EXPECT_EQ(read_log_line(parse_json(R"({"step":4,"later":[1],"loss_nats":null})"), entry), "");
  EXPECT_TRUE(std::isnan(entry.loss_nats)) << "null is what was not finite";
}

TEST(RunLog, DamagedLinesArePassedOverAndCounted) {
  const testing::TemporaryFolder folder;
  const Path path = folder.path() / "log.jsonl";
  const auto read = [&](const std::string& text) {
    write_file_atomic(path, text);
    return read_log(path);
  };
  const RunLog log = read(
      "{\"step\":1}\n\n{\"step\":-2}\n[3]\n{\"loss_nats\":4}\n{\"step\":5,\"seconds\":\"long\"}\n"
      "{\"step\":6}\n{\"step\":7,\"loss_na");
  EXPECT_EQ(log.lines, 8);
  EXPECT_EQ(log.damaged_lines, 6);
  EXPECT_EQ(log.first_damage, "line 2: not a JSON object");
  ASSERT_EQ(log.entries.size(), 2u);
  EXPECT_EQ(log.entries[1].step, 6);
  EXPECT_EQ(read("{\"step\":1}\n{\"step\":2}").entries.size(), 2u) << "whole, though without a line break";
  EXPECT_EQ(read("").lines, 0);
  const auto damage = [](const char* text) {
    LogEntry entry;
    return read_log_line(parse_json(text), entry);
  };
  EXPECT_EQ(damage(R"({"step":5,"seconds":"long"})"), "\"seconds\" is not a number");
  EXPECT_EQ(damage(R"({"step":2.5})"), "\"step\" is not a whole number");
  EXPECT_EQ(damage(R"({"loss_nats":4})"), "no \"step\"");
}

TEST(RunLog, StepsThatComeAgainReplaceTheFirst) {
  const testing::TemporaryFolder folder;
  const Path path = folder.path() / "log.jsonl";
  std::string text;
  for (const int step : {1, 2, 3, 4, 5, 3, 4})
    text += fmt::format("{{\"step\":{},\"seconds\":{}}}\n", step, text.size());
  write_file_atomic(path, text);
  const std::vector<LogEntry> entries = read_log(path).entries;
  ASSERT_EQ(entries.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(entries[i].step, i + 1);
  EXPECT_GT(entries[2].seconds, 80);
}

}  // namespace
}  // namespace tril
