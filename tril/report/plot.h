// The losses of runs, from their logs (train/log.h), for people and for programs: a chart of characters, a
// page, or tables.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "tril/report/report_sink.h"
#include "tril/train/log.h"

namespace tril {

struct PlotRun {
  std::string name;  // as it is shown
  std::string file;  // of the log, likewise
  RunLog log;
};

// Reads `path`: a run's folder or a log file. Throws kData, naming file and line, if no line holds a step.
PlotRun load_plot_run(const Path& path);

enum class PlotAxis { kSteps, kTokens, kSeconds };

struct PlotOptions {
  PlotAxis x = PlotAxis::kSteps;
  // Weight w of the past in the smoothed training loss, 0 to below 1. With n steps between two lines:
  //   sum = w^n sum + (1 - w^n) loss;  weight = w^n weight + (1 - w^n);  smoothed = sum / weight
  // which is TensorBoard's smoothing where every step has a line.
  double smooth = 0.9;
  bool utf8 = true;      // of the text: Braille dots and lines, or ASCII
  int64_t columns = 80;  // of the text, at least kLeastColumns
};
inline constexpr int64_t kLeastColumns = 50;
inline constexpr size_t kMostTextRuns = 26;  // the letters that tell runs apart

struct CurvePoint {
  double x = 0, y = 0;
  int64_t step = 0;
};
// Of the lines that hold both coordinates.
// Throws kUse for a weight out of its range.
std::vector<CurvePoint> training_curve(const RunLog& log, const PlotOptions& options);
std::vector<CurvePoint> validation_curve(const RunLog& log, const PlotOptions& options);

// The last value of a curve and its lowest, NaN and 0 for a curve without points.
struct CurveSummary {
  double last = std::numeric_limits<double>::quiet_NaN(), lowest = last;
  int64_t lowest_step = 0;
};
CurveSummary summarize(const std::vector<CurvePoint>& curve);

// A chart of 16 rows with both axes, as high as the losses after the first fiftieth of the horizontal one,
// and a line for each curve with its last and its lowest loss. Throws kUse for more than kMostTextRuns runs,
// kData naming a run whose log has nothing to draw over this axis.
std::string plot_text(const std::vector<PlotRun>& runs, const PlotOptions& options);

// run,step and the columns of the log by its names; one line a step. What is missing stays empty.
void write_plot_csv(const std::vector<PlotRun>& runs, ReportSink sink);

// One object: "smooth", and "runs": for each its name, counts of lines, the summaries of its curves, and
// "columns": for step and each column of the log an array, null where a value is missing.
void write_plot_json(const std::vector<PlotRun>& runs, const PlotOptions& options, ReportSink sink);

// A page that needs nothing but itself. Of a run with more than kMostPagePoints steps it holds means of as
// many groups of steps.
inline constexpr size_t kMostPagePoints = 10'000;
void write_plot_html(const std::vector<PlotRun>& runs, const PlotOptions& options, ReportSink sink);

}  // namespace tril
