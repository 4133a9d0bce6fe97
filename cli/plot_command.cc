#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/command.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "tril/report/plot.h"

namespace tril::cli {
namespace {

constexpr const char* kExamples =
    "  tril plot runs/book                                     training and validation loss, here\n"
    "  tril plot runs/a runs/b --x tokens --out losses.html    a page that compares two runs\n"
    "  tril plot runs/book --format csv > book.csv             the whole log, a line a step";

constexpr const char* kFormats[] = {"text", "html", "csv", "json"};
constexpr std::pair<const char*, PlotAxis> kAxes[] = {
    {"steps", PlotAxis::kSteps}, {"tokens", PlotAxis::kTokens}, {"seconds", PlotAxis::kSeconds}};

bool is_format(std::string_view name) {
  return std::find(std::begin(kFormats), std::end(kFormats), name) != std::end(kFormats);
}

// The one asked for, else what the file's name ends in, else text.
std::string choose_format(const std::string& name, const std::string& out) {
  if (!name.empty()) {
    check_use(is_format(name), "--format '{}': unknown; give text, html, csv or json", name);
    return name;
  }
  std::string ending = Path(out).extension().string();
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (ending.empty() || ending == ".txt") return "text";
  check_use(is_format(ending.substr(1)),
            "--out {}: the ending tells no format; end it in .txt, .html, .csv or .json, or give --format",
            out);
  return ending.substr(1);
}

PlotAxis choose_axis(const std::string& name) {
  for (const auto& [known, axis] : kAxes)
    if (name == known) return axis;
  fail(ErrorKind::kUse, "--x '{}': unknown; give steps, tokens or seconds", name);
}

std::vector<PlotRun> load_runs(const std::vector<std::string>& paths) {
  std::vector<PlotRun> runs;
  for (const std::string& path : paths) {
    runs.push_back(load_plot_run(path));
    const auto& [name, file, log] = runs.back();
    if (log.damaged_lines > 0)
      fmt::print(stderr, "tril: warning: {} {}; {} of {} lines passed over\n", file, log.first_damage,
                 log.damaged_lines, log.lines);
  }
  return runs;
}

void write(const std::string& format, const std::vector<PlotRun>& runs, const PlotOptions& options,
           Output& output) {
  const auto sink = [&](std::string_view bytes) { output.write(bytes); };
  if (format == "html")
    write_plot_html(runs, options, sink);
  else if (format == "csv")
    write_plot_csv(runs, sink);
  else if (format == "json")
    write_plot_json(runs, options, sink);
  else
    output.write(plot_text(runs, options));
}

}  // namespace

int plot_command(const Arguments& words) {
  std::vector<std::string> paths;
  std::string out, format, axis = "steps";
  PlotOptions options;
  CommandLine line(
      "plot",
      "Draws the training and validation loss of runs, from their log.jsonl: here, as a page for the\n"
      "browser that needs nothing else, or as numbers.",
      kExamples);
  line.positionals("RUN", paths, "folders of runs, or log files");
  line.text("--x", axis, "NAME", "steps, tokens or seconds (steps)");
  line.number("--smooth", options.smooth, {0, 0.99999},
              fmt::format("weight of the past in the smoothed training loss, 0: none ({})", options.smooth));
  line.text("--format", format, "NAME", "text, html, csv or json (as --out ends, text without)");
  line.text("--out", out, "FILE", "file to write, - for standard output (-; html: plot.html)");
  if (!line.parse(words)) return 0;
  check_use(!paths.empty(), "tril plot: no run given; usage: tril plot RUN... (tril plot --help)");
  for (const auto& [name, value] : {std::pair("--x", axis), {"--format", format}, {"--out", out}})
    check_use(!line.given(name) || !value.empty(), "{} is empty; give a value or leave it out", name);
  options.x = choose_axis(axis);
  format = choose_format(format, out);
  if (out.empty()) out = format == "html" ? "plot.html" : "-";
  if (out != "-") refuse_file_of_model(out);
  options.utf8 = locale_is_utf8();
  options.columns = out == "-" ? terminal_columns() : 80;

  const std::vector<PlotRun> runs = load_runs(paths);
  Output output(out);
  write(format, runs, options, output);
  output.commit();
  if (output.is_file())
    fmt::print("{} {} drawn into {} ({})\n", runs.size(), runs.size() == 1 ? "run" : "runs", one_line(out),
               format_bytes(static_cast<double>(output.bytes())));
  return 0;
}

}  // namespace tril::cli
