// With its workspace sized once, attention allocates nothing, the first call included: every operator new of
// this program is counted. Through tril/attention.h, as a program with attention alone sees it.
#include "tests/support/compare.h"
#include "tests/support/count_allocations.h"
#include "tril/attention.h"

namespace tril {
namespace {

using testing::allocations;

// Forward and backward of one shape and its options, on buffers that exist before counting starts.
void expect_no_allocation(const char* what, const AttentionOptions& options) {
  constexpr int64_t kBatch = 2, kTime = 150, kHeads = 4, kKvHeads = 2, kSize = 24;
  const AttentionShape shape{.batch = kBatch,
                             .query_heads = kHeads,
                             .kv_heads = kKvHeads,
                             .query_length = kTime,
                             .key_length = kTime,
                             .head_size = kSize};
  const auto queries = static_cast<size_t>(kBatch * kTime * kHeads * kSize);
  const auto keys = static_cast<size_t>(kBatch * kTime * kKvHeads * kSize);
  const std::vector<float> q = testing::random_floats(1, queries), k = testing::random_floats(2, keys),
                           v = testing::random_floats(3, keys), dout = testing::random_floats(4, queries);
  std::vector<float> out(queries), dq(queries), dk(keys), dv(keys);
  std::vector<float> running_max(kBatch * kHeads * kTime), running_sum(running_max.size());
  std::vector<float> dsinks(kBatch * kHeads);
  const auto wide = []<class Float>(Float* data) {
    return HeadRows<Float>{data, kTime * kHeads * kSize, kHeads * kSize, kSize};
  };
  const auto narrow = []<class Float>(Float* data) {
    return HeadRows<Float>{data, kTime * kKvHeads * kSize, kKvHeads * kSize, kSize};
  };
  const float* const o = out.data();
  ThreadPool pool(2);
  std::vector<float> workspace(static_cast<size_t>(attention_workspace(shape, pool.threads())));

  const int64_t before = allocations;
  for (int step = 0; step < 2; ++step) {
    attention_forward(pool, shape, options, wide(q.data()), narrow(k.data()), narrow(v.data()),
                      wide(out.data()), running_max.data(), running_sum.data(), workspace.data());
    attention_backward(pool, shape, options, wide(q.data()), narrow(k.data()), narrow(v.data()), wide(o),
                       running_max.data(), running_sum.data(), wide(dout.data()), wide(dq.data()),
                       narrow(dk.data()), narrow(dv.data()), workspace.data(),
                       options.sinks != nullptr ? dsinks.data() : nullptr);
  }
  EXPECT_EQ(allocations - before, 0) << what;
  EXPECT_GT(before, 0);
  EXPECT_NE(out[0], 0) << what;
  EXPECT_NE(dq.back(), 0) << what;
}

TEST(AttentionAllocation, NoneOnceTheWorkspaceIsSized) {
  if (!TRIL_COUNT_ALLOCATIONS) GTEST_SKIP() << "a sanitizer has its own operator new";
  const std::vector<float> slopes = {0.5f, 0.25f, 0.125f, 0.0625f}, sinks = {0, 1, -1, 2};
  std::vector<int32_t> documents(2 * 150);
  for (size_t i = 0; i < documents.size(); ++i) documents[i] = static_cast<int32_t>(i % 150 / 60);
  expect_no_allocation("causal", {});
  expect_no_allocation("dropout", {.dropout = 0.1f, .dropout_key = 5});
  expect_no_allocation("all masks", {.window = 70,
                                     .documents = documents.data(),
                                     .softcap = 20,
                                     .alibi_slopes = slopes.data(),
                                     .sinks = sinks.data()});
}

}  // namespace
}  // namespace tril
