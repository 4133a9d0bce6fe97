// Each kind of file says what the logs say.
#include "tril/report/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tril/containers/json.h"

namespace tril {
namespace {

using testing::expect_error;

// `steps` lines whose loss falls from 4 to 2; every tenth step is evaluated, half a nat above.
PlotRun falling_run(const std::string& name, int64_t steps, double shift = 0) {
  PlotRun run{.name = name, .file = name + "/log.jsonl"};
  for (int64_t step = 1; step <= steps; ++step) {
    const auto number = static_cast<double>(step);
    LogEntry entry{.step = step,
                   .loss_nats = 4 - 2 * number / static_cast<double>(steps) + shift,
                   .learning_rate = 0.001,
                   .tokens = 64 * number,
                   .seconds = 0.5 * number};
    if (step % 10 == 0) entry.validation_loss_nats = entry.loss_nats + 0.5;
    run.log.entries.push_back(entry);
  }
  run.log.lines = steps;
  return run;
}

std::string written(const std::vector<PlotRun>& runs, const PlotOptions& options,
                    decltype(write_plot_html) write) {
  std::string text;
  write(runs, options, [&](std::string_view piece) { text += piece; });
  return text;
}

int64_t count(const std::string& text, const std::string& piece) {
  int64_t found = 0;
  for (size_t at = text.find(piece); at != text.npos; at = text.find(piece, at + piece.size())) ++found;
  return found;
}

TEST(Plot, AsciiChart) {
  // A straight line down, of which the first step lies above the chart; validation half a nat higher.
  EXPECT_EQ(plot_text({falling_run("runs/a", 20)}, {.smooth = 0, .utf8 = false, .columns = 50}),
            "loss, nats a token\n"
            "        |'''..\n"
            "        |    ''.\n"
            "    3.5 +       '.          o\n"
            "        |         ''.\n"
            "        |            '.\n"
            "        |              ':.\n"
            "        |                 '.\n"
            "    3.0 +                   ':\n"
            "        |                     ':.\n"
            "        |                        ':\n"
            "        |                          ':.\n"
            "    2.5 +                             '.         o\n"
            "        |                               ':.\n"
            "        |                                  '.\n"
            "        |                                    '..\n"
            "    2.0 +                                       '.\n"
            "        +--------+----------+---------+----------+\n"
            "                 5         10        15         20\n"
            "                           steps\n"
            "\n"
            "                 last   lowest  at step\n"
            ". training     2.0000   2.0000       20  runs/a\n"
            "o validation   2.5000   2.5000       20  runs/a\n");
}

TEST(Plot, EveryRowFitsItsColumnsInUtf8AndAscii) {
  for (const int64_t columns : {50, 80, 211}) {
    for (const bool utf8 : {true, false}) {
      for (const PlotAxis x : {PlotAxis::kSteps, PlotAxis::kTokens, PlotAxis::kSeconds}) {
        const std::string text =
            plot_text({falling_run("a run with quite a long name, as people give them", 25'000),
                       falling_run("another", 100, 1)},
                      {.x = x, .utf8 = utf8, .columns = columns});
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
          const auto width =
              std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
          EXPECT_LE(width, columns) << line;
          EXPECT_TRUE(utf8 || width == static_cast<int64_t>(line.size())) << "not ASCII: " << line;
        }
        EXPECT_EQ(text.find('\x1b'), text.npos);
      }
    }
  }
}

TEST(Plot, LegendSaysLastAndLowest) {
  PlotRun run = falling_run("runs/a", 20);
  run.log.entries[14].loss_nats = 0.25;
  const std::string text = plot_text({run}, {.smooth = 0, .utf8 = false});
  EXPECT_NE(text.find("\n. training     2.0000   0.2500       15  runs/a\n"), text.npos) << text;
  EXPECT_NE(text.find("\no validation   2.5000   2.5000       20  runs/a\n"), text.npos) << text;
  EXPECT_NE(text.find("steps\n"), text.npos);
}

TEST(Plot, LettersTellRunsApart) {
  const std::string text = plot_text({falling_run("one", 300), falling_run("two", 200, 1)}, {.utf8 = false});
  for (const char* piece : {"\na training  ", "\nA validation  ", "\nb training  ", "\nB validation  ",
                            "  one\n", "  two\n", "of training smoothed 0.9\n"})
    EXPECT_NE(text.find(piece), text.npos) << text;
  const std::string chart = text.substr(0, text.find("lowest"));
  for (const char* letter : {"a", "b", "A", "B"})
    EXPECT_GE(count(chart, letter), 4) << letter << "\n" << text;
  const std::vector<PlotRun> many(27, falling_run("run", 10));
  expect_error(ErrorKind::kUse, {"27 runs", "26", "--format html"}, [&] { plot_text(many, {}); });
}

// The rest of a run is no flat line below its first losses, and many validations do not hide the curve.
TEST(Plot, LongRuns) {
  PlotRun run = falling_run("run", 2000);
  run.log.entries[0].loss_nats = 100;
  const std::string text = plot_text({run}, {.smooth = 0, .utf8 = false});
  EXPECT_NE(text.find("\n    3.5 +"), text.npos) << text;
  EXPECT_GE(count(text, "o"), 20);
  EXPECT_LE(count(text.substr(0, text.find("lowest")), "o"), 27);
}

TEST(Plot, AxesOfTokensAndTime) {
  const std::vector<PlotRun> runs = {falling_run("run", 100'000)};
  EXPECT_NE(plot_text(runs, {.x = PlotAxis::kTokens}).find("millions of tokens"), std::string::npos);
  EXPECT_NE(plot_text(runs, {.x = PlotAxis::kSeconds}).find("hours of training"), std::string::npos);
  PlotRun old = falling_run("old", 10);
  for (LogEntry& entry : old.log.entries) entry.tokens = LogEntry::kMissing;
  expect_error(ErrorKind::kData, {"old", "--x"}, [&] {
    plot_text({runs[0], old}, {.x = PlotAxis::kTokens});
  });
}

TEST(Plot, OnePointAndEqualLossesAreDrawn) {
  PlotRun run = falling_run("run", 1);
  EXPECT_NE(plot_text({run}, {}).find("training"), std::string::npos);
  run = falling_run("run", 30);
  for (LogEntry& entry : run.log.entries) entry.loss_nats = 0;
  EXPECT_NE(plot_text({run}, {}).find("0.0000"), std::string::npos);
  // Smoothed, these differ in their last digits.
  for (const double loss : {3.3, 4.0604, 1e-5}) {
    run = falling_run("run", 5);
    for (LogEntry& entry : run.log.entries) entry.loss_nats = loss;
    EXPECT_NE(plot_text({run}, {}).find("training"), std::string::npos) << loss;
  }
}

// Against the sums written out: (sum of w^(n-k) (1 - w) y_k) / (1 - w^n).
TEST(Plot, Smoothing) {
  const PlotRun run = falling_run("run", 50);
  const auto curve = training_curve(run.log, {.smooth = 0.8});
  ASSERT_EQ(curve.size(), 50u);
  for (size_t n = 1; n <= 50; ++n) {
    double sum = 0, weights = 0;
    for (size_t k = 1; k <= n; ++k) {
      const double weight = std::pow(0.8, static_cast<double>(n - k));
      sum += weight * run.log.entries[k - 1].loss_nats;
      weights += weight;
    }
    EXPECT_NEAR(curve[n - 1].y, sum / weights, 1e-12);
  }
  EXPECT_EQ(training_curve(run.log, {.smooth = 0})[49].y, run.log.entries[49].loss_nats);
  expect_error(ErrorKind::kUse, {"smooth is 1"}, [&] { training_curve(run.log, {.smooth = 1}); });
}

TEST(Plot, CsvIsTheLog) {
  const std::vector<PlotRun> runs = {falling_run("a,\"b\"", 12), falling_run("c", 3)};
  std::string text;
  write_plot_csv(runs, [&](std::string_view piece) { text += piece; });
  std::istringstream lines(text);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line,
            "run,step,loss_nats,gradient_norm,learning_rate,tokens,validation_loss_nats,bits_per_byte,"
            "validation_tokens,seconds,tokens_per_s");
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, "\"a,\"\"b\"\"\",1,3.8333333333333335,,0.001,64,,,,0.5,");
  EXPECT_EQ(count(text, "\n"), 1 + 12 + 3);
  EXPECT_EQ(count(text, "\nc,"), 3);
}

TEST(Plot, JsonIsTheLogAndItsSummaries) {
  PlotRun run = falling_run("caf\xc3\xa9 \"1\"", 20);
  run.log.damaged_lines = 2;
  const Json json = parse_json(written({run, falling_run("b", 5)}, {.smooth = 0.5}, write_plot_json));
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["smooth"], 0.5);
  ASSERT_EQ(json["runs"].size(), 2u);
  const Json& first = json["runs"][0];
  EXPECT_EQ(first["run"], "caf\xc3\xa9 \"1\"");
  EXPECT_EQ(first["damaged_lines"], 2);
  EXPECT_EQ(first["validation_loss"], Json({{"last", 2.5}, {"lowest", 2.5}, {"lowest_step", 20}}));
  EXPECT_EQ(first["training_loss"]["last"], training_curve(run.log, {.smooth = 0.5}).back().y);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(first["columns"]["step"][i], i + 1);
    EXPECT_EQ(first["columns"]["loss_nats"][i], run.log.entries[i].loss_nats);
    EXPECT_EQ(first["columns"]["validation_loss_nats"][i].is_null(), (i + 1) % 10 != 0);
  }
  EXPECT_TRUE(json["runs"][1]["validation_loss"]["last"].is_null());
}

