#include "tril/train/checkpoint.h"

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <fstream>

#include "tests/support/compare.h"
#include "tests/train/small_run.h"

namespace tril {
namespace {

using testing::error_of;
using testing::expect_contains;
using testing::run_state;
using testing::TemporaryFolder;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() : trainer_(make()) {}

  std::unique_ptr<Trainer> make() {
    const TrainOptions o = testing::small_options();
    return std::make_unique<Trainer>(testing::small_config(o), o, corpus_, executor_);
  }
  void save(int64_t steps) {
    while (trainer_->steps_done() < steps) trainer_->step();
    trainer_->save(run(), "{\"layers\":2}");
  }
  const Path& run() const { return folder_.path(); }
  Path step_folder(int64_t step) const { return run() / "steps" / fmt::format("{:08}", step); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(run() / "steps"))
      out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  static void flip_byte(const Path& path, int64_t from_end) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-from_end, std::ios::end);
    const char c = static_cast<char>(file.get() ^ 0x20);
    file.seekp(-from_end, std::ios::end);
    file.put(c);
  }

  TemporaryFolder folder_;
  SerialExecutor executor_;
  Corpus corpus_ = testing::small_corpus();
  std::unique_ptr<Trainer> trainer_;
};

TEST_F(CheckpointTest, BringsEverythingBack) {
  save(3);
  const auto found = find_checkpoint(run());
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, step_folder(3));
  const CheckpointState state = read_checkpoint_state(*found);
  EXPECT_EQ(state.step, 3);
  EXPECT_EQ(state.options_json, "{\"layers\":2}");
  EXPECT_TRUE(std::isinf(state.watch.best_validation_loss));
  const auto other = make();
  other->step();
  load_checkpoint(*found, other->parameters(), other->optimizer());
  testing::expect_same_bits("weights and moments", run_state(*other), run_state(*trainer_));
}

TEST_F(CheckpointTest, KeepsTheNewest) {
  for (const int64_t step : {1, 2, 3}) save(step);
  EXPECT_EQ(names(), (std::vector<std::string>{"00000002", "00000003"}));
}

TEST_F(CheckpointTest, KeepsTheBestBesideTheNewest) {
  const auto save_validated = [&](int64_t step, float factor) {
    while (trainer_->steps_done() < step) trainer_->step();
    // A last norm that is scaled makes the validation worse.
    float* const scale = trainer_->parameters().find("ln_final.weight").value.f32();
    scale[0] *= factor;
    trainer_->evaluate();
    const bool best = trainer_->best_is_unsaved();
    trainer_->save(run(), "{}");
    EXPECT_FALSE(trainer_->best_is_unsaved());
    scale[0] /= factor;
    return best;
  };
  EXPECT_TRUE(save_validated(1, 8));
  EXPECT_FALSE(save_validated(2, 64));
  EXPECT_FALSE(save_validated(3, 64));
  save(4);
  EXPECT_EQ(names(), (std::vector<std::string>{"00000001", "00000003", "00000004"}));
  const CheckpointState state = read_checkpoint_state(step_folder(4));
  EXPECT_EQ(state.best_save_step, 1);
  EXPECT_EQ(state.watch.validations_since_best, 2);

  trainer_ = make();  // another process
  trainer_->resume(step_folder(4));
  EXPECT_FALSE(save_validated(5, 64));
  EXPECT_EQ(names(), (std::vector<std::string>{"00000001", "00000004", "00000005"}));
  EXPECT_TRUE(save_validated(30, 1));
  EXPECT_EQ(names(), (std::vector<std::string>{"00000005", "00000030"}));
}

TEST_F(CheckpointTest, WeightsAlone) {
  save(2);
  Transformer model(testing::small_config(testing::small_options()));
  Parameters parameters(model, Parameters::Memory::kValues);
  load_checkpoint_model(step_folder(2), parameters);
  for (size_t i = 0; i < parameters.items().size(); ++i) {
    const View& loaded = parameters.items()[i].weight->value;
    const View& saved = trainer_->parameters().items()[i].weight->value;
    EXPECT_TRUE(std::equal(loaded.f32(), loaded.f32() + loaded.elements(), saved.f32()));
  }
}

// Older ones hold the best validation loss alone.
TEST_F(CheckpointTest, StateOfAnOlderTril) {
  save(2);
  std::ofstream(step_folder(2) / "state.json")
      << "{\"step\": 2, \"best_validation_loss\": 1.5, \"options\": {\"layers\": 2}}";
  const CheckpointState state = read_checkpoint_state(step_folder(2));
  EXPECT_EQ(state.step, 2);
  EXPECT_EQ(state.watch.best_validation_loss, 1.5);
  EXPECT_EQ(state.best_save_step, -1);
  EXPECT_EQ(state.watch.averaged_steps, 0);
  EXPECT_TRUE(std::isinf(state.watch.first_loss));
}

// Permissions say nothing to root; a file in the place of the folder does.
TEST_F(CheckpointTest, AFolderThatCannotBeWrittenIsNoEnd) {
  std::ofstream(run() / "steps") << "in the way";
  trainer_->step();
  expect_contains(error_of(ErrorKind::kData, [&] { trainer_->save(run(), "{}"); }), "steps");
  std::filesystem::remove(run() / "steps");
  save(2);
  EXPECT_EQ(find_checkpoint(run()), step_folder(2));
}

