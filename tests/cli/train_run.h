// A folder with text.txt, and `tril train` in it.
#pragma once

#include "tests/cli/run_tril.h"

namespace tril::cli_testing {

class TrainRunTest : public ::testing::Test {
 protected:
  void SetUp() override { write_file(directory_ / "text.txt", sample_text()); }

  Result run(const std::vector<std::string>& arguments, RunOptions options = {}) {
    options.directory = directory_.path();
    return run_tril(arguments, options);
  }
  std::string weights(const std::string& out) { return read_file(directory_ / out / "model.safetensors"); }

  // The log without its timing.
  std::vector<Json> log(const std::string& out) {
    std::vector<Json> lines = json_lines(read_file(directory_ / out / "log.jsonl"));
    for (Json& line : lines) {
      EXPECT_TRUE(line.contains("seconds") && line.contains("tokens_per_s")) << to_text(line);
      line.erase("seconds");
      line.erase("tokens_per_s");
    }
    return lines;
  }

  testing::TemporaryDirectory directory_;
};

}  // namespace tril::cli_testing
