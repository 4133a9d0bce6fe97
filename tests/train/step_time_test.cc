#include "tril/train/step_time.h"

#include "tests/train/small_run.h"
#include "tril/train/defaults.h"
#include "tril/train/scaling.h"

namespace tril {
namespace {

struct Sizes {
  TrainOptions options = testing::small_options();
  double seconds(double gflops = 100) const {
    return expected_step_time(testing::small_config(options), options, gflops).total();
  }
};

TEST(StepTime, GrowsWithWhatIsComputed) {
  const Sizes small;
  Sizes other = small;
  other.options.layers *= 2;
  EXPECT_GT(other.seconds(), small.seconds());
  other = small;
  other.options.dropout = 0.1f;
  EXPECT_GT(other.seconds(), small.seconds());
  EXPECT_GT(small.seconds(50), small.seconds(100));
}

// A large step takes little more than its operations at the speed of a product.
TEST(StepTime, IsThatOfTheOperations) {
  const TrainOptions o = preset_options(find_preset("gpt2-b4t1024"), "");
  const TransformerConfig c = model_config(o, 50257).resolved();
  const double ratio = expected_step_time(c, o, 100).total() * 100e9 / c.training_flops(o.batch, o.context);
  EXPECT_GT(ratio, 1);
  EXPECT_LT(ratio, 1.5);
}

// The same step in more micro-batches takes longer, and longer with each level of checkpointing.
TEST(StepTime, LessMemoryTakesMoreTime) {
  const Sizes small;
  Sizes divided = small;
  divided.options.batch = 1;
  divided.options.accumulate = 4;
  EXPECT_GT(divided.seconds(), small.seconds());
  double before = small.seconds();
  for (const char* level : {"selective", "block"}) {
    Sizes recomputing = small;
    recomputing.options.checkpointing = level;
    EXPECT_GT(recomputing.seconds(), before) << level;
    before = recomputing.seconds();
  }
}

// 2 N C F for each hidden layer; block: and of all blocks but the last q|k|v, projection and attention.
TEST(StepTime, CountsWhatIsComputedAgain) {
  const TrainOptions o = testing::small_options();
  const TransformerConfig c = testing::small_config(o);
  const double rows = 4 * 16, hidden = 2 * rows * 24 * 96;
  EXPECT_EQ(c.recomputed_flops(4, 16, Checkpointing::kNone), 0);
  EXPECT_EQ(c.recomputed_flops(4, 16, Checkpointing::kSelective), 2 * hidden);
  const double attention = 4.0 * 4 * 24 * (16 * 17 / 2);
  EXPECT_EQ(c.recomputed_flops(4, 16, Checkpointing::kBlock), 2 * hidden + 2 * rows * 24 * 96 + attention);
}

TEST(Scaling, PublishedValues) {
  // Hoffmann et al. (2022): Chinchilla, 70 billion parameters and 1.4 trillion tokens.
  EXPECT_NEAR(hoffmann_loss(70e9, 1.4e12), 1.94, 0.01);
  // Muennighoff et al. (2023): up to four passes nearly as good as new text, at last 16.39 times the text.
  EXPECT_EQ(effective_tokens(1e6, 0.5), 0.5e6);
  EXPECT_GT(effective_tokens(1e6, 4), 3.7e6);
  EXPECT_LT(effective_tokens(1e6, 40), 15.5e6);
  EXPECT_LT(effective_tokens(1e6, 1e9), 16.4e6);
}

}  // namespace
}  // namespace tril
