// `tril train` looking after a run: saves by the clock and by validation, an early end, warnings, a start
// from another model, run.json.
#include <algorithm>
#include <map>

#include "tests/cli/train_run.h"
#include "tril/base/random.h"
#include "tril/interop/model_folder.h"

namespace tril::cli_testing {
namespace {

class TrainWatch : public TrainRunTest {
 protected:
  // Validation losses by step.
  std::map<int64_t, double> validations(const std::string& out) {
    std::map<int64_t, double> losses;
    for (const Json& line : log(out))
      if (line.contains("validation_loss_nats")) losses[line["step"]] = line["validation_loss_nats"];
    return losses;
  }
  static std::pair<int64_t, double> lowest(const std::map<int64_t, double>& losses) {
    return *std::min_element(losses.begin(), losses.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; });
  }
  std::vector<std::string> saves(const std::string& out) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ / out / "steps"))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  // Letters that follow from nothing: the model can only learn the training part by heart.
  void write_noise(const std::string& name, size_t characters) {
    const RandomStream random(3, "noise");
    std::string text;
    for (uint64_t i = 0; i < characters; ++i) text += static_cast<char>('a' + random.below(i, 6));
    write_file(directory_ / name, text);
  }
  static std::vector<std::string> overfitting(const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "train",      "noise.txt", "--layers",        "1",    "--heads",      "2",
        "--channels", "32",        "--context",       "16",   "--batch",      "8",
        "--threads",  "1",         "--learning-rate", "0.01", "--eval-every", "10"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(TrainWatch, SavesByTheClock) {
  const auto killed_at_30 = [&](const std::string& out, const std::string& minutes) {
    const auto words = train_arguments({"--steps", "5000", "--eval-every", "10", "--learning-rate", "1e-12",
                                        "--save-every", "5000", "--out", out, "--save-minutes", minutes});
    EXPECT_EQ(run(words, {.signal_at = "step 30/", .signal = SIGKILL}).code, 1000 + SIGKILL);
    return saves(out);
  };
  // With rates of nothing the first validation stays the best, give or take the last bits.
  const auto often = killed_at_30("often", "0.000000001");
  EXPECT_GE(std::stol(often.back()), 29) << often.size();
  EXPECT_LE(often.size(), 4u);
  EXPECT_EQ(std::stol(killed_at_30("never", "0").back()) % 10, 0) << "only the best";
  expect_error(run(train_arguments({"--save-minutes", "-1"})), 1, {"--save-minutes"});
}

TEST_F(TrainWatch, TheBestIsKeptAndCanBeTheModel) {
  write_noise("noise.txt", 200);
  const auto words = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> all = overfitting({"--steps", "200", "--keep", "1", "--out", out});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Result last = run(words("last", {}));
  ASSERT_EQ(last.code, 0) << last.err;
  const auto [best_step, best_loss] = lowest(validations("last"));
  ASSERT_LT(best_step, 200);
  const std::string best_name =
      std::string(8 - std::to_string(best_step).size(), '0') + std::to_string(best_step);
  EXPECT_EQ(saves("last"), (std::vector<std::string>{best_name, "00000200"}));
  const Json training = parse_json(run({"info", "last", "--json"}).out)["training"];
  EXPECT_EQ(training["best_save_step"], best_step);
  EXPECT_EQ(training["best_validation_loss_nats"], best_loss);
  EXPECT_NE(last.out.find("warning: step "), std::string::npos) << last.out;
  EXPECT_NE(last.out.find("by heart"), std::string::npos) << last.out;

  const Result best = run(words("best", {"--final-model", "best"}));
  ASSERT_EQ(best.code, 0);
  EXPECT_NE(best.out.find(fmt::format("the model of step {}, validation loss {:.4f} nats, is in best",
                                      best_step, best_loss)),
            std::string::npos)
      << best.out;
  EXPECT_NE(weights("best"), weights("last"));
  // The finished run changes its mind at once.
  const std::string last_weights = weights("last");
  ASSERT_EQ(run(words("last", {"--final-model", "best"})).code, 0);
  EXPECT_EQ(weights("last"), weights("best"));
  ASSERT_EQ(run(words("last", {})).code, 0);
  EXPECT_EQ(weights("last"), last_weights);

  // A stop on the way, after the best.
  ASSERT_EQ(
      run(words("stopped", {"--final-model", "best"}), {.signal_at = "step 150/", .signal = SIGINT}).code, 0);
  EXPECT_EQ(saves("stopped").front(), best_name);
  ASSERT_EQ(run(words("stopped", {"--final-model", "best"})).code, 0);
  EXPECT_EQ(weights("stopped"), weights("best"));

  std::filesystem::remove_all(directory_ / "best" / "steps" / best_name);
  expect_error(run(words("best", {"--final-model", "best"})), 2, {best_name});
}

TEST_F(TrainWatch, PatienceEndsARun) {
  write_noise("noise.txt", 200);
  const auto words = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> all =
        overfitting({"--steps", "600", "--save-every", "600", "--patience", "12", "--out", out});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Result result = run(words("run", {}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto losses = validations("run");
  const int64_t last = losses.rbegin()->first;
  EXPECT_EQ(lowest(losses).first, last - 120);
  EXPECT_EQ(log("run").size(), static_cast<size_t>(last));
  EXPECT_NE(result.out.find("stopped early"), std::string::npos) << result.out;

  const std::string model = weights("run");
  const Result again = run(words("run", {}));
  EXPECT_EQ(again.code, 0) << again.err;
  const std::string early = "stopped early after step " + std::to_string(last) + " of 600";
  for (const std::string& part : {std::string("finished"), early, std::string("--patience 24")})
    EXPECT_NE(again.out.find(part), std::string::npos) << part << " missing in\n" << again.out;
  EXPECT_EQ(weights("run"), model);
  EXPECT_EQ(parse_json(run(words("run", {"--json"})).out)["stopped_early"], true);

  // Killed while it waits, it counts on.
  const std::string at = "step " + std::to_string(last - 100) + "/";
  EXPECT_EQ(run(words("killed", {}), {.signal_at = at, .signal = SIGKILL}).code, 1000 + SIGKILL);
  ASSERT_EQ(run(words("killed", {})).code, 0);
  EXPECT_EQ(weights("killed"), model);
  EXPECT_EQ(log("killed"), log("run"));

  // With more patience it goes on as one that had it from the start.
  ASSERT_EQ(run(words("run", {"--patience", "0"})).code, 0);
  EXPECT_EQ(log("run").size(), 600u);
  ASSERT_EQ(run(words("whole", {"--patience", "0"})).code, 0);
  EXPECT_EQ(weights("run"), weights("whole"));
}

TEST_F(TrainWatch, WarnsOfARateTooHigh) {
  const Result result = run(
      train_arguments({"--json", "--out", "run", "--learning-rate", "3", "--steps", "150", "--clip", "0"}));
  ASSERT_EQ(result.code, 0) << result.err;
  std::map<std::string, int> kinds;
  for (const Json& line : json_lines(result.out)) {
    if (line.at("event") != "warning") continue;
    ++kinds[line.at("kind")];
    EXPECT_TRUE(line.at("step").is_number_integer() && line.at("message").is_string()) << to_text(line);
  }
  EXPECT_EQ(kinds["learning_rate"], 1);
  for (const auto& [kind, count] : kinds) EXPECT_LE(count, 2) << kind;
}

TEST_F(TrainWatch, SkipsSomeBadStepsAndSaysSo) {
  const auto words = train_arguments({"--out", "run", "--learning-rate", "100", "--clip", "0", "--warmup",
                                      "0", "--steps", "200", "--max-skipped", "3"});
  const Result result = run(words);
  EXPECT_EQ(result.code, 3) << result.out;
  EXPECT_TRUE(one_line(result.err)) << result.err;
  EXPECT_NE(result.err.find("3 before it were skipped"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("the step is skipped"), std::string::npos) << result.out;
  const std::vector<Json> lines = log("run");
  ASSERT_GT(lines.size(), 3u);
  for (size_t i = lines.size() - 3; i < lines.size(); ++i) EXPECT_EQ(lines[i].value("skipped", false), true);
  EXPECT_FALSE(lines[lines.size() - 4].contains("skipped"));
}

TEST_F(TrainWatch, StepsThatCannotBeWrittenFailAtOnce) {
  std::filesystem::create_directory(directory_ / "run");
  write_file(directory_ / "run" / "steps", "in the way");
  const Result result = run(train_arguments({"--out", "run"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_TRUE(one_line(result.err)) << result.err;
  EXPECT_NE(result.err.find("run/steps: cannot be written"), std::string::npos) << result.err;
  EXPECT_EQ(result.out.find("step 1/"), std::string::npos);
}

class TrainFrom : public TrainRunTest {
 protected:
  static std::vector<std::string> from_base(const std::string& out,
                                            const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"train", "more.txt",  "--from", "base",  "--batch",
                                      "4",     "--threads", "1",      "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void SetUp() override {
    TrainRunTest::SetUp();
    std::string text = sample_text(300);
    std::reverse(text.begin(), text.end());
    write_file(directory_ / "more.txt", text);
    // YaRN's constants are in no option.
    ASSERT_EQ(run(train_arguments({"--arch", "llama", "--rope-scaling", "yarn", "--rope-factor", "2",
                                   "--rope-original-context", "8", "--out", "base"}))
                  .code,
              0);
  }
};

TEST_F(TrainFrom, StartsFromTheWeightsAndGoesOnWithoutThem) {
  const std::vector<std::string> more = {"--steps", "150", "--eval-every", "20", "--save-every", "70"};
  const Result whole = run(from_base("whole", more));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("from      base"), std::string::npos) << whole.out;
  // Nothing moves at a rate of nothing: the weights are the model's.
  ASSERT_EQ(run(from_base("same", {"--steps", "1", "--learning-rate", "1e-12", "--min-learning-rate", "0",
                                   "--weight-decay", "0"}))
                .code,
            0);
  const std::vector<std::string> files = {"config.json", "tokenizer.json"};
  for (const std::string& file : files)
    EXPECT_EQ(read_file(directory_ / "same" / file), read_file(directory_ / "base" / file)) << file;
  const LoadedModel same = load_model(directory_ / "same"), base = load_model(directory_ / "base");
  for (const Parameters::Item& item : base.parameters->items()) {
    const View& here = same.parameters->find(item.info.name).value;
    for (int64_t i = 0; i < here.elements(); ++i)
      ASSERT_NEAR(here.f32()[i], item.weight->value.f32()[i], 1e-10) << item.info.name;
  }

  ASSERT_EQ(run(from_base("stopped", more), {.signal_at = "step 20/", .signal = SIGINT}).code, 0);
  std::filesystem::rename(directory_ / "base", directory_ / "gone");
  expect_error(run({"train", "more.txt", "--from", "gone", "--out", "stopped"}), 1,
               {"--from was \"base\", now \"gone\""});
  auto spelled = from_base("stopped", more);
  spelled[3] = "./base/";
  const Result second = run(spelled);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(weights("stopped"), weights("whole"));
  EXPECT_EQ(log("stopped"), log("whole"));
  const Result finished = run(from_base("stopped", more));
  EXPECT_EQ(finished.code, 0) << finished.err;
}

TEST_F(TrainFrom, RefusesWhatTheModelDecides) {
  const auto refused = [&](const std::vector<std::string>& words, const std::vector<std::string>& parts,
                           int code) { expect_error(run(words), code, parts); };
  refused(from_base("x", {"--layers", "3", "--arch", "gpt"}),
          {"--arch is \"gpt\", the model has \"custom\"", "--layers is 3, the model has 1"}, 1);
  refused(from_base("x", {"--qk-norm"}), {"--qk-norm is true, the model has false"}, 1);
  refused(from_base("x", {"--tokenizer", "byte"}), {"--tokenizer", "--from base"}, 1);
  refused(from_base("x", {"--vocab", "300"}), {"--vocab"}, 1);
  refused({"train", "more.txt", "--from", "nowhere"}, {"nowhere"}, 2);
  refused({"train", "more.txt", "--from="}, {"--from", "empty"}, 1);
  write_file(directory_ / "greek.txt", "\xce\xb1\xce\xb2\xce\xb3");
  refused({"train", "greek.txt", "--from", "base"}, {"greek", "character"}, 2);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "x"));
  // A run that started from nothing has no --from.
  refused(train_arguments({"--from", "gone", "--out", "base"}), {"--from was \"\", now \"gone\""}, 1);
  // What agrees may be said.
  EXPECT_EQ(
      run(from_base("agrees", {"--layers", "1", "--channels", "16", "--dropout", "0.1", "--steps", "2"}))
          .code,
      0);
}

TEST_F(TrainFrom, TheContextMayBeShorterWherePositionsAreComputed) {
  const int64_t whole = load_model(directory_ / "base").config.context;
  const Result first = run(from_base("short", {"--context", "6", "--steps", "2"}));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(load_model(directory_ / "short").config.context, 6);
  EXPECT_EQ(run(from_base("short", {"--context", "6", "--steps", "4", "--resume"})).code, 0);
  expect_error(run(from_base("short", {"--context", "5", "--steps", "6", "--resume"})), 1,
               {"--context was 6, now 5"});
  expect_error(run(from_base("long", {"--context", std::to_string(whole + 1)})), 1,
               {fmt::format("--context is {}, the model has {}", whole + 1, whole)});
  ASSERT_EQ(run(train_arguments({"--arch", "gpt", "--steps", "2", "--out", "table"})).code, 0);
  expect_error(run({"train", "more.txt", "--from", "table", "--context", "6"}), 1,
               {"--context is 6, the model has"});
}

TEST_F(TrainRunTest, RunJsonMakesTheRunAgain) {
  ASSERT_EQ(run(train_arguments({"--out", "run", "--dropout", "0.1", "--qk-norm"})).code, 0);
  const Json first = parse_json(read_file(directory_ / "run" / "run.json"));
  ASSERT_TRUE(first.is_object());
  EXPECT_EQ(first["options"]["channels"], 16);
  EXPECT_EQ(first["config"]["channels"], 16);
  EXPECT_EQ(first["data"]["sources"], Json::array({"text.txt"}));
  EXPECT_EQ(first["data"]["text_bytes"], sample_text().size());
  EXPECT_EQ(first["data"]["text_crc32"].get<std::string>().size(), 8u);
  ASSERT_EQ(first["history"].size(), 1u);
  const std::string command = first["history"][0]["command"];
  EXPECT_NE(command.find(" train text.txt --layers 1 --heads 2"), std::string::npos) << command;
  EXPECT_EQ(first["history"][0]["from_step"], 0);
  for (const char* name : {"tril", "instruction_set", "products"})
    EXPECT_TRUE(first["history"][0].contains(name));

  ASSERT_EQ(run({"train", "text.txt", "--config", "run/run.json", "--out", "again"}).code, 0);
  EXPECT_EQ(weights("again"), weights("run"));
  // Going on with other options is told; the same command again is not.
  ASSERT_EQ(
      run(train_arguments({"--out", "run", "--resume", "--steps", "50", "--learning-rate", "1e-4"})).code, 0);
  ASSERT_EQ(
      run(train_arguments({"--out", "run", "--resume", "--steps", "50", "--learning-rate", "1e-4"})).code, 0);
  const Json second = parse_json(read_file(directory_ / "run" / "run.json"));
  ASSERT_EQ(second["history"].size(), 2u);
  EXPECT_EQ(second["history"][1]["from_step"], 40);
  EXPECT_EQ(second["options"]["steps"], 50);
  std::filesystem::remove(directory_ / "run" / "run.json");
  ASSERT_EQ(
      run(train_arguments({"--out", "run", "--resume", "--steps", "50", "--learning-rate", "1e-4"})).code, 0);
  EXPECT_EQ(parse_json(read_file(directory_ / "run" / "run.json")), second);
}

}  // namespace
}  // namespace tril::cli_testing
