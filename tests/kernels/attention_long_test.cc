// Every length across several tiles, and one so long that errors would have time to grow.
#include "tests/kernels/attention_case.h"

namespace tril {
namespace {

using testing::AttentionCase;
using testing::AttentionExpectation;
using testing::AttentionResult;
using testing::self;

TEST(AttentionLong, EveryLengthTo300) {
  if (testing::kSanitized) GTEST_SKIP() << "touches no memory that shorter lengths do not";
  for (int64_t T = 71; T <= 300; ++T) {
    testing::expect_attention(AttentionCase(self(1, 1, T, 3)));
    if (HasFatalFailure()) return;
  }
}

// Rows of a (1, T, 1, D) array.
template <class Float>
std::vector<Float> picked(const std::vector<Float>& x, const std::vector<int64_t>& rows, int64_t D) {
  std::vector<Float> out;
  for (const int64_t row : rows) out.insert(out.end(), x.begin() + row * D, x.begin() + (row + 1) * D);
  return out;
}

// Some queries of a long case: their own outputs and gradients, and what they send to all keys and values,
// the other queries sending nothing (dout = 0). The reference takes each of them alone.
template <class Float>
struct Expected {
  std::vector<Float> out, dquery, dkey, dvalue;
  Expected(const AttentionCase& c, const std::vector<int64_t>& queries) {
    const auto q = testing::convert<Float>(c.query), k = testing::convert<Float>(c.key),
               v = testing::convert<Float>(c.value), g = testing::convert<Float>(c.dout);
    const int64_t D = c.shape.head_size;
    dkey.resize(k.size()), dvalue.resize(k.size());
    for (const int64_t i : queries) {
      AttentionShape one = c.shape;
      one.query_length = 1;
      AttentionOptions at = c.options;
      at.query_offset = i;
      const auto row = picked(q, {i}, D), gradient = picked(g, {i}, D);
      const auto forward = reference::attention_forward(one, at, row, k, v);
      const auto backward = reference::attention_backward(one, at, row, k, v, gradient);
      out.insert(out.end(), forward.out.begin(), forward.out.end());
      dquery.insert(dquery.end(), backward.dquery.begin(), backward.dquery.end());
      for (size_t j = 0; j < k.size(); ++j) dkey[j] += backward.dkey[j], dvalue[j] += backward.dvalue[j];
    }
  }
};

TEST(AttentionLong, SixteenThousandTokens) {
  if (testing::kSanitized) GTEST_SKIP() << "touches no memory that shorter lengths do not";
  constexpr int64_t T = 16384, D = 24;
  std::vector<int64_t> queries;
  for (int64_t i = 0; i < T; i += 1 + i / 4) queries.push_back(i);
  queries.push_back(T - 1);
  for (const double size : {1.0, 3000.0}) {  // scores of a few units; scores of +-1e4
    SCOPED_TRACE(size);
    AttentionCase c(self(1, 1, T, D), {}, size);
    const std::vector<float> dout = c.dout;
    std::fill(c.dout.begin(), c.dout.end(), 0.0f);
    for (const int64_t i : queries) std::copy_n(dout.begin() + i * D, D, c.dout.begin() + i * D);
    const Expected<double> exact(c, queries);
    const Expected<float> naive(c, queries);
    ThreadPool pool(2);
    const AttentionResult r = c.run(pool);
    testing::expect_within_naive("out", picked(r.out, queries, D), exact.out, naive.out, 2);
    testing::expect_within_naive("dvalue", r.dvalue, exact.dvalue, naive.dvalue, 3);
    if (size > 1) continue;  // rows are one-hot, and what is left of ds is rounding: see attention_test.cc
    testing::expect_within_naive("dquery", picked(r.dquery, queries, D), exact.dquery, naive.dquery, 3, 1);
    testing::expect_within_naive("dkey", r.dkey, exact.dkey, naive.dkey, 3, 1);
  }
}

}  // namespace
}  // namespace tril
