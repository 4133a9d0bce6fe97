#include "tril/train/log.h"

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
      to_text(log_line(report(1), 64, 0.25)),
      R"({"step":1,"loss_nats":3.25,"gradient_norm":0.5,"learning_rate":0.001,"tokens":64,"seconds":0.25})");
  StepReport evaluated = report(2);
  evaluated.validation = Evaluation{.loss_nats = 2.5, .bits_per_byte = 1.25, .tokens = 100};
  const Json line = log_line(evaluated, 128, 0.5);
  EXPECT_EQ(line["validation_loss_nats"], 2.5);
  EXPECT_EQ(line["bits_per_byte"], 1.25);
  EXPECT_EQ(line["validation_tokens"], 100);
}

TEST(RunLog, LinesAfterTheCheckpointGo) {
  const testing::TemporaryFolder folder;
  const Path path = folder.path() / "log.jsonl";
  trim_log(path, 3);
  EXPECT_FALSE(std::filesystem::exists(path));
  const auto line = [](int64_t step) { return to_text(log_line(report(step), 64 * step, 1)) + "\n"; };
  write_file_atomic(path, line(1) + line(2) + line(3) + line(4) + line(5).substr(0, 20));
  trim_log(path, 3);
  EXPECT_EQ(read_text_file(path), line(1) + line(2) + line(3));
}

}  // namespace
}  // namespace tril