TEST_F(CheckpointTest, HasOnlyWeightsAndMomentsInIt) {
  save(1);
  uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(step_folder(1))) bytes += entry.file_size();
  EXPECT_LT(bytes, static_cast<uintmax_t>(trainer_->parameters().count() * 12 + 16384));
}

TEST_F(CheckpointTest, PassesOverDamageAndNamesIt) {
  const auto expect_passed_over = [&](const std::string& reason) {
    std::vector<std::string> passed_over;
    const auto found = find_checkpoint(run(), &passed_over);
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, step_folder(1));
    ASSERT_EQ(passed_over.size(), 1u);
    expect_contains(passed_over[0], step_folder(2).string());
    expect_contains(passed_over[0], reason);
    const auto other = make();
    const std::string message = error_of(
        ErrorKind::kData, [&] { load_checkpoint(step_folder(2), other->parameters(), other->optimizer()); });
    expect_contains(message, reason);
  };
  save(1);
  const auto again = [&] {
    remove_tree(step_folder(2));
    save(2);
  };
  again();
  flip_byte(step_folder(2) / "weights.safetensors", 100);
  expect_passed_over("weights.safetensors does not have the checksum");
  again();
  flip_byte(step_folder(2) / "optimizer.safetensors", 5);
  expect_passed_over("optimizer.safetensors does not have the checksum");
  again();
  std::filesystem::resize_file(step_folder(2) / "optimizer.safetensors", 1000);
  expect_passed_over("optimizer.safetensors has 1000 bytes");
  again();
  std::filesystem::remove(step_folder(2) / "optimizer.safetensors");
  expect_passed_over("optimizer.safetensors is missing");
  again();
  std::filesystem::remove(step_folder(2) / "manifest.json");
  expect_passed_over("manifest.json is missing");
  again();
  std::filesystem::resize_file(step_folder(2) / "manifest.json", 20);
  expect_passed_over("manifest.json is damaged");
  again();
  std::ofstream(step_folder(2) / "manifest.json") << "{\"format\": 7, \"files\": {}}";
  expect_passed_over("format");
  again();
  std::ofstream(step_folder(2) / "manifest.json") << "{\"format\": \"tril checkpoint 1\", \"files\": {}}";
  expect_passed_over("does not name");
}

TEST_F(CheckpointTest, WhatACrashLeavesBehindIsIgnoredAndCleared) {
  save(1);
  const Path left = Path(step_folder(2)) += ".tmp";
  std::filesystem::copy(step_folder(1), left);
  std::filesystem::remove(left / "manifest.json");
  EXPECT_EQ(find_checkpoint(run()), step_folder(1));
  save(3);
  EXPECT_EQ(names(), (std::vector<std::string>{"00000001", "00000003"}));
}

TEST_F(CheckpointTest, ACrashBetweenTheTwoRenamesOfTheSameStepLosesNothing) {
  save(1);
  const Path replaced = Path(step_folder(1)) += ".old";
  std::filesystem::rename(step_folder(1), replaced);
  EXPECT_EQ(find_checkpoint(run()), replaced);
  const auto other = make();
  other->resume(replaced);
  EXPECT_EQ(other->steps_done(), 1);
  save(2);
  EXPECT_EQ(names(), (std::vector<std::string>{"00000002"}));
}

TEST_F(CheckpointTest, TheSameStepAgainReplacesIt) {
  save(1);
  flip_byte(step_folder(1) / "weights.safetensors", 100);
  save(1);
  EXPECT_EQ(checkpoint_damage(step_folder(1)), "");
  EXPECT_EQ(names(), (std::vector<std::string>{"00000001"}));
}

TEST_F(CheckpointTest, AFullDiskLeavesTheOldOnes) {
  save(1);
  trainer_->step();
  struct rlimit old {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {40000, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = error_of(ErrorKind::kData, [&] { trainer_->save(run(), "{}"); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  expect_contains(message, "safetensors");
  EXPECT_EQ(names(), (std::vector<std::string>{"00000001"}));
  EXPECT_EQ(find_checkpoint(run()), step_folder(1));
}

TEST_F(CheckpointTest, AnotherModelIsRefusedByTensor) {
  save(1);
  TrainOptions o = testing::small_options();
  o.channels = 48;
  const auto other = std::make_unique<Trainer>(testing::small_config(o), o, corpus_, executor_);
  const std::string message = error_of(ErrorKind::kData, [&] { other->resume(step_folder(1)); });
  expect_contains(message, "token_embedding.weight");
  expect_contains(message, "weights.safetensors");
  o = testing::small_options();
  o.layers = 1;
  const auto fewer = std::make_unique<Trainer>(testing::small_config(o), o, corpus_, executor_);
  expect_contains(error_of(ErrorKind::kData, [&] { fewer->resume(step_folder(1)); }), "another model");
  EXPECT_EQ(fewer->steps_done(), 0);
}

TEST_F(CheckpointTest, NoRunHasNoCheckpoint) {
  EXPECT_FALSE(find_checkpoint(run()));
  EXPECT_FALSE(find_checkpoint(run() / "nowhere"));
}

}  // namespace
}  // namespace tril
