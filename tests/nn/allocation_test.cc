// A training step of the model allocates nothing: every operator new of this program is counted.
#include <gtest/gtest.h>

#include "tests/nn/model_fixture.h"
#include "tests/support/count_allocations.h"

namespace tril {
namespace {

using testing::allocations;
using testing::Model;
using testing::RandomBatch;

TEST(Transformer, StepAllocatesNothing) {
  if (!TRIL_COUNT_ALLOCATIONS) GTEST_SKIP() << "a sanitizer has its own operator new";
  TransformerConfig config{
      .vocabulary = 50, .context = 16, .channels = 32, .layers = 2, .heads = 2, .dropout = 0.1f};
  config.set_architecture("gpt");
  Model model(config);
  RandomBatch data(2, 16, 50);
  ThreadPool pool(2);
  Session session(model.transformer, pool, 2, 16);
  session.context().training = true;
  for (int warm = 0; warm < 3; ++warm) {
    model.transformer.forward_backward(session.context(), data.batch, session.state());
  }
  const int64_t before = allocations.load();
  model.transformer.forward_backward(session.context(), data.batch, session.state());
  EXPECT_EQ(allocations.load(), before);
}

}  // namespace
}  // namespace tril
