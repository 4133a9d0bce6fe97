// A run that is killed hundreds of times, at random moments and often in the middle of a save, loses no save
// and ends as one that never stopped.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/support/compare.h"
#include "tests/train/small_run.h"

namespace tril {
namespace {

using testing::run_state;
using testing::small_config;

class Killed : public ::testing::Test {
 protected:
  Killed() {
    void* const page = ::mmap(nullptr, sizeof(std::atomic<int64_t>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    saved_ = new (page) std::atomic<int64_t>(0);
    o_.steps = 30;
    o_.save_every = 3;
    o_.eval_every = 4;
    o_.keep = 1;
  }
  ~Killed() override { ::munmap(saved_, sizeof *saved_); }

  // To the last step, from the newest save; tells the parent when a save is done.
  void train(Trainer& trainer, const Path& run) {
    if (const auto found = find_checkpoint(run)) trainer.resume(*found);
    while (trainer.steps_done() < o_.steps) {
      const int64_t step = trainer.step().step;
      if (step % o_.eval_every == 0) trainer.evaluate();
      if (step % o_.save_every != 0 && !trainer.best_is_unsaved()) continue;
      trainer.save(run, "{}");
      *saved_ = step;
    }
  }

  // True if the child reached the last step before it was killed; 0: it is not killed.
  bool train_and_kill(const Path& run, int64_t microseconds) {
    const pid_t child = ::fork();
    if (child == 0) {
      int code = 1;
      try {
        SerialExecutor executor;
        Trainer trainer(small_config(o_), o_, corpus_, executor);
        train(trainer, run);
        code = 0;
      } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
      }
      ::_exit(code);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    if (microseconds > 0) ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFEXITED(status);
  }

  // Weights, moments and what the run remembers.
  std::pair<std::vector<float>, std::string> end_of(const Path& run) {
    SerialExecutor executor;
    Trainer trainer(small_config(o_), o_, corpus_, executor);
    trainer.resume(find_checkpoint(run).value());
    EXPECT_EQ(trainer.steps_done(), o_.steps);
    return {run_state(trainer), read_text_file(checkpoint_folder(run, o_.steps) / "state.json")};
  }

  TrainOptions o_ = testing::small_options();
  Corpus corpus_ = testing::small_corpus();
  std::atomic<int64_t>* saved_;
};

TEST_F(Killed, AtAnyMomentLosesNoSave) {
  const testing::TemporaryFolder straight;
  const auto start = std::chrono::steady_clock::now();
  const auto since_start = [&] { return std::chrono::steady_clock::now() - start; };
  {
    SerialExecutor executor;
    Trainer trainer(small_config(o_), o_, corpus_, executor);
    train(trainer, straight.path());
  }
  const auto whole = end_of(straight.path());
  const auto usual = std::chrono::duration_cast<std::chrono::microseconds>(since_start()).count();

  const RandomStream random(11, "moments");
  int64_t kills = 0, ends = 0, in_saves = 0;
  const auto enough = [&] {
    const bool some = kills >= 20 && in_saves > 0;
    return kills >= 300 || since_start() > std::chrono::seconds(some ? 10 : 120);
  };
  while (!enough()) {
    const testing::TemporaryFolder run;
    *saved_ = 0;
    bool ended = false;
    while (!ended) {
      // Most of the time a run is in the middle of something; now and then one comes to its end.
      const auto most = static_cast<uint64_t>(usual / 2 + 1);
      const uint64_t moment = enough() ? 0 : 1 + random.below(static_cast<uint64_t>(kills++), most);
      ended = train_and_kill(run.path(), static_cast<int64_t>(moment));
      for (const auto& entry : std::filesystem::recursive_directory_iterator(run.path()))
        in_saves += entry.path().extension() == ".tmp";
      const auto found = find_checkpoint(run.path());
      if (*saved_ > 0) {
        ASSERT_TRUE(found);
        EXPECT_GE(read_checkpoint_state(*found).step, *saved_);
      }
      if (found) *saved_ = read_checkpoint_state(*found).step;
    }
    const auto end = end_of(run.path());
    testing::expect_same_bits("weights and moments", end.first, whole.first);
    EXPECT_EQ(end.second, whole.second);
    ++ends;
  }
  EXPECT_GE(kills, 20);
  RecordProperty("kills", static_cast<int>(kills));
  EXPECT_GT(ends, 0);
  EXPECT_GT(in_saves, 0) << "no kill hit a save";
}

}  // namespace
}  // namespace tril
