// Instruction tuning: loss where the assistant speaks, and a model that stops by itself.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/temporary_directory.h"
#include "tests/text/chat_tokenizer.h"
#include "tests/train/small_run.h"
#include "tril/nn/session.h"

namespace tril {
namespace {

using testing::run_state;
using testing::run_steps;
using testing::small_options;

class ConversationsTest : public ::testing::Test {
 protected:
  Corpus corpus(int count) const {
    std::vector<SourceConversation> talks;
    for (int i = 0; i < count; ++i)
      talks.push_back({"x",
                       {{"user", "Number " + std::to_string(i)},
                        {"assistant", std::string(static_cast<size_t>(1 + i % 7), 'y')}}});
    return conversation_corpus(pack_conversations(talks, chat_, tokenizer_, 0.3, 48));
  }
  TrainOptions options() const {
    TrainOptions o = small_options();
    o.context = 48;
    o.accumulate = 2;
    o.sampling = "epochs";
    return o;
  }
  TransformerConfig config(const TrainOptions& o) const {
    return model_config(o, tokenizer_.vocabulary()).resolved();
  }

  Tokenizer tokenizer_ = testing::chat_tokenizer({"<|im_start|>", "<|im_end|>"});
  ChatTemplate chat_{"chatml", tokenizer_};
  SerialExecutor executor_;
};

TEST_F(ConversationsTest, TheLossIsTheMeanOverTheTokensOfAnswers) {
  const TrainOptions o = options();
  const Corpus data = corpus(60);
  Trainer trainer(config(o), o, data, executor_);
  // An answer is of y alone, as no question is, and the token that ends it.
  const std::vector<int32_t> y = tokenizer_.encode("y");
  ASSERT_EQ(y.size(), 1u);
  const int32_t stop = chat_.stop_ids()[0];
  PackedSampler sampler(*data.conversations->train_rows, o.batch, o.seed, Sampling::kEpochs);
  Session<Transformer> session(trainer.model(), executor_, o.batch, o.context, /*backward=*/false);
  double sum = 0;
  int64_t counted = 0;
  std::vector<int64_t> of_batch;
  for (int64_t i = 0; i < 2; ++i) {
    const Batch& batch = sampler.sample_at({i * o.batch});
    trainer.model().loss(session.context(), batch, session.state());
    for (int64_t n = 0; n < batch.rows(); ++n) {
      const bool learned = batch.targets[n] == y[0] || (batch.targets[n] == stop && batch.tokens[n] == y[0]);
      ASSERT_EQ(batch.loss_mask[n] != 0, learned) << n;
      if (!learned) continue;
      sum += session.state().losses.f32()[n];
      ++counted;
    }
    of_batch.push_back(counted);
  }
  ASSERT_NE(of_batch[1], 2 * of_batch[0]);  // so that it is not the mean of two means
  EXPECT_NEAR(trainer.step().loss, sum / static_cast<double>(counted), 1e-5);
}

TEST_F(ConversationsTest, ValidationCountsLearnedTokens) {
  TrainOptions o = options();
  o.eval_batches = 0;
  const Corpus data = corpus(60);
  Trainer trainer(config(o), o, data, executor_);
  const Evaluation evaluation = trainer.evaluate();
  EXPECT_EQ(evaluation.tokens, data.conversations->validation.learned_tokens);
  EXPECT_GT(evaluation.tokens, 0);
  const double bytes = static_cast<double>(data.conversations->validation.learned_bytes);
  EXPECT_NEAR(evaluation.bits_per_byte,
              evaluation.loss_nats * static_cast<double>(evaluation.tokens) / bytes / std::log(2.0), 1e-6);
}

TEST_F(ConversationsTest, AResumedRunIsTheRunThatNeverStopped) {
  testing::TemporaryDirectory directory;
  const TrainOptions o = options();
  const Corpus data = corpus(60);
  Trainer whole(config(o), o, data, executor_), first(config(o), o, data, executor_);
  const std::vector<double> losses = run_steps(whole, 14);
  run_steps(first, 5);
  first.save(directory / "run", "{}");
  Trainer second(config(o), o, data, executor_);
  second.resume(*find_checkpoint(directory / "run"));
  const std::vector<double> rest = run_steps(second, 9);
  EXPECT_EQ(rest, std::vector<double>(losses.begin() + 5, losses.end()));
  EXPECT_EQ(run_state(second), run_state(whole));
}

TEST_F(ConversationsTest, ThreadsDoNotMatter) {
  const TrainOptions o = options();
  const Corpus data = corpus(60);
  ThreadPool pool(3);
  Trainer one(config(o), o, data, executor_), three(config(o), o, data, pool);
  EXPECT_EQ(run_steps(one, 4), run_steps(three, 4));
  EXPECT_EQ(run_state(one), run_state(three));
}

}  // namespace
}  // namespace tril
