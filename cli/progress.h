// The progress line of a run: refreshed in place on a terminal, plain lines now and then elsewhere.
#pragma once

#include <string>

#include "tril/train/trainer.h"

namespace tril::cli {

class Progress {
 public:
  // `peak_gflops`: of the machine; `step_flops`: of one optimizer step; `step_tokens` likewise.
  Progress(int64_t steps, int64_t step_tokens, double step_flops, double peak_gflops);

  ~Progress() { finish(); }

  void step(const StepReport& report);
  // A line of its own, above the progress line of a terminal.
  void note(const std::string& text);
  void finish();  // leaves the last progress line where it is

  double tokens_per_second() const;  // of the last steps
  bool output_gone() const { return output_gone_; }

 private:
  double gflops() const;
  std::string text(const StepReport& report) const;
  std::string short_text(const StepReport& report) const;
  void write(const std::string& text);

  const bool terminal_;
  const int64_t steps_, step_tokens_;
  const double step_flops_, peak_gflops_;
  double seconds_per_step_ = 0;  // exponential average over about a second
  double last_shown_ = -1e9, last_line_ = -1e9;
  std::optional<Evaluation> validation_;
  bool line_open_ = false, output_gone_ = false;
};

}  // namespace tril::cli
