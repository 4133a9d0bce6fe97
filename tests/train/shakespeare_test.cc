// A short run on real text learns what such runs learn.
#include <cstdlib>

#include "tests/train/small_run.h"
#include "tril/train/defaults.h"

namespace tril {
namespace {

TEST(Shakespeare, TheCurveFalls) {
  const char* const data = std::getenv("TRIL_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "TRIL_TEST_DATA is not set";
  const std::vector<Document> documents = read_documents({Path(data) / "corpus/tinyshakespeare.txt"});
  const std::string_view text = documents[0].text;
  const Tokenizer tokenizer = Tokenizer::characters({&text, 1}, false);
  ASSERT_EQ(tokenizer.vocabulary(), 65);
  TrainOptions o = find_preset("shakespeare-char-cpu").options;
  o.layers = 2;
  o.channels = 64;
  o.context = 32;
  o.steps = 300;
  o.warmup = 20;
  o.learning_rate = 5e-3f;
  o.min_learning_rate = 5e-4f;
  o.eval_every = o.save_every = o.sample_every = 100;
  o.eval_batches = 20;
  const Corpus corpus = tokenize(documents, tokenizer, 0.1, o.context);
  ThreadPool pool(2);
  Trainer trainer(model_config(o, tokenizer.vocabulary()).resolved(), o, corpus, pool);
  const double start = trainer.evaluate().loss_nats;
  EXPECT_NEAR(start, 4.17, 0.1);
  testing::run_steps(trainer, 100);
  EXPECT_LT(trainer.evaluate().loss_nats, 2.65);
  testing::run_steps(trainer, 200);
  const Evaluation end = trainer.evaluate();
  EXPECT_LT(end.loss_nats, 2.45);
  EXPECT_NEAR(end.bits_per_byte, end.loss_nats / std::log(2.0), 1e-6);  // one byte a character
}

}  // namespace
}  // namespace tril
