// `tril train` from start to end: what it writes, stopping and going on, refusing another run, a full disk.
#include <sys/file.h>

#include "tests/cli/train_run.h"
#include "tril/containers/safetensors.h"

namespace tril::cli_testing {
namespace {

class Train : public TrainRunTest {};

TEST_F(Train, OneCommandTrainsAndSaysHowToGenerate) {
  const Result result =
      run({"train", "text.txt", "--steps", "30", "--layers", "1", "--channels", "16", "--heads", "2"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_FALSE(has_control_characters(result.out)) << result.out;
  for (const char* piece :
       {"data", "tokenizer", "model", "parameters", "memory", "gradients", "steps", "machine", "GFLOP/s peak",
        "loss", "bits/byte", "tokens/s", "% of peak", "left", "tril generate runs/text --prompt \"The\""})
    EXPECT_NE(result.out.find(piece), std::string::npos) << piece << " missing in\n" << result.out;
  const std::vector<Json> lines = log("runs/text");
  ASSERT_EQ(lines.size(), 30u);
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i]["step"], i + 1);
  for (const char* key :
       {"loss_nats", "gradient_norm", "learning_rate", "validation_loss_nats", "bits_per_byte"})
    EXPECT_TRUE(lines.back().contains(key)) << key;
  EXPECT_LT(lines.back()["loss_nats"], lines.front()["loss_nats"]);
  const Result text = run({"generate", "runs/text", "--prompt", "The", "--max-tokens", "20"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out.substr(0, 3), "The");
}

TEST_F(Train, TheBlocksOfOtherModels) {
  const std::vector<std::string> small = {"train",      "text.txt", "--steps", "20", "--layers", "2",
                                          "--channels", "32",       "--heads", "4",  "--out"};
  const auto train = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> words = small;
    words.push_back(out);
    words.insert(words.end(), more.begin(), more.end());
    const Result result = run(words);
    ASSERT_EQ(result.code, 0) << result.err;
    const std::vector<Json> lines = log(out);
    EXPECT_LT(lines.back()["loss_nats"], lines.front()["loss_nats"]) << out;
    const Result again = run(words);  // the same command on a finished run
    EXPECT_EQ(again.code, 0) << again.err;
    const Result text = run({"generate", out, "--prompt", "The", "--max-tokens", "20"});
    EXPECT_EQ(text.code, 0) << text.err;
    const Result bench = run({"bench", "generate", out, "--seconds", "0.01", "--json"});
    ASSERT_EQ(bench.code, 0) << bench.err;
    EXPECT_GT(parse_json(bench.out.substr(0, bench.out.find('\n')))["decode_tokens_per_s"], 0);
    const Result half = run({"generate", out, "--prompt", "The", "--cache", "bf16", "--max-tokens", "20"});
    EXPECT_EQ(half.code, 0) << half.err;
    const Result info = run({"info", out});
    EXPECT_EQ(info.code, 0) << info.err;
  };
  train("llama", {"--arch", "llama", "--kv-heads", "2"});
  EXPECT_NE(run({"info", "llama"}).out.find("llama architecture, llama layout"), std::string::npos);
  train("custom", {"--arch",
                   "custom",
                   "--positions",
                   "alibi",
                   "--window",
                   "16",
                   "--softcap",
                   "30",
                   "--qk-norm",
                   "--sinks",
                   "--parallel-residual",
                   "--logit-softcap",
                   "20",
                   "--z-loss",
                   "1e-4",
                   "--activation",
                   "geglu",
                   "--norm",
                   "rms",
                   "--tied-head",
                   "false",
                   "--mlp-bias",
                   "false"});
  EXPECT_NE(run({"info", "custom"}).out.find("alibi"), std::string::npos);
  expect_error(run({"train", "text.txt", "--arch", "gpt", "--rope-base", "10000"}), 1, {"--positions rope"});
  const auto refused_with = [&](std::vector<std::string> words, const std::string& part) {
    words.insert(words.begin(), {"train", "text.txt", "--steps", "2", "--out", "refused"});
    expect_error(run(words), 1, {part});
  };
  refused_with({"--positions", "rope", "--rope-factor", "4"}, "factor 4 with none scaling");
  refused_with({"--layers", "1", "--channels", "16", "--heads", "2", "--kv-heads", "4"}, "evenly; use 2");
  refused_with({"--qk-norm", "false"}, "switches take no value");
  EXPECT_EQ(run({"train", "text.txt", "--steps", "2", "--layers", "1", "--channels", "16", "--heads", "2",
                 "--window", "0", "--softcap", "0", "--out", "unset"})
                .code,
            0);
  expect_error(run({"train", "text.txt", "--document-mask", "--steps", "3", "--out", "one"}), 1,
               {"--document-mask"});
  write_file(directory_ / "more.txt", "Another document, about something else entirely.\n" + sample_text());
  const Result two = run({"train", "text.txt", "more.txt", "--tokenizer", "bpe", "--document-mask", "--steps",
                          "3", "--layers", "1", "--channels", "16", "--heads", "2", "--out", "two"});
  EXPECT_EQ(two.code, 0) << two.err;
}

TEST_F(Train, JsonLines) {
  const Result result = run(train_arguments({"--json", "--out", "run"}));
  ASSERT_EQ(result.code, 0) << result.err;
  std::vector<std::string> events;
  for (const Json& line : json_lines(result.out)) {
    ASSERT_TRUE(line.is_object()) << result.out;
    events.push_back(line["event"]);
  }
  ASSERT_EQ(events.size(), 42u);
  EXPECT_EQ(events.front(), "plan");
  EXPECT_EQ(events.back(), "finished");
}

TEST_F(Train, ConfigFileUnderCommandLineOverPreset) {
  write_file(directory_ / "run.toml", "layers = 1\nchannels = 16  # small\nsteps = 3\nout = 'from-config'\n");
  ASSERT_EQ(
      run({"train", "text.txt", "--preset", "char-4x128", "--config", "run.toml", "--channels", "24"}).code,
      0);
  const Result info = run({"info", "from-config", "--json"});
  ASSERT_EQ(info.code, 0) << info.err;
  const Json config = parse_json(info.out)["config"];
  EXPECT_EQ(config["layers"], 1);     // config over preset
  EXPECT_EQ(config["channels"], 24);  // command line over config
  EXPECT_EQ(config["heads"], 4);      // preset
  write_file(directory_ / "run.json", "{\"layers\": 1, \"learning_rate\": 0.01, \"arch\": \"classic\"}");
  ASSERT_EQ(run(train_arguments({"--config", "run.json", "--steps", "2", "--out", "json"})).code, 0);
  EXPECT_EQ(parse_json(run({"info", "json", "--json"}).out)["config"]["architecture"], "classic");
}

class Stopping : public Train, public ::testing::WithParamInterface<int> {};

TEST_P(Stopping, ThenResumingEqualsNeverStopping) {
  const std::vector<std::string> more = {"--steps",      "400", "--eval-every", "10",
                                         "--save-every", "150", "--dropout",    "0.1"};
  auto whole = train_arguments(more), stopped = train_arguments(more);
  whole.insert(whole.end(), {"--out", "whole"});
  stopped.insert(stopped.end(), {"--out", "stopped"});
  ASSERT_EQ(run(whole).code, 0);
  const Result first = run(stopped, {.signal_at = "step 20/", .signal = GetParam()});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.err, "");
  ASSERT_NE(first.out.find("stopped after step "), std::string::npos) << first.out;
  const std::string step = std::to_string(log("stopped").size());
  EXPECT_NE(first.out.find("stopped after step " + step + " of 400"), std::string::npos) << first.out;
  // The model can be used where it stopped.
  EXPECT_EQ(run({"generate", "stopped", "--prompt", "A", "--max-tokens", "3"}).code, 0);

