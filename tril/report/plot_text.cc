#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tril/base/error.h"
#include "tril/report/plot.h"
#include "tril/report/plot_canvas.h"

namespace tril {
namespace {

constexpr int64_t kRows = 16;
constexpr int64_t kLabelColumns = 8;   // left of the vertical axis
constexpr int64_t kLetterColumns = 9;  // between the letters along a curve
constexpr int64_t kMarkColumns = 3;    // between validations
// The first losses of a long run are so high that the rest would be a flat line: this part of the axis may
// lie above the chart, at its upper edge.
constexpr double kIgnoredPart = 0.02;

struct TextRun {
  std::string name;
  std::vector<CurvePoint> training, validation;
  char training_mark = 0, validation_mark = 'o';
};

std::vector<TextRun> curves_of(const std::vector<PlotRun>& runs, const PlotOptions& options) {
  std::vector<TextRun> out;
  for (const PlotRun& run : runs) {
    TextRun text{.name = run.name,
                 .training = training_curve(run.log, options),
                 .validation = validation_curve(run.log, options)};
    if (runs.size() > 1) {
      text.training_mark = static_cast<char>('a' + out.size());
      text.validation_mark = static_cast<char>('A' + out.size());
    }
    out.push_back(std::move(text));
  }
  return out;
}

// The range of a coordinate over all points from x = `begin` on, never empty.
PlotRange range_of(const std::vector<TextRun>& runs, double CurvePoint::*coordinate, double begin) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  PlotRange range = {kInfinity, -kInfinity};
  for (const TextRun& run : runs) {
    for (const auto* curve : {&run.training, &run.validation}) {
      for (const CurvePoint& point : *curve) {
        if (point.x < begin) continue;
        range.low = std::min(range.low, point.*coordinate);
        range.high = std::max(range.high, point.*coordinate);
      }
    }
  }
  // Smoothing a constant gives values that differ in their last digits.
  if (range.high - range.low <= 1e-9 * std::max(std::abs(range.low), std::abs(range.high))) {
    const double room = std::max(std::abs(range.low) * 0.01, 1e-6);
    range = {range.low - room, range.high + room};
  }
  return range;
}

void draw(PlotCanvas& canvas, const std::vector<TextRun>& runs) {
  for (const TextRun& run : runs) {
    const CurvePoint* before = run.training.data();
    for (const CurvePoint& point : run.training) {
      canvas.line(before->x, before->y, point.x, point.y);
      before = &point;
    }
  }
  for (size_t i = 0; i < runs.size() && runs.size() > 1; ++i) {
    // Letters of different runs stand in different columns.
    int64_t next = kLetterColumns * static_cast<int64_t>(i) / static_cast<int64_t>(runs.size());
    for (const CurvePoint& point : runs[i].training) {
      const int64_t column = canvas.column_of(point.x);
      if (column < next && &point != &runs[i].training.back()) continue;
      canvas.mark(point.x, point.y, runs[i].training_mark);
      next = column + kLetterColumns;
    }
  }
  for (const TextRun& run : runs) {
    int64_t next = 0;  // marks side by side would hide the curve
    for (const CurvePoint& point : run.validation) {
      const int64_t column = canvas.column_of(point.x);
      if (column < next && &point != &run.validation.back()) continue;
      canvas.mark(point.x, point.y, run.validation_mark);
      next = column + kMarkColumns;
    }
  }
}

// Numbers with as many decimals as tell neighbours apart.
std::string decimals(double value, double step) {
  const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 6);
  return fmt::format("{:.{}f}", value, digits);
}

struct Unit {
  double size;
  const char* name;
};

Unit unit_of(PlotAxis axis, double highest) {
  if (axis == PlotAxis::kSeconds) {
    if (highest >= 2 * 3600) return {3600, "hours of training"};
    return highest >= 2 * 60 ? Unit{60, "minutes of training"} : Unit{1, "seconds of training"};
  }
  if (axis == PlotAxis::kSteps) return {1, "steps"};
  if (highest >= 1e9) return {1e9, "billions of tokens"};
  return highest >= 1e6 ? Unit{1e6, "millions of tokens"} : Unit{1, "tokens"};
}

