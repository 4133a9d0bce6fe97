#include "tril/report/plot.h"

#include <cmath>

#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril {
namespace {

double x_of(const LogEntry& entry, PlotAxis axis) {
  if (axis == PlotAxis::kTokens) return entry.tokens;
  return axis == PlotAxis::kSeconds ? entry.seconds : static_cast<double>(entry.step);
}

}  // namespace

PlotRun load_plot_run(const Path& given) {
  const Path path = given.has_filename() ? given : given.parent_path();  // without a slash at its end
  std::error_code none;
  const bool folder = std::filesystem::is_directory(path, none);
  const Path file = folder ? path / "log.jsonl" : path;
  PlotRun run{.name = printable(path.native(), 4096), .file = printable(file.native(), 4096)};
  check_data(!folder || std::filesystem::exists(file, none),
             "{}: this folder has no log.jsonl; give the folder of a run (--out of tril train) or a log",
             run.name);
  run.log = read_log(file);
  check_data(run.log.lines > 0, "{}: the log is empty; train at least one step", run.file);
  check_data(!run.log.entries.empty(), "{} {}; no line of {} holds a step; give a log.jsonl of tril train",
             run.file, run.log.first_damage, run.log.lines);
  return run;
}

std::vector<CurvePoint> training_curve(const RunLog& log, const PlotOptions& options) {
  check_use(options.smooth >= 0 && options.smooth < 1, "plot: smooth is {}; give a number from 0 to below 1",
            options.smooth);
  std::vector<CurvePoint> curve;
  double sum = 0, weight = 0;
  int64_t before = 0;
  for (const LogEntry& entry : log.entries) {
    const double x = x_of(entry, options.x);
    if (!std::isfinite(x) || !std::isfinite(entry.loss_nats)) continue;
    const int64_t steps = curve.empty() ? 1 : entry.step - before;
    const double past = std::pow(options.smooth, static_cast<double>(steps));
    sum = past * sum + (1 - past) * entry.loss_nats;
    weight = past * weight + (1 - past);
    before = entry.step;
    curve.push_back({x, sum / weight, entry.step});
  }
  return curve;
}

std::vector<CurvePoint> validation_curve(const RunLog& log, const PlotOptions& options) {
  std::vector<CurvePoint> curve;
  for (const LogEntry& entry : log.entries) {
    const double x = x_of(entry, options.x);
    if (std::isfinite(x) && std::isfinite(entry.validation_loss_nats))
      curve.push_back({x, entry.validation_loss_nats, entry.step});
  }
  return curve;
}

CurveSummary summarize(const std::vector<CurvePoint>& curve) {
  CurveSummary summary;
  for (const CurvePoint& point : curve) {
    summary.last = point.y;
    if (!(summary.lowest <= point.y)) summary.lowest = point.y, summary.lowest_step = point.step;
  }
  return summary;
}

}  // namespace tril