  const Result second = run(stopped);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_NE(second.out.find("resuming from step " + step), std::string::npos) << second.out;
  EXPECT_EQ(weights("whole"), weights("stopped"));
  EXPECT_EQ(log("whole"), log("stopped"));
}

INSTANTIATE_TEST_SUITE_P(Signals, Stopping, ::testing::Values(SIGINT, SIGTERM));

// Every part of the recipe at once; what is saved is the average of the weights, and what is validated.
TEST_F(Train, OtherOptimizersAndAverages) {
  const std::vector<std::string> recipe = {"--optimizer", "muon", "--moments",         "bf16", "--ema", "0.9",
                                           "--schedule",  "wsd",  "--label-smoothing", "0.1",  "--out", "run",
                                           "--arch",      "gpt"};
  const auto with = [&](const std::string& steps, std::vector<std::string> more) {
    std::vector<std::string> words = recipe;
    words.insert(words.end(), {"--steps", steps});
    words.insert(words.end(), more.begin(), more.end());
    return run(train_arguments(words));
  };
  const Result first = with("40", {});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find(", averages "), std::string::npos) << first.out;
  EXPECT_NE(first.out.find(" of muon; about"), std::string::npos) << first.out;
  const SafetensorsFile saved(directory_ / "run" / "model.safetensors");
  const Path folder = directory_ / "run" / "steps" / "00000040";
  const SafetensorsFile state(folder / "optimizer.safetensors"), weights_then(folder / "weights.safetensors");
  const std::string name = "ln_final.weight";
  const ConstView average = state.f32(name + ".average", {16}), raw = weights_then.f32(name, {16});
  const ConstView model = saved.f32("transformer.ln_f.weight", {16});
  EXPECT_TRUE(std::equal(model.f32(), model.f32() + 16, average.f32()));
  EXPECT_FALSE(std::equal(model.f32(), model.f32() + 16, raw.f32()));
  EXPECT_EQ(state.get("blocks.0.mlp.hidden.weight.m").dtype, "BF16");
  EXPECT_EQ(state.find("blocks.0.mlp.hidden.weight.v"), nullptr);
  EXPECT_LT(log("run").back()["loss_nats"], log("run").front()["loss_nats"]);
  EXPECT_EQ(run({"generate", "run", "--prompt", "The", "--max-tokens", "5"}).code, 0);
  // What was started goes on as it was; more steps, and another schedule, when asked for.
  EXPECT_EQ(run(train_arguments({"--out", "run"})).code, 0);
  const Result other = run(train_arguments({"--out", "run", "--optimizer", "adamw"}));
  EXPECT_NE(other.err.find("--optimizer was \"muon\", now \"adamw\""), std::string::npos) << other.err;
  EXPECT_EQ(with("50", {"--resume", "--schedule", "linear"}).code, 0);
  EXPECT_EQ(log("run").size(), 50u);
}

