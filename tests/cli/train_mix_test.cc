// Epochs, and mixtures of sources: stopped and resumed, refused where they differ.
#include "tests/cli/train_run.h"

namespace tril::cli_testing {
namespace {

class TrainMix : public TrainRunTest {
 protected:
  void SetUp() override {
    TrainRunTest::SetUp();
    std::string other;
    for (int i = 0; i < 400; ++i) other += "tic " + std::to_string(i) + " toc\n";
    write_file(directory_ / "other.txt", other);
  }

  static std::vector<std::string> words(const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train", "text.txt", "other.txt", "--steps",   "12", "--save-every",
                                    "1",     "--keep",   "12",        "--layers",  "1",  "--channels",
                                    "16",    "--heads",  "2",         "--context", "16", "--batch",
                                    "4",     "--out",    out};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // As if stopped after step 5.
  void cut(const std::string& out) {
    for (int step = 6; step <= 12; ++step)
      std::filesystem::remove_all(directory_ / out / "steps" /
                                  ((step < 10 ? "0000000" : "000000") + std::to_string(step)));
  }
};

TEST_F(TrainMix, ResumedEqualsNeverStoppedAndOtherMixturesAreRefused) {
  const std::vector<std::string> mix = {"--mix", "0.7,0.3", "--sampling", "epochs"};
  const Result whole = run(words("whole", mix));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("mixture   70 % text.txt: "), std::string::npos) << whole.out;
  EXPECT_NE(whole.out.find("30 % other.txt: "), std::string::npos) << whole.out;
  std::filesystem::copy(directory_ / "whole", directory_ / "part", std::filesystem::copy_options::recursive);
  cut("part");
  const Result rest = run(words("part", mix));
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(weights("part"), weights("whole"));
  for (const auto& [more, what] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--mix", "0.6,0.4"}, "--mix was \"0.7,0.3\", now \"0.6,0.4\"; the text was"},
           {{"--sampling", "random"}, "--sampling was \"epochs\", now \"random\""},
           {{"--batch", "2", "--accumulate", "2"}, "--batch was 4, now 2"},
           {{"--mix", "1"}, "--mix 1: 1 weight for 2 sources"},
           {{"--mix", "1,x"}, "--mix '1,x'"}}) {
    expect_error(run(words("part", more)), 1, {what});
  }
}

TEST_F(TrainMix, EpochsGoOnWithOtherBatches) {
  ASSERT_EQ(run(words("wide", {"--sampling", "epochs"})).code, 0);
  cut("wide");
  const std::vector<Json> before = log("wide");
  const Result rest = run(words("wide", {"--resume", "--batch", "2", "--accumulate", "2"}));
  ASSERT_EQ(rest.code, 0) << rest.err;
  const std::vector<Json> after = log("wide");
  ASSERT_EQ(after.size(), 12u);
  for (size_t i = 0; i < 12; ++i)
    EXPECT_NEAR(after[i]["loss_nats"].get<double>(), before[i]["loss_nats"].get<double>(), 1e-4) << i;
}

TEST_F(TrainMix, StoresMixWithText) {
  ASSERT_EQ(run({"data", "build", "text.txt", "--out", "text.store", "--tokenizer", "byte"}).code, 0);
  const std::vector<std::string> sizes = {"--steps", "3",       "--layers", "1",         "--channels",
                                          "16",      "--heads", "2",        "--context", "16",
                                          "--batch", "4",       "--mix",    "3,1",       "--out"};
  const auto train = [&](const std::string& first, const std::string& second, const std::string& out) {
    std::vector<std::string> all = {"train", first, second};
    all.insert(all.end(), sizes.begin(), sizes.end());
    all.push_back(out);
    return run(all);
  };
  const Result mixed = train("text.store", "other.txt", "a");
  ASSERT_EQ(mixed.code, 0) << mixed.err;
  EXPECT_NE(mixed.out.find("75 % text.store: "), std::string::npos) << mixed.out;
  EXPECT_EQ(train("other.txt", "text.store", "b").code, 0);
  write_file(directory_ / "short.txt", "too short");
  const Result few = train("text.store", "short.txt", "c");
  EXPECT_EQ(few.err.find("tril: short.txt: the training text has "), 0u) << few.err;
  const Result alone = run({"train", "text.store", "other.txt"});
  EXPECT_NE(alone.err.find("--mix"), std::string::npos) << alone.err;
}

}  // namespace
}  // namespace tril::cli_testing
