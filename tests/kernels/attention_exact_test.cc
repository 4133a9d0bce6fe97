// What holds bit for bit: causality, documents, threads, repetition, dropout's mask; and what is refused.
#include <cmath>

#include "tests/kernels/attention_case.h"
#include "tests/support/expect_error.h"

namespace tril {
namespace {

using testing::AttentionCase;
using testing::AttentionResult;
using testing::expect_all_zero;
using testing::expect_same_bits;
using testing::expect_same_result;
using testing::for_each_target;
using testing::kNan;
using testing::steps;

void replace(std::vector<float>& x, int64_t time, int64_t t, float value) {
  const int64_t step = static_cast<int64_t>(x.size()) / time;
  std::fill_n(x.begin() + t * step, step, value);
}

constexpr float kPoisons[] = {-3.5f, kNan, std::numeric_limits<float>::infinity()};

// Step u of q, k and v becomes something else, NaN or infinity: no bit of what came before changes. With the
// loss taken before u, no bit of the gradients before u changes either, and those from u on are zero.
TEST(AttentionExact, TheFutureDoesNotLeak) {
  for (const int64_t T : {7, 64, 133}) {
    AttentionCase c({1, 2, 1, T, T, 20});
    for_each_target([&] {
      for (int64_t u = 2; u < T; u += T < 10 ? 1 : 13) {
        AttentionCase before = c;
        for (int64_t t = u; t < T; ++t) replace(before.dout, T, t, 0);
        const AttentionResult clean = before.run();
        expect_all_zero("dkey", steps(clean.dkey, T, u, T));
        expect_all_zero("dvalue", steps(clean.dvalue, T, u, T));
        expect_all_zero("dquery", steps(clean.dquery, T, u, T));
        for (const float poison : kPoisons) {
          SCOPED_TRACE(fmt::format("T {}, step {} replaced by {}", T, u, poison));
          AttentionCase changed = before;
          for (auto* x : {&changed.query, &changed.key, &changed.value}) replace(*x, T, u, poison);
          const AttentionResult r = changed.run();
          expect_same_bits("out", steps(clean.out, T, 0, u), steps(r.out, T, 0, u));
          if (!std::isfinite(poison)) continue;  // step u sees these keys: 0 * NaN is NaN there, rightly
          expect_same_bits("dvalue", steps(clean.dvalue, T, 0, u), steps(r.dvalue, T, 0, u));
          expect_same_bits("dquery", steps(clean.dquery, T, 0, u), steps(r.dquery, T, 0, u));
          expect_same_bits("dkey", steps(clean.dkey, T, 0, u), steps(r.dkey, T, 0, u));
        }
      }
    });
  }
}

// Two documents side by side: one may hold NaN, the other does not notice, forward or backward.
TEST(AttentionExact, DocumentsDoNotMix) {
  constexpr int64_t T = 100, kFirst = 37;
  for (const bool causal : {true, false}) {
    AttentionCase c({1, 2, 1, T, T, 20}, {.causal = causal});
    std::vector<int32_t> ids(T, 4);
    std::fill_n(ids.begin(), kFirst, 9);
    c.set_documents(ids);
    for_each_target([&] {
      const AttentionResult clean = c.run();
      for (const float poison : kPoisons) {
        for (const int64_t t : {int64_t{5}, kFirst - 1, kFirst, T - 1}) {
          SCOPED_TRACE(fmt::format("causal {}, step {} replaced by {}", causal, t, poison));
          AttentionCase changed = c;
          for (auto* x : {&changed.query, &changed.key, &changed.value, &changed.dout})
            replace(*x, T, t, poison);
          const AttentionResult r = changed.run();
          const int64_t first = t < kFirst ? kFirst : 0, last = t < kFirst ? T : kFirst;
          expect_same_bits("out", steps(clean.out, T, first, last), steps(r.out, T, first, last));
          expect_same_bits("dquery", steps(clean.dquery, T, first, last), steps(r.dquery, T, first, last));
          expect_same_bits("dkey", steps(clean.dkey, T, first, last), steps(r.dkey, T, first, last));
          expect_same_bits("dvalue", steps(clean.dvalue, T, first, last), steps(r.dvalue, T, first, last));
        }
      }
    });
  }
}

TEST(AttentionExact, SameBitsForAnyNumberOfThreadsAndRun) {
  for (const int64_t T : {5, 600}) {
    const AttentionCase c({2, 4, 2, T, T, 16}, {.dropout = 0.1f, .dropout_key = 3});
    for_each_target([&] {
      const AttentionResult first = c.run();
      expect_same_result(first, c.run());
      for (int threads = 1; threads <= 4; ++threads) {
        ThreadPool pool(threads);
        SCOPED_TRACE(threads);
        expect_same_result(first, c.run(pool));
      }
    });
  }
}

TEST(AttentionExact, PiecesOfQueriesEqualTheWhole) {
  testing::expect_pieces_equal_the_whole(AttentionCase({1, 2, 1, 150, 150, 24}));
}

// Grouped heads equal the same keys repeated for each query head.
TEST(AttentionExact, GroupedHeadsEqualRepeatedHeads) {
  constexpr int64_t B = 2, T = 70, H = 6, K = 2, D = 16;
  const AttentionCase grouped({B, H, K, T, T, D});
  AttentionCase repeated({B, H, H, T, T, D});
  for (int64_t bt = 0; bt < B * T; ++bt) {
    for (int64_t h = 0; h < H; ++h) {
      const int64_t from = (bt * K + h / (H / K)) * D, to = (bt * H + h) * D;
      std::copy_n(&grouped.key[from], D, &repeated.key[to]);
      std::copy_n(&grouped.value[from], D, &repeated.value[to]);
    }
  }
  const AttentionResult a = grouped.run(), b = repeated.run();
  expect_same_bits("out", a.out, b.out);
  expect_same_bits("dquery", a.dquery, b.dquery);
  for (int64_t at = 0; at < B * T * K * D; ++at) {
    const int64_t first = (at / (K * D) * H + at / D % K * (H / K)) * D + at % D;
    double dk = 0, dv = 0;
    for (int64_t g = 0; g < H / K; ++g) dk += b.dkey[first + g * D], dv += b.dvalue[first + g * D];
    ASSERT_NEAR(a.dkey[at], dk, 1e-5) << at;
    ASSERT_NEAR(a.dvalue[at], dv, 1e-5) << at;
  }
}

TEST(AttentionExact, AQueryThatSeesNothingGivesZeros) {
  AttentionCase c({1, 2, 2, 40, 40, 12}, {.query_offset = -20});
  for (auto* x : {&c.key, &c.value}) {
    for (int64_t t = 20; t < 40; ++t) replace(*x, 40, t, kNan);  // keys that nobody sees
  }
  for_each_target([&] {
    const AttentionResult r = c.run();
    expect_all_zero("out", steps(r.out, 40, 0, 20));
    expect_all_zero("dquery", steps(r.dquery, 40, 0, 20));
    expect_all_zero("dkey of unseen keys", steps(r.dkey, 40, 20, 40));
    expect_all_zero("dvalue of unseen keys", steps(r.dvalue, 40, 20, 40));
    for (int64_t h = 0; h < 2; ++h) {
      expect_all_zero("running_max", std::span(r.running_max).subspan(h * 40, 20));
      expect_all_zero("running_sum", std::span(r.running_sum).subspan(h * 40, 20));
    }
    for (const auto* x : {&r.out, &r.dquery, &r.dkey, &r.dvalue}) {
      ASSERT_TRUE(std::all_of(x->begin(), x->end(), [](float y) { return std::isfinite(y); }));
    }
  });
}

// With one-hot values the output is the dropped weights themselves, so the whole mask can be read off.
TEST(AttentionExact, DropoutIsThePhiloxWord) {
  constexpr int64_t T = 77, B = 2, H = 3;
  AttentionCase c(
      {B, H, H, T, T, T},
      {.causal = false, .dropout = 0.3f, .dropout_key = 0xABCDEF0123456789, .dropout_substream = 12});
  std::fill(c.value.begin(), c.value.end(), 0.0f);
  for (int64_t bt = 0; bt < B * T; ++bt)
    for (int64_t h = 0; h < H; ++h) c.value[(bt * H + h) * T + bt % T] = 1;
  for_each_target([&] {
    const AttentionResult r = c.run();
    int64_t kept = 0;
    for (int64_t b = 0; b < B; ++b)
      for (int64_t i = 0; i < T; ++i)
        for (int64_t h = 0; h < H; ++h)
          for (int64_t j = 0; j < T; ++j) {
            const bool keeps = r.out[((b * T + i) * H + h) * T + j] != 0;
            kept += keeps;
            ASSERT_EQ(keeps, reference::attention_keeps(c.shape, c.options, b, h, i, j))
                << b << ' ' << h << ' ' << i << ' ' << j;
          }
    EXPECT_NEAR(static_cast<double>(kept) / (B * H * T * T), 0.7, 0.01);  // 4 standard deviations
  });
}

TEST(AttentionExact, WorkspaceGrowsWithTimeNotItsSquare) {
  const auto floats = [](int64_t T, int threads) {
    return attention_workspace({8, 16, 4, T, T, 64}, threads);
  };
  // 4 arrays of keys and 5 of queries, rows of 64 floats 80 apart; 3 statistics a query; tiles beside them.
  for (const int64_t T : {1, 64, 1000, 100000}) {
    const int64_t rows = round_up(T, 64);
    EXPECT_LE(floats(T, 1), (9 * 80 + 3 + 1) * rows + 130000) << T;
  }
  EXPECT_EQ(floats(1000, 3), 3 * floats(1000, 1));
}

// A dry run touches no memory: all pointers may be null.
TEST(AttentionExact, DryRunTouchesNothing) {
  DryExecutor dry(2);
  const AttentionShape s{1, 1, 1, 4, 4, 8};
  attention_forward(dry, s, {}, {}, ConstHeadView(), ConstHeadView(), {}, nullptr, nullptr, nullptr);
  attention_backward(dry, s, {}, {}, {}, {}, {}, nullptr, nullptr, {}, {}, {}, {}, nullptr);
}

void expect_refused(const AttentionShape& shape, const AttentionOptions& options, std::string_view part) {
  testing::expect_error(ErrorKind::kUse, {part}, [&] { check_attention(shape, options); });
}

TEST(AttentionCheck, SaysWhatIsWrong) {
  const AttentionShape good{2, 6, 3, 10, 12, 16};
  check_attention(good, {});
  check_attention(good, {.query_offset = -100});
  for (int64_t AttentionShape::*field :
       {&AttentionShape::batch, &AttentionShape::query_heads, &AttentionShape::kv_heads,
        &AttentionShape::query_length, &AttentionShape::key_length, &AttentionShape::head_size}) {
    AttentionShape s = good;
    s.*field = 0;
    expect_refused(s, {}, "every size must be positive");
    s.*field = -3;
    expect_refused(s, {}, " = -3");
  }
  expect_refused({2, 6, 4, 10, 12, 16}, {}, "query_heads = 6 is not a multiple of kv_heads = 4");
  expect_refused({int64_t{1} << 40, 1, 1, 10, 12, 16}, {}, "batch * query_heads");
  expect_refused({1, int64_t{1} << 62, 1, 10, 12, 16}, {}, "batch * query_heads");
  expect_refused({1 << 30, 1, 1, 1 << 30, 1 << 30, 1 << 15}, {}, "overflow");
  expect_refused({1, 1, 1, int64_t{1} << 31, 12, 16}, {}, "query_length = 2147483648");
  expect_refused({1, 1, 1, 10, 12, 1 << 20}, {}, "head_size = 1048576");
  expect_refused(good, {.scale = kNan}, "scale = nan");
  expect_refused(good, {.scale = std::numeric_limits<float>::infinity()}, "scale = inf");
  for (const float dropout : {-0.1f, 1.0f, kNan})
    expect_refused(good, {.dropout = dropout}, "is outside [0, 1)");
  expect_refused(good, {.query_offset = int64_t{1} << 40}, "query_offset");
  const std::vector<int32_t> documents(24);
  check_attention(good, {.query_offset = 2, .documents = documents.data()});
  expect_refused(good, {.query_offset = 3, .documents = documents.data()}, "query_offset = 3");
  expect_refused(good, {.query_offset = -1, .documents = documents.data()}, "query_offset = -1");
}

}  // namespace
}  // namespace tril
