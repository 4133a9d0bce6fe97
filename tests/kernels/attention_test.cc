// The ladder: reference against complex step, kernels against reference on every instruction set.
#include "tril/kernels/attention.h"

#include "tests/kernels/attention_case.h"
#include "tril/base/error.h"

namespace tril {
namespace {

using testing::AttentionCase;
using testing::expect_attention;
using testing::expect_reference_gradient;
using testing::self;

TEST(AttentionReference, GradientEqualsComplexStep) {
  expect_reference_gradient(AttentionCase(self(1, 1, 5, 3)));
  expect_reference_gradient(AttentionCase({2, 4, 2, 3, 6, 2}, {.query_offset = 3}));
  expect_reference_gradient(AttentionCase(self(1, 2, 4, 3), {.scale = 0.3f, .causal = false}));
  expect_reference_gradient(AttentionCase(self(1, 2, 6, 2), {.dropout = 0.4f, .dropout_key = 77}));
  AttentionCase documents(self(1, 1, 6, 2));
  documents.set_documents({7, 7, 7, 9, 9, 3});
  expect_reference_gradient(documents);
}

// Every length to beyond a tile, head sizes below, at and between the widths of vectors.
TEST(Attention, EveryLengthAndHeadSize) {
  for (const int64_t D : {1, 3, 8, 16, 17, 32, 48, 64, 80, 128}) {
    for (int64_t T = 1; T <= 70; T += D == 8 || D == 17 ? 1 : 1 + (T + D) % 7) {
      expect_attention(AttentionCase(self(1, 1, T, D)));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Those that registers hold, in chunks of eight with the last one fewer, and their neighbours that they do
// not.
TEST(Attention, ShortHeads) {
  for (const int64_t D : {4, 8, 16}) {
    for (const int64_t T : {1, 2, 3, 7, 8, 9, 15, 16, 17}) {
      const AttentionCase c({5, 3, 3, T, T, D});
      expect_attention(c);
      if (::testing::Test::HasFatalFailure()) return;
      if (T == 1) continue;  // all weights are 1
      const testing::AttentionResult first = c.run();
      ThreadPool pool(3);
      testing::expect_same_result(c.run(pool), first);
    }
  }
  expect_attention(AttentionCase({2, 4, 2, 16, 16, 4}));
  expect_attention(AttentionCase(self(2, 2, 16, 4), {.scale = -0.7f}));
  expect_attention(AttentionCase(self(2, 2, 16, 4), {.window = 5}));
}

TEST(Attention, LongerOddLengths) {
  expect_attention(AttentionCase(self(1, 1, 129, 64)));
  expect_attention(AttentionCase(self(2, 2, 191, 33)));
  expect_attention(AttentionCase(self(1, 1, 333, 16)));
  expect_attention(AttentionCase(self(1, 1, 90, 256)));
}

TEST(Attention, WithoutCausality) {
  for (const int64_t T : {1, 7, 63, 64, 65, 130})
    expect_attention(AttentionCase(self(2, 1, T, 24), {.causal = false}));
  expect_attention(AttentionCase({1, 2, 1, 37, 150, 20}, {.causal = false}));
  expect_attention(AttentionCase({1, 2, 1, 150, 37, 20}, {.causal = false}));
}

// Queries that are a part of the keys, the last of them or before them; some see no key at all.
TEST(Attention, QueryOffset) {
  for (const int64_t offset : {-70, -5, 0, 1, 15, 16, 17, 63, 64, 90, 200}) {
    expect_attention(AttentionCase({1, 2, 2, 75, 140, 20}, {.query_offset = offset}));
  }
  for (const int64_t queries : {1, 2, 3, 17}) {
    expect_attention(AttentionCase({2, 2, 1, queries, 133, 32}, {.query_offset = 133 - queries}));
  }
}

TEST(Attention, GroupsOfQueryHeads) {
  for (const int64_t kv_heads : {1, 2, 3, 6}) expect_attention(AttentionCase({2, 6, kv_heads, 71, 71, 16}));
}

// Enough heads that a chunk of forward holds several tiles of queries, of one head or of a group.
TEST(Attention, ChunksOfSeveralTiles) {
  expect_attention(AttentionCase({4, 8, 8, 150, 150, 3}));
  expect_attention(AttentionCase({4, 16, 8, 100, 100, 3}, {.dropout = 0.2f, .dropout_key = 9}));
  AttentionCase documents({16, 6, 2, 190, 190, 3});
  std::vector<int32_t> ids(16 * 190);
  for (int32_t t = 0; t < 16 * 190; ++t) ids[t] = t / 70;
  documents.set_documents(ids);
  expect_attention(documents);
}

// Enough short heads that a chunk has several of them, the last one fewer.
TEST(Attention, ChunksOfSeveralHeads) {
  for (const int64_t T : {20, 100}) {
    const AttentionCase c({25, 8, 8, T, T, 5}, {.dropout = 0.1f, .dropout_key = 2});
    expect_attention(c);
    const testing::AttentionResult first = c.run();
    for (int threads = 2; threads <= 3; ++threads) {
      ThreadPool pool(threads);
      testing::expect_same_result(c.run(pool), first);
    }
  }
}

// With one query of 1 and keys of head size 1 the scores are the keys: weights * l is the exponential itself.
TEST(Attention, ExponentialIsAccurate) {
  constexpr int64_t Tk = 4000;
  AttentionCase c({1, 1, 1, 1, Tk, 1}, {.scale = 1, .causal = false});
  c.query = {1};
  for (int64_t j = 0; j < Tk; ++j) c.key[j] = 2.5f - 0.0221f * static_cast<float>(j);
  const testing::Rows query = c.query_rows(c.query), key = c.key_rows(c.key);
  testing::for_each_target([&] {
    const testing::AttentionResult r = c.run();
    ASSERT_EQ(r.running_max[0], 2.5f);
    std::vector<float> weights(Tk);
    attention_weights(c.shape, c.options, query.const_view(), key.const_view(), r.running_max.data(),
                      r.running_sum.data(), 0, 0, weights.data());
    for (int64_t j = 0; j < Tk; ++j) {
      const float x = c.key[j] - 2.5f;
      const double actual = static_cast<double>(weights[j]) * r.running_sum[0],
                   expected = std::exp(double{x});
      // Three roundings: the exponential, 1 / l and their product. The result of the last is subnormal below
      // -84, and 0 where the machine makes such numbers 0; the exponential itself is 0 below -87.34.
      if (x > -83) {
        ASSERT_NEAR(actual, expected, 2.2e-7 * expected) << x;
      }
      if (x < -87.35f) {
        ASSERT_EQ(weights[j], 0.0f) << x;
      }
    }
  });
}

TEST(Attention, ScaleOverride) {
  expect_attention(AttentionCase(self(1, 2, 67, 32), {.scale = 0.05f}));
  expect_attention(AttentionCase(self(1, 2, 67, 32), {.scale = -0.2f}));
}

TEST(Attention, Documents) {
  AttentionCase c({2, 2, 1, 150, 150, 20});
  std::vector<int32_t> ids(300);
  for (int32_t t = 0; t < 300; ++t) ids[t] = t < 40 ? 5 : t < 45 ? -1 : t < 180 ? 2 : t * 7 % 3;
  c.set_documents(ids);
  expect_attention(c);
  c.options.causal = false;
  expect_attention(c);
}

TEST(Attention, DocumentsOfSomeQueries) {
  AttentionCase c({1, 1, 1, 70, 150, 20}, {.query_offset = 60});
  std::vector<int32_t> ids(150);
  for (int32_t t = 0; t < 150; ++t) ids[t] = t / 33;
  c.set_documents(ids);
  expect_attention(c);
}

TEST(Attention, Dropout) {
  expect_attention(AttentionCase(
      {2, 4, 2, 90, 90, 32}, {.dropout = 0.25f, .dropout_key = 0x123456789ABCDEF, .dropout_substream = 5}));
  expect_attention(
      AttentionCase({1, 1, 1, 33, 75, 8}, {.query_offset = 42, .dropout = 0.9f, .dropout_key = 1}));
}

// Scores of +-1e4, where a log-sum-exp in one float would lose the sum. Keys come in pairs so close that
// their scores differ by about 1: the rows keep two weights, and the gradients of the scores do not vanish.
TEST(Attention, HugeScores) {
  for (const double size : {30.0, 300.0, 3000.0}) {
    AttentionCase c(self(1, 2, 100, 16), {}, size);
    for (size_t i = 32; i < c.key.size(); ++i) {
      if (i / 32 % 2 == 1) c.key[i] = c.key[i - 32] + c.key[i] / static_cast<float>(size);
    }
    SCOPED_TRACE(size);
    expect_attention(c, 0.25);
  }
}

TEST(Attention, PlainLayout) {
  AttentionCase c({2, 3, 3, 80, 80, 64});
  c.gap = 0;
  expect_attention(c);
}

// One buffer (B, T, 3, H, D), as a fused projection writes it.
TEST(Attention, FusedRows) {
  constexpr int64_t B = 2, T = 70, H = 2, D = 16, C = H * D;
  const AttentionCase c(self(B, H, T, D));
  std::vector<float> fused(B * T * 3 * C), out(B * T * C), m(B * H * T), l(B * H * T);
  for (int64_t t = 0; t < B * T; ++t) {
    std::copy_n(&c.query[t * C], C, &fused[t * 3 * C]);
    std::copy_n(&c.key[t * C], C, &fused[t * 3 * C + C]);
    std::copy_n(&c.value[t * C], C, &fused[t * 3 * C + 2 * C]);
  }
  const auto part = [&](int64_t i) { return ConstHeadView{&fused[i * C], T * 3 * C, 3 * C, D}; };
  std::vector<float> workspace(static_cast<size_t>(attention_workspace(c.shape, 1)));
  SerialExecutor serial;
  attention_forward(serial, c.shape, c.options, part(0), part(1), part(2), {out.data(), T * C, C, D},
                    m.data(), l.data(), workspace.data());
  const testing::AttentionResult separate = c.run();
  testing::expect_same_bits("out", out, separate.out);
}

TEST(Attention, WeightsOfOneHead) {
  AttentionCase c({2, 4, 2, 70, 140, 20}, {.query_offset = 70});
  std::vector<int32_t> ids(280);
  for (int32_t t = 0; t < 280; ++t) ids[t] = t / 50;
  c.set_documents(ids);
  const testing::AttentionResult r = c.run();
  std::vector<float> weights(70 * 140, testing::kNan);
  attention_weights(c.shape, c.options, c.query_rows(c.query).const_view(), c.key_rows(c.key).const_view(),
                    r.running_max.data(), r.running_sum.data(), 1, 3, weights.data());
  const auto q = testing::convert<double>(c.query), k = testing::convert<double>(c.key);
  for (int64_t i = 0; i < 70; ++i) {
    const auto row = reference::attention_row(c.shape, c.options, &q[((70 + i) * 4 + 3) * 20],
                                              &k[(140 * 2 + 1) * 20], 1, 3, i);
    for (int64_t j = 0; j < 140; ++j) {
      const double expected = row.weights[j];
      if (expected == 0) {
        ASSERT_EQ(weights[i * 140 + j], 0.0f);
      } else {
        ASSERT_NEAR(weights[i * 140 + j], expected, 3e-6 * expected) << i << ", " << j;
      }
    }
  }
}

}  // namespace
}  // namespace tril