// In the first step, which takes a while.
TEST_F(Train, SecondSignalStopsAtOnce) {
  const Result result =
      run({"train", "text.txt", "--layers", "4", "--channels", "256", "--heads", "4", "--context", "128",
           "--batch", "24", "--steps", "1000", "--threads", "1", "--out", "run"},
          {.signal_at = "out  ", .signal = SIGINT, .signals = 2});
  EXPECT_EQ(result.code, 130) << result.out << result.err;
  EXPECT_FALSE(std::filesystem::exists(directory_ / "run" / "model.safetensors"));
}

TEST_F(Train, StoppedBeforeTheFirstStepLeavesNothingToRefuse) {
  auto large = train_arguments({"--layers", "8", "--channels", "512", "--out", "run"});
  const Result result = run(large, {.signal_at = "parameters", .signal = SIGINT});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("nothing is saved"), std::string::npos) << result.out;
  EXPECT_EQ(run(train_arguments({"--out", "run"})).code, 0);
}

TEST_F(Train, AReaderThatLeavesStopsTheRunWithASave) {
  const Result result =
      run(train_arguments({"--steps", "5000", "--out", "run"}), {.signal_at = "step 250/", .hang_up = true});
  EXPECT_EQ(result.code, 2);
  EXPECT_TRUE(one_line(result.err)) << result.err;
  EXPECT_NE(result.err.find("standard output cannot be written"), std::string::npos) << result.err;
  const Result info = run({"info", "run", "--json"});
  EXPECT_GE(parse_json(info.out)["training"]["step"], 250);
}

TEST_F(Train, KilledWithoutWarning) {
  auto killed =
      train_arguments({"--steps", "300", "--eval-every", "10", "--save-every", "20", "--out", "killed"});
  EXPECT_EQ(run(killed, {.signal_at = "step 50/", .signal = SIGKILL}).code, 1000 + SIGKILL);
  ASSERT_EQ(run(killed).code, 0);
  ASSERT_EQ(
      run(train_arguments({"--steps", "300", "--eval-every", "10", "--save-every", "20", "--out", "whole"}))
          .code,
      0);
  EXPECT_EQ(weights("whole"), weights("killed"));
  EXPECT_EQ(log("whole"), log("killed"));
}

