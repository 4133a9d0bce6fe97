// The logs as CSV and JSON.
#include <fmt/format.h>

#include <cmath>

#include "tril/report/plot.h"
#include "tril/report/token_text.h"

namespace tril {
namespace {

constexpr size_t kPiece = 1 << 16;

// RFC 4180: quoted where a comma, quote or line break would end the field.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string number_or(double value, const char* missing) {
  return std::isfinite(value) ? fmt::format("{}", value) : missing;
}

void add_summary(std::string& out, const char* name, const CurveSummary& summary) {
  out += fmt::format("\"{}\":{{\"last\":{},\"lowest\":{},\"lowest_step\":{}}},\n", name,
                     number_or(summary.last, "null"), number_or(summary.lowest, "null"), summary.lowest_step);
}

}  // namespace

void write_plot_csv(const std::vector<PlotRun>& runs, ReportSink sink) {
  std::string out = "run,step";
  for (const LogColumn& column : log_columns()) out += fmt::format(",{}", column.name);
  out += "\n";
  for (const PlotRun& run : runs) {
    const std::string name = csv_field(run.name);
    for (const LogEntry& entry : run.log.entries) {
      out += fmt::format("{},{}", name, entry.step);
      for (const LogColumn& column : log_columns()) out += "," + number_or(entry.*column.value, "");
      out += "\n";
      if (out.size() < kPiece) continue;
      sink(out);
      out.clear();
    }
  }
  sink(out);
}

void write_plot_json(const std::vector<PlotRun>& runs, const PlotOptions& options, ReportSink sink) {
  sink(fmt::format("{{\"smooth\":{},\"runs\":[", options.smooth));
  const char* separator = "\n";
  for (const PlotRun& run : runs) {
    const auto& entries = run.log.entries;
    std::string out = fmt::format("{}{{\"run\":{},\"lines\":{},\"damaged_lines\":{},\n", separator,
                                  json_string(run.name), run.log.lines, run.log.damaged_lines);
    separator = ",\n";
    add_summary(out, "training_loss", summarize(training_curve(run.log, options)));
    add_summary(out, "validation_loss", summarize(validation_curve(run.log, options)));
    out += "\"columns\":{\"step\":[";
    for (size_t i = 0; i < entries.size(); ++i) out += fmt::format("{}{}", i > 0 ? "," : "", entries[i].step);
    out += "]";
    for (const LogColumn& column : log_columns()) {
      out += fmt::format(",\n\"{}\":[", column.name);
      for (size_t i = 0; i < entries.size(); ++i)
        out += (i > 0 ? "," : "") + number_or(entries[i].*column.value, "null");
      out += "]";
    }
    sink(out + "}}");
  }
  sink("\n]}\n");
}

}  // namespace tril
