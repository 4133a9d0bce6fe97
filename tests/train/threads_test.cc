// Any number of threads == one, bit for bit, dropout and accumulation included.
#include "tests/support/compare.h"
#include "tests/train/whole_run.h"

namespace tril {
namespace {

using testing::dropout_options;
using testing::whole_run;
using testing::WholeRun;

TEST(Threads, AnyNumberGivesTheSameRun) {
  const WholeRun one = whole_run(dropout_options(), 1, 6);
  for (const int threads : {2, 3, 4}) {
    const WholeRun other = whole_run(dropout_options(), threads, 6);
    EXPECT_EQ(other.losses, one.losses) << threads;
    EXPECT_EQ(other.validation, one.validation) << threads;
    testing::expect_same_bits(fmt::format("{} threads", threads), other.state, one.state);
  }
}

TEST(Threads, TheSeedMatters) {
  TrainOptions o = dropout_options();
  const WholeRun one = whole_run(o, 1, 2);
  o.seed = 2;
  EXPECT_NE(whole_run(o, 1, 2).losses, one.losses);
}

}  // namespace
}  // namespace tril
