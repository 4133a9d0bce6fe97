#include "tril/train/log.h"

#include <nlohmann/json.hpp>

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

TEST(RunLog, WritesOneObjectALine) {
  const testing::TemporaryFolder folder;
  RunLog log(folder.path() / "log.jsonl", 0);
  log.append(report(1), 64, 0.25);
  StepReport evaluated = report(2);
  evaluated.validation = Evaluation{.loss_nats = 2.5, .bits_per_byte = 1.25, .tokens = 100};
  log.append(evaluated, 128, 0.5);
  const std::string text = read_text_file(folder.path() / "log.jsonl");
  const size_t middle = text.find('\n');
  EXPECT_EQ(
      text.substr(0, middle),
      R"({"step":1,"loss_nats":3.25,"gradient_norm":0.5,"learning_rate":0.001,"tokens":64,"seconds":0.25})");
  const auto second = nlohmann::json::parse(text.substr(middle + 1));
  EXPECT_EQ(second["validation_loss_nats"], 2.5);
  EXPECT_EQ(second["bits_per_byte"], 1.25);
  EXPECT_EQ(second["validation_tokens"], 100);
}

TEST(RunLog, GoesOnAfterTheCheckpoint) {
  const testing::TemporaryFolder folder;
  const Path path = folder.path() / "log.jsonl";
  const auto line = [](int64_t step) { return RunLog::line(report(step), 64 * step, 1); };
  write_file_atomic(path, line(1) + line(2) + line(3) + line(4) + line(5).substr(0, 20));
  RunLog log(path, 3);
  log.append(report(4), 256, 2);
  EXPECT_EQ(read_text_file(path), line(1) + line(2) + line(3) + RunLog::line(report(4), 256, 2));
}

}  // namespace
}  // namespace tril