Json data_of(const std::string& page) {
  const std::string before = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = page.find(before) + before.size();
  return parse_json(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Plot, PageHoldsTheLogs) {
  const std::vector<PlotRun> runs = {falling_run("runs/a", 30), falling_run("runs/b", 7)};
  const std::string page = written(runs, {.x = PlotAxis::kTokens, .smooth = 0.25}, write_plot_html);
  const Json data = data_of(page);
  ASSERT_FALSE(data.is_discarded());
  EXPECT_EQ(data["x"], "tokens");
  EXPECT_EQ(data["smooth"], 0.25);
  ASSERT_EQ(data["runs"].size(), 2u);
  const Json& first = data["runs"][0];
  EXPECT_EQ(first["name"], "runs/a");
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(first["training"]["step"][i], i + 1);
    EXPECT_NEAR(first["training"]["loss_nats"][i], runs[0].log.entries[i].loss_nats, 1e-5);
    EXPECT_TRUE(first["training"]["gradient_norm"][i].is_null());
  }
  EXPECT_EQ(first["validation"]["step"], Json({10, 20, 30}));
  EXPECT_EQ(count(page, "<input type=\"checkbox\" checked>"), 2);
  EXPECT_NE(page.find("default-src 'none'"), page.npos);
}

TEST(Plot, PageOfALongRunHoldsMeans) {
  PlotRun run = falling_run("long", 25'000);
  run.log.damaged_lines = 3;
  run.log.first_damage = "line 7: not a JSON object";
  const std::string page = written({run}, {}, write_plot_html);
  const Json columns = data_of(page)["runs"][0]["training"];
  ASSERT_EQ(columns["step"].size(), 8334u);  // groups of three
  EXPECT_EQ(columns["step"][0], 3);
  EXPECT_EQ(columns["tokens"][0], 192);
  EXPECT_NEAR(columns["loss_nats"][0], run.log.entries[1].loss_nats, 1e-5);
  EXPECT_NE(page.find("of 25000 steps"), page.npos);
  EXPECT_NE(page.find("3 of 25000 lines"), page.npos);
  EXPECT_NE(page.find("line 7: not a JSON object"), page.npos);
}

TEST(Plot, NothingOfANameBecomesMarkup) {
  PlotRun run = falling_run("</script><img src=x onerror=alert(1)>&\"", 10);
  run.log.damaged_lines = 1;
  run.log.first_damage = "<b>";
  const std::string page = written({run}, {}, write_plot_html);
  EXPECT_EQ(data_of(page)["runs"][0]["name"], run.name);
  for (const char* word :
       {"<img", "</script><", "<b>", "http:", "https:", "href=", "url(h", "@import", "fetch(", "XMLHttp"})
    EXPECT_EQ(page.find(word), page.npos) << word;
}

TEST(Plot, FoldersAndLogFiles) {
  const testing::TemporaryDirectory directory;
  const std::string run = (directory / "run").string();
  std::filesystem::create_directory(run);
  expect_error(ErrorKind::kData, {run, "no log.jsonl"}, [&] { load_plot_run(run); });
  expect_error(ErrorKind::kData, {"nowhere"}, [&] { load_plot_run(directory / "nowhere"); });
  write_file_atomic(run + "/log.jsonl", "");
  expect_error(ErrorKind::kData, {"log.jsonl", "empty"}, [&] { load_plot_run(run); });
  write_file_atomic(run + "/log.jsonl", "{}\nsomething else\n");
  expect_error(ErrorKind::kData, {"run/log.jsonl line 1: no \"step\"", "no line of 2"},
               [&] { load_plot_run(run); });
  write_file_atomic(run + "/log.jsonl", "{\"step\":1,\"loss_nats\":2}\n{\"st");
  EXPECT_EQ(load_plot_run(run + "/").name, run);
  EXPECT_EQ(load_plot_run(run + "/log.jsonl").log.damaged_lines, 1);
}

}  // namespace
}  // namespace tril
