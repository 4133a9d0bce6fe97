// The command killed again and again at random moments: it loses no save, the model's files stay whole, and
// the run ends as one that was never stopped. (train/kill_test.cc kills hundreds of times, without the
// command.)
#include "tests/cli/train_run.h"
#include "tril/base/random.h"
#include "tril/interop/model_folder.h"

namespace tril::cli_testing {
namespace {

constexpr int64_t kSaveEvery = 7;

// The number after the last `before` in the text, or 0.
int64_t last_number(const std::string& text, const std::string& before) {
  const size_t at = text.rfind(before);
  return at == std::string::npos ? 0 : std::strtoll(text.c_str() + at + before.size(), nullptr, 10);
}

class Kill : public TrainRunTest {};

TEST_F(Kill, AgainAndAgain) {
  const auto words = [](const std::string& out) {
    return train_arguments({"--steps", "600", "--eval-every", "10", "--save-every",
                            std::to_string(kSaveEvery), "--dropout", "0.1", "--patience", "1000", "--out",
                            out});
  };
  ASSERT_EQ(run(words("whole")).code, 0);
  const RandomStream random(7, "moments");
  const auto start = std::chrono::steady_clock::now();
  int kills = 0;
  int64_t printed = 0;
  bool ended = false;
  while (!ended && kills < 60 && std::chrono::steady_clock::now() - start < std::chrono::seconds(8)) {
    const auto draw = static_cast<uint64_t>(kills++);
    const Result result =
        run(words("killed"), {.signal_at = "out  ",
                              .signal = SIGKILL,
                              .delay_us = static_cast<int64_t>(random.below(draw, 100'000))});
    ended = result.code == 0;
    EXPECT_TRUE(ended || result.code == 1000 + SIGKILL) << result.err;
    if (result.out.find("This run is finished") != std::string::npos) break;
    // The saves before the last step that was printed were made; what was printed after them is lost.
    const int64_t resumed = last_number(result.out, "resuming from step ");
    EXPECT_GE(resumed, (printed - 1) / kSaveEvery * kSaveEvery) << result.out;
    printed = std::max(resumed, last_number(result.out, "\nstep "));
    if (std::filesystem::exists(directory_ / "killed" / "model.safetensors")) {
      EXPECT_NO_THROW(load_model(directory_ / "killed"));
    }
  }
  EXPECT_GE(kills, 3);
  RecordProperty("kills", kills);
  ASSERT_EQ(run(words("killed")).code, 0);
  EXPECT_EQ(weights("killed"), weights("whole"));
  EXPECT_EQ(log("killed"), log("whole"));
  const auto state = [&](const std::string& out) {
    Json json = parse_json(read_file(directory_ / out / "steps" / "00000600" / "state.json"));
    json.erase("options");  // its history names the folders
    return json;
  };
  EXPECT_EQ(state("killed"), state("whole"));
}

}  // namespace
}  // namespace tril::cli_testing