// The horizontal axis, its numbers and its name.
std::string horizontal_axis(const PlotCanvas& canvas, PlotRange x, const PlotOptions& options,
                            int64_t columns) {
  const Unit unit = unit_of(options.x, x.high);
  const std::vector<double> ticks =
      round_ticks({x.low / unit.size, x.high / unit.size}, std::max<int64_t>(columns / 10, 2));
  std::vector<bool> at(static_cast<size_t>(columns));
  std::string numbers;
  for (const double tick : ticks) {
    const int64_t column = canvas.column_of(tick * unit.size);
    at[static_cast<size_t>(column)] = true;
    const std::string number = decimals(tick, ticks.size() > 1 ? ticks[1] - ticks[0] : 1);
    const auto size = static_cast<int64_t>(number.size()), used = static_cast<int64_t>(numbers.size());
    const int64_t begin = std::clamp<int64_t>(column - size / 2, 0, columns - size);
    if (used > 0 && begin <= used) continue;
    numbers.resize(static_cast<size_t>(begin), ' ');
    numbers += number;
  }
  std::string out(kLabelColumns, ' ');
  out += options.utf8 ? "└" : "+";
  for (const bool tick : at) out += options.utf8 ? (tick ? "┴" : "─") : (tick ? "+" : "-");
  const std::string space(kLabelColumns + 1, ' ');
  const std::string name = fmt::format("{:^{}}", unit.name, columns);
  return out + "\n" + space + numbers + "\n" + space + name.substr(0, name.find_last_not_of(' ') + 1) + "\n";
}

// Long names lose their beginning.
std::string shortened(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  size_t begin = text.size() - width + 3;
  while (begin < text.size() && (text[begin] & 0xC0) == 0x80) ++begin;  // no half character
  return "..." + text.substr(begin);
}

std::string legend(const std::vector<TextRun>& runs, const PlotOptions& options, int64_t columns) {
  std::string out = fmt::format("\n{:12} {:>8} {:>8} {:>8}\n", "", "last", "lowest", "at step");
  for (const TextRun& run : runs) {
    const auto line = [&](const std::string& mark, const char* kind, const std::vector<CurvePoint>& curve) {
      if (curve.empty()) return;
      const CurveSummary summary = summarize(curve);
      out += fmt::format("{} {:10} {:>8.4f} {:>8.4f} {:>8}  {}\n", mark, kind, summary.last, summary.lowest,
                         summary.lowest_step, shortened(run.name, static_cast<size_t>(columns) - 41));
    };
    line(run.training_mark ? std::string(1, run.training_mark)
         : options.utf8    ? "⠒"
                           : ".",
         "training", run.training);
    line(std::string(1, run.validation_mark), "validation", run.validation);
  }
  return out;
}

}  // namespace

std::string plot_text(const std::vector<PlotRun>& all, const PlotOptions& options) {
  check_use(all.size() <= kMostTextRuns,
            "{} runs: a chart of characters can tell {} apart; give fewer, or --format html", all.size(),
            kMostTextRuns);
  const std::vector<TextRun> runs = curves_of(all, options);
  for (const TextRun& run : runs) {
    check_data(!run.training.empty() || !run.validation.empty(),
               "{}: no line of its log holds both a loss and what --x asks for; choose another --x",
               run.name);
  }
  const PlotRange x = range_of(runs, &CurvePoint::x, -std::numeric_limits<double>::infinity());
  const PlotRange y = range_of(runs, &CurvePoint::y, x.low + kIgnoredPart * (x.high - x.low));
  const int64_t width = std::max(options.columns, kLeastColumns), columns = width - kLabelColumns - 1;
  PlotCanvas canvas(columns, kRows, options.utf8, x, y);
  draw(canvas, runs);

  const std::vector<double> ticks = round_ticks(y, 6);
  std::vector<std::string> labels(kRows);
  for (const double tick : ticks)
    labels[static_cast<size_t>(canvas.row_of(tick))] =
        decimals(tick, ticks.size() > 1 ? ticks[1] - ticks[0] : 1);
  std::string out = "loss, nats a token";
  out += options.smooth > 0 ? fmt::format("; of training smoothed {}\n", options.smooth) : "\n";
  for (int64_t row = 0; row < kRows; ++row) {
    const std::string& label = labels[static_cast<size_t>(row)];
    const char* const axis = options.utf8 ? (label.empty() ? "│" : "┤") : (label.empty() ? "|" : "+");
    out += fmt::format("{:>{}} {}{}\n", label, kLabelColumns - 1, axis, canvas.row(row));
  }
  return out + horizontal_axis(canvas, x, options, columns) + legend(runs, options, width);
}

}  // namespace tril
