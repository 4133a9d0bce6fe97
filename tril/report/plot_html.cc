#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "tril/report/page.h"
#include "tril/report/plot.h"
#include "tril/report/plot_page.h"
#include "tril/report/token_text.h"

namespace tril {
namespace {

// Means of groups of so many lines that kMostPagePoints remain. Step, tokens and seconds are those of a
// group's last line; a group without a value has none.
std::vector<LogEntry> thinned(const std::vector<LogEntry>& entries) {
  const size_t group = (entries.size() + kMostPagePoints - 1) / kMostPagePoints;
  if (group <= 1) return entries;
  std::vector<LogEntry> out;
  for (size_t begin = 0; begin < entries.size(); begin += group) {
    const size_t end = std::min(begin + group, entries.size());
    LogEntry mean = entries[end - 1];
    for (const LogColumn& column : log_columns()) {
      if (column.value == &LogEntry::tokens || column.value == &LogEntry::seconds) continue;
      double sum = 0, count = 0;
      for (size_t i = begin; i < end; ++i)
        if (std::isfinite(entries[i].*column.value)) sum += entries[i].*column.value, ++count;
      mean.*column.value = sum / count;  // NaN without any
    }
    out.push_back(mean);
  }
  return out;
}

std::string page_number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "null";
}

constexpr std::string_view kTrainingColumns[] = {"loss_nats", "gradient_norm", "learning_rate",
                                                 "tokens",    "seconds",       "tokens_per_s"};
constexpr std::string_view kValidationColumns[] = {"validation_loss_nats", "bits_per_byte", "tokens",
                                                   "seconds"};

std::string page_columns(const std::vector<LogEntry>& all, std::span<const std::string_view> names) {
  const std::vector<LogEntry> entries = thinned(all);
  std::string out = "{\"step\":[";
  for (size_t i = 0; i < entries.size(); ++i) out += fmt::format("{}{}", i > 0 ? "," : "", entries[i].step);
  for (const LogColumn& column : log_columns()) {
    if (std::find(names.begin(), names.end(), column.name) == names.end()) continue;
    out += fmt::format("],\n\"{}\":[", column.name);
    const bool exact = column.value == &LogEntry::tokens;
    for (size_t i = 0; i < entries.size(); ++i) {
      const double value = entries[i].*column.value;
      out += (i > 0 ? "," : "") + page_number(value, exact ? 17 : 6);  // six digits are finer than any screen
    }
  }
  return out + "]}";
}

// JSON inside a script element: no "<", so that nothing in a name ends it.
std::string script_string(const std::string& text) {
  std::string out;
  for (const char c : json_string(text)) out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

std::string page_data(const PlotRun& run) {
  std::vector<LogEntry> evaluated;
  for (const LogEntry& entry : run.log.entries)
    if (std::isfinite(entry.validation_loss_nats)) evaluated.push_back(entry);
  return fmt::format("{{\"name\":{},\n\"training\":{},\n\"validation\":{}}}", script_string(run.name),
                     page_columns(run.log.entries, kTrainingColumns),
                     page_columns(evaluated, kValidationColumns));
}

std::string cells(const CurveSummary& summary) {
  if (!std::isfinite(summary.last)) return "<td></td><td></td><td></td>";
  return fmt::format("<td>{:.4f}</td><td>{:.4f}</td><td>{}</td>", summary.last, summary.lowest,
                     summary.lowest_step);
}

std::string table_row(const PlotRun& run, const PlotOptions& options) {
  const LogEntry& last = run.log.entries.back();
  const auto whole = [](double value) { return std::isfinite(value) ? fmt::format("{:.0f}", value) : ""; };
  return fmt::format(
      "<tr><th><label><input type=\"checkbox\" checked> <span class=\"key\"></span> {}</label></th>"
      "<td>{}</td><td>{}</td><td>{}</td>{}{}</tr>\n",
      html_text(run.name), last.step, whole(last.tokens), whole(last.seconds),
      cells(summarize(training_curve(run.log, options))),
      cells(summarize(validation_curve(run.log, options))));
}

std::string footer(const std::vector<PlotRun>& runs) {
  std::string notes;
  for (const PlotRun& run : runs) {
    if (run.log.damaged_lines > 0)
      notes += fmt::format("<p>{}: {} of {} lines of the log could not be read, the first is {}.</p>\n",
                           html_text(run.name), run.log.damaged_lines, run.log.lines,
                           html_text(run.log.first_damage));
    if (run.log.entries.size() > kMostPagePoints)
      notes += fmt::format(
          "<p>{}: of {} steps the page shows the means of neighbours; --format csv has all.</p>\n",
          html_text(run.name), run.log.entries.size());
  }
  return notes.empty() ? "" : "<footer>" + notes + "</footer>\n";
}

}  // namespace

void write_plot_html(const std::vector<PlotRun>& runs, const PlotOptions& options, ReportSink sink) {
  constexpr const char* kAxes[] = {"step", "tokens", "seconds"};
  std::string title = html_text(runs.front().name);
  if (runs.size() > 1) title += fmt::format(" and {} more", runs.size() - 1);
  sink(kPageHead);
  sink(
      fmt::format("<title>training of {}</title>\n<style>{}{}</style>\n</head>\n<body>\n"
                  "<header><h1>Training of {}</h1></header>\n<main>\n",
                  title, kPageStyle, kPlotStyle, title));
  sink(kPlotBody);
  for (const PlotRun& run : runs) sink(table_row(run, options));
  sink(
      fmt::format("</tbody></table></div></section>\n</main>\n{}<div class=\"tip\" id=\"tip\" "
                  "role=\"status\" hidden></div>\n"
                  "<script type=\"application/json\" id=\"data\">{{\"x\":\"{}\",\"smooth\":{},\"runs\":[",
                  footer(runs), kAxes[static_cast<size_t>(options.x)], options.smooth));
  const char* separator = "\n";
  for (const PlotRun& run : runs) {
    sink(separator + page_data(run));
    separator = ",\n";
  }
  sink(fmt::format("]}}</script>\n<script>{}</script>\n</body>\n</html>\n", kPlotScript));
}

}  // namespace tril