// A kill between the last save and the model's files.
TEST_F(Train, FinishedRunGetsTheModelOfItsLastSave) {
  ASSERT_EQ(run(train_arguments({"--out", "run"})).code, 0);
  const std::string model = weights("run");
  const auto path = directory_ / "run" / "model.safetensors";
  std::filesystem::remove(path);
  EXPECT_EQ(run(train_arguments({"--out", "run"})).code, 0);
  EXPECT_EQ(weights("run"), model);

  write_file(path, "of an earlier step");
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) - std::chrono::hours(1));
  std::filesystem::remove(directory_ / "run" / "tokenizer.json");
  EXPECT_EQ(run(train_arguments({"--out", "run"})).code, 0);
  EXPECT_EQ(weights("run"), model);
  EXPECT_EQ(run({"info", "run"}).code, 0);
}

TEST_F(Train, DamagedSavesArePassedOverAndNamed) {
  const auto arguments = train_arguments({"--out", "run", "--save-every", "20", "--eval-every", "20"});
  ASSERT_EQ(run(arguments).code, 0);
  const std::string model = weights("run");
  write_file(directory_ / "run" / "steps" / "00000040" / "weights.safetensors", "damaged");
  const Result again = run(arguments);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("resuming from step 20"), std::string::npos) << again.out;
  EXPECT_NE(again.out.find("00000040: weights.safetensors"), std::string::npos) << again.out;
  EXPECT_EQ(weights("run"), model);
}

TEST_F(Train, LogOfAnotherProgramIsNoObstacle) {
  const auto arguments = train_arguments({"--out", "run", "--save-every", "20"});
  ASSERT_EQ(run(arguments).code, 0);
  std::filesystem::remove_all(directory_ / "run" / "steps" / "00000040");
  write_file(directory_ / "run" / "log.jsonl", "{\"step\":20,\"seconds\":\"long\"}\n");
  const Result again = run(arguments);
  EXPECT_EQ(again.code, 0) << again.err;
}

// nohup: a closed terminal does not stop the run.
TEST_F(Train, IgnoredSignalsStayIgnored) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  const Result result = run(train_arguments({"--out", "run", "--steps", "300", "--eval-every", "10"}),
                            {.signal_at = "step 50/", .signal = SIGHUP});
  std::signal(SIGHUP, before);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(log("run").size(), 300u) << result.out;
}

TEST_F(Train, OnlyOneAtATimeInAFolder) {
  std::filesystem::create_directory(directory_ / "run");
  const int folder = ::open((directory_ / "run").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(folder, LOCK_EX), 0);
  Result result = run(train_arguments({"--out", "run"}));
  result.out.clear();  // the plan
  expect_error(result, 1, {"another tril"});
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "run"));
  ::close(folder);
  EXPECT_EQ(run(train_arguments({"--out", "run"})).code, 0);
}

