#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "cli/format.h"
#include "cli/terminal.h"

namespace tril::cli {
namespace {

constexpr double kRefreshSeconds = 0.2;  // on a terminal
constexpr double kLineSeconds = 10;      // elsewhere, besides the lines with a validation

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Progress::Progress(int64_t steps, int64_t step_tokens, double step_flops, double peak_gflops)
    : terminal_(output_is_terminal()),
      steps_(steps),
      step_tokens_(step_tokens),
      step_flops_(step_flops),
      peak_gflops_(peak_gflops) {}

double Progress::tokens_per_second() const {
  return seconds_per_step_ > 0 ? static_cast<double>(step_tokens_) / seconds_per_step_ : 0;
}

double Progress::gflops() const { return seconds_per_step_ > 0 ? step_flops_ / seconds_per_step_ * 1e-9 : 0; }

std::string Progress::text(const StepReport& report) const {
  std::string validation;
  if (validation_)
    validation =
        fmt::format("  val {:.4f} ({:.3f} bits/byte)", validation_->loss_nats, validation_->bits_per_byte);
  return fmt::format("step {}/{}  loss {:.4f}{}  {} tokens/s  {:.0f}% of peak  {} left", report.step, steps_,
                     report.loss, validation, format_count(std::llround(tokens_per_second())),
                     100 * gflops() / peak_gflops_,
                     format_duration(seconds_per_step_ * static_cast<double>(steps_ - report.step)));
}

// For terminals of 80 columns.
std::string Progress::short_text(const StepReport& report) const {
  std::string validation;
  if (validation_)
    validation =
        fmt::format(" val {:.3f} ({:.2f} bits/byte)", validation_->loss_nats, validation_->bits_per_byte);
  return fmt::format("{}/{} loss {:.3f}{} {} tok/s {:.0f}% {} left", report.step, steps_, report.loss,
                     validation, format_count(std::llround(tokens_per_second())),
                     100 * gflops() / peak_gflops_,
                     format_duration(seconds_per_step_ * static_cast<double>(steps_ - report.step)));
}

void Progress::step(const StepReport& report) {
  const double weight = seconds_per_step_ == 0 ? 1 : std::min(1.0, report.seconds + 0.02);
  seconds_per_step_ += weight * (report.seconds - seconds_per_step_);
  if (report.validation) validation_ = report.validation;
  const double time = now();
  const bool ends = report.step == steps_;
  if (terminal_) {
    if (time - last_shown_ < kRefreshSeconds && !ends) return;
    last_shown_ = time;
    const auto columns = static_cast<size_t>(terminal_columns() - 1);
    std::string line = text(report);
    if (line.size() > columns) line = short_text(report).substr(0, columns);
    write("\r" + line + "\x1b[K");
    line_open_ = true;
    return;
  }
  if (!report.validation && !ends && time - last_line_ < kLineSeconds) return;
  last_line_ = time;
  write(text(report) + "\n");
}

void Progress::note(const std::string& text) {
  write((line_open_ ? "\n" : "") + text + "\n");
  line_open_ = false;
}

void Progress::finish() {
  if (line_open_) write("\n");
  line_open_ = false;
}

void Progress::write(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) output_gone_ = true;
}

}  // namespace tril::cli