TEST_F(Train, LossesThatAreNoNumbersStopTheRun) {
  const Result result = run(train_arguments({"--out", "run", "--learning-rate", "100", "--clip", "0",
                                             "--warmup", "0", "--steps", "200", "--save-every", "1"}));
  EXPECT_EQ(result.code, 3) << result.out;
  EXPECT_TRUE(one_line(result.err)) << result.err;
  EXPECT_NE(result.err.find("step "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("tensor"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("--resume and a lower --learning-rate"), std::string::npos) << result.err;
  // What was saved before is still whole.
  EXPECT_EQ(run({"info", "run"}).code, 0);
}

TEST_F(Train, FinishedRunsAndOtherRuns) {
  ASSERT_EQ(run(train_arguments({"--out", "run"})).code, 0);
  const std::string before = weights("run");
  const Result again = run(train_arguments({"--out", "run"}));
  EXPECT_EQ(again.code, 0) << again.err;
  for (const char* piece : {"finished", "--resume --steps 80", "another --out"})
    EXPECT_NE(again.out.find(piece), std::string::npos) << piece << " missing in\n" << again.out;

  const auto refused = [&](const std::vector<std::string>& more, const std::vector<std::string>& parts) {
    expect_error(run(train_arguments(more)), 1, parts);
  };
  refused({"--out", "run", "--learning-rate", "0.5"}, {"--learning-rate was ", "now 0.5", "another --out"});
  refused({"--out", "run", "--channels", "32"}, {"--channels was 16, now 32"});
  refused({"--out", "run", "--tokenizer", "byte"}, {"--tokenizer was \"char\", now \"byte\""});
  refused({"--out", "run", "--steps", "60"}, {"--steps was 40, now 60", "--resume"});
  EXPECT_EQ(weights("run"), before);

  // A finished run mends its model from the checkpoint.
  write_file(directory_ / "run" / "model.safetensors", "damaged");
  EXPECT_EQ(run(train_arguments({"--out", "run"})).code, 0);
  EXPECT_EQ(weights("run"), before);

  write_file(directory_ / "text.txt", sample_text(150));
  refused({"--out", "run"}, {"the text was ", "tokens"});
  write_file(directory_ / "text.txt", sample_text());
  EXPECT_EQ(run(train_arguments({"--out", "run", "--steps", "60", "--resume"})).code, 0);
  EXPECT_EQ(log("run").size(), 60u);
  // Other rates, for a run that diverged; the lowest rate follows the highest.
  refused({"--out", "run", "--steps", "70", "--clip", "2"}, {"--clip was 1, now 2", "--resume"});
  const Result calmer = run(train_arguments(
      {"--out", "run", "--steps", "65", "--resume", "--learning-rate", "0.0005", "--clip", "2"}));
  EXPECT_EQ(calmer.code, 0) << calmer.err;
  EXPECT_NEAR(log("run").back()["learning_rate"].get<double>(), 0.00005, 1e-9);
  // How often to look and to save changes nothing in the run, so it may change.
  EXPECT_EQ(run(train_arguments({"--out", "run", "--steps", "70", "--resume", "--eval-every", "7"})).code, 0);
}

TEST_F(Train, AnyFolderNameInJson) {
  const std::vector<std::string> words = train_arguments({"--out", "caf\xe9", "--steps", "2", "--json"});
  for (int time = 0; time < 2; ++time) {  // trains, then finds the run finished
    const Result result = run(words);
    ASSERT_EQ(result.code, 0) << result.err;
    const size_t last = result.out.rfind('\n', result.out.size() - 2) + 1;
    EXPECT_EQ(parse_json(result.out.substr(last)).at("event"), "finished") << result.out;
  }
}

TEST_F(Train, FullDisk) {
  const std::vector<std::string> run20 = train_arguments({"--out", "run", "--steps", "20"});
  ASSERT_EQ(run(run20).code, 0);
  const std::string before = weights("run");
  const auto longer = train_arguments({"--out", "run", "--steps", "60", "--resume", "--save-every", "25"});
  const Result full = run(longer, {.file_limit = 8192});
  EXPECT_EQ(full.code, 2) << full.out << full.err;
  EXPECT_TRUE(one_line(full.err)) << full.err;
  EXPECT_NE(full.out.find("could not save step 25"), std::string::npos) << full.out;
  EXPECT_NE(full.out.find("step 60/60"), std::string::npos) << "training goes on\n" << full.out;
  EXPECT_EQ(weights("run"), before) << "the older save stays";
  const Result later = run(longer);
  EXPECT_EQ(later.code, 0) << later.err;
  EXPECT_NE(later.out.find("resuming from step 20"), std::string::npos) << later.out;
  ASSERT_EQ(run(train_arguments({"--out", "whole", "--steps", "20"})).code, 0);
  ASSERT_EQ(run(train_arguments({"--out", "whole", "--steps", "60", "--resume"})).code, 0);
  EXPECT_EQ(weights("run"), weights("whole"));
}

TEST_F(Train, ThreadsChangeNoBit) {
  ASSERT_EQ(run(train_arguments({"--out", "one"})).code, 0);
  ASSERT_EQ(run(train_arguments({"--out", "two", "--threads", "2"})).code, 0);
  EXPECT_EQ(weights("one"), weights("two"));
}

TEST_F(Train, StandardInputAndFolders) {
  ASSERT_EQ(run(train_arguments({"--steps", "2", "--out", "file"})).code, 0);
  auto from_input = train_arguments({"--steps", "2"});
  from_input[1] = "-";
  ASSERT_EQ(run(from_input, {.input = sample_text()}).code, 0);
  EXPECT_EQ(weights("runs/stdin"), weights("file"));
  std::filesystem::create_directories(directory_ / "texts" / "deep down");
  write_file(directory_ / "texts" / "deep down" / "a.txt", sample_text());
  write_file(directory_ / "texts" / "none.txt", "");
  auto from_folder = train_arguments({"--steps", "2"});
  from_folder[1] = "texts/";
  const Result result = run(from_folder);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("1 empty file skipped"), std::string::npos) << result.out;
  EXPECT_EQ(weights("runs/texts"), weights("file"));
}

}  // namespace
}  // namespace tril::cli_testing
