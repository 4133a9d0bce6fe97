// The ladder again for each variant alone, and for random combinations of all of them.
#include "tests/kernels/attention_case.h"
#include "tests/support/expect_error.h"

namespace tril {
namespace {

using testing::AttentionCase;
using testing::AttentionResult;
using testing::expect_all_zero;
using testing::expect_attention;
using testing::expect_error;
using testing::expect_reference_gradient;
using testing::expect_same_bits;
using testing::for_each_target;
using testing::self;

AttentionCase with_all(const AttentionShape& s) {
  AttentionCase c(s, {.window = 3, .softcap = 1.5f});
  c.set_prefix(std::vector<int32_t>(static_cast<size_t>(s.batch), 2));
  c.set_alibi_slopes(testing::random_floats(8, static_cast<size_t>(s.query_heads), 0.3));
  c.set_sinks(testing::random_floats(9, static_cast<size_t>(s.query_heads)));
  return c;
}

TEST(AttentionVariantsReference, GradientEqualsComplexStep) {
  expect_reference_gradient(AttentionCase(self(1, 1, 7, 3), {.window = 3}));
  expect_reference_gradient(AttentionCase(self(1, 2, 5, 3), {.softcap = 0.7f}));
  AttentionCase c = with_all({2, 4, 2, 4, 9, 2});
  c.options.query_offset = 5;
  expect_reference_gradient(c);
}

// The gradient of a sink by central differences of the reference: the sink is a parameter in float.
TEST(AttentionVariantsReference, GradientOfTheSink) {
  AttentionCase c = with_all(self(1, 2, 6, 3));
  const auto q = testing::convert<double>(c.query), k = testing::convert<double>(c.key),
             v = testing::convert<double>(c.value), g = testing::convert<double>(c.dout);
  const auto gradients = reference::attention_backward(c.shape, c.options, q, k, v, g);
  const auto loss = [&] {
    const auto out = reference::attention_forward(c.shape, c.options, q, k, v).out;
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += g[i] * out[i];
    return sum;
  };
  for (size_t h = 0; h < 2; ++h) {
    const float kept = c.sinks[h];
    constexpr float kStep = 1.0f / 1024;
    c.sinks[h] = kept + kStep;
    const double above = loss(), high = c.sinks[h];
    c.sinks[h] = kept - kStep;
    const double below = loss(), low = c.sinks[h];
    c.sinks[h] = kept;
    EXPECT_NEAR((above - below) / (high - low), gradients.dsinks[h],
                1e-5 * (1 + std::abs(gradients.dsinks[h])));
  }
}

TEST(AttentionVariants, Window) {
  for (const int64_t window : {1, 2, 15, 16, 17, 63, 64, 65, 100, 128, 500})
    expect_attention(AttentionCase(self(1, 2, 200, 20), {.window = window}));
  expect_attention(AttentionCase({1, 4, 2, 40, 190, 16}, {.query_offset = 150, .window = 70}));
  expect_attention(AttentionCase({1, 1, 1, 100, 50, 16}, {.query_offset = -30, .window = 20}));
  for (const int64_t T : {1, 2, 31, 64, 65}) expect_attention(AttentionCase(self(1, 1, T, 8), {.window = 5}));
}

TEST(AttentionVariants, Prefix) {
  for (const int32_t prefix : {0, 1, 16, 40, 64, 100, 150, 1000}) {
    AttentionCase c({2, 2, 1, 150, 150, 20});
    c.set_prefix({prefix, 33});
    expect_attention(c);
    c.options.window = 25;
    expect_attention(c);
  }
}

TEST(AttentionVariants, AlibiAndSoftcap) {
  for (const int64_t T : {1, 5, 64, 150}) {
    AttentionCase c(self(1, 3, T, 24));
    c.set_alibi_slopes({0.5f, 0.0625f, 0.0f});
    expect_attention(c);
    c.options.softcap = 2;
    expect_attention(c);
    c.options.causal = false;
    expect_attention(c);
    expect_attention(AttentionCase(self(1, 3, T, 24), {.softcap = 50}, 20));
  }
}

// With one key of 1, head size 1 and a cap of 1 the maximum of row i is tanh of query i.
TEST(AttentionVariants, TanhIsAccurate) {
  constexpr int64_t Tq = 8000;
  AttentionCase c({1, 1, 1, Tq, 1, 1}, {.scale = 1, .causal = false, .softcap = 1});
  c.key = {1};
  for (int64_t i = 0; i < Tq; ++i) c.query[i] = 0.0025017f * static_cast<float>(i - Tq / 2);
  for_each_target([&] {
    const std::vector<float> tanh = c.run().running_max;
    for (int64_t i = 0; i < Tq; ++i) {
      const double expected = std::tanh(double{c.query[i]});
      ASSERT_NEAR(tanh[i], expected, 2 * 0x1p-23 * std::abs(expected)) << c.query[i];
    }
  });
}

TEST(AttentionVariants, Sinks) {
  for (const float size : {1.0f, 10.0f}) {
    AttentionCase c({2, 4, 2, 90, 90, 16}, {.dropout = 0.2f, .dropout_key = 5});
    c.set_sinks({0.0f, size, -size, 0.5f});
    expect_attention(c);
  }
}

// A sink far below the scores is as if there were none.
TEST(AttentionVariants, ADeepSinkChangesNoBit) {
  const AttentionCase plain(self(1, 2, 70, 16));
  AttentionCase deep = plain;
  deep.set_sinks({-1e4f, -1e4f});
  for_each_target([&] {
    const AttentionResult a = plain.run(), b = deep.run();
    expect_same_bits("out", a.out, b.out);
    expect_same_bits("dquery", a.dquery, b.dquery);
    expect_all_zero("dsinks", b.dsinks);
  });
}

// No window is the same as one that is longer than anything, and minus infinity the same as no sink.
TEST(AttentionVariants, WhatHidesNothingChangesNoBit) {
  const AttentionCase plain({1, 2, 1, 50, 150, 16}, {.query_offset = 90});
  AttentionCase wide = plain, below = plain;
  wide.options.window = std::numeric_limits<int64_t>::max();
  below.set_sinks(std::vector<float>(2, -std::numeric_limits<float>::infinity()));
  for_each_target([&] {
    const AttentionResult expected = plain.run();
    for (const AttentionCase* c : {&wide, &below}) {
      SCOPED_TRACE(c->name());
      const AttentionResult r = c->run();
      expect_same_bits("out", r.out, expected.out);
      expect_same_bits("running_sum", r.running_sum, expected.running_sum);
      expect_same_bits("dkey", r.dkey, expected.dkey);
    }
    expect_all_zero("dsinks", below.run().dsinks);
  });
}

// Offsets at the ends of their range, with all that compares positions.
TEST(AttentionVariants, FarOffsets) {
  constexpr int64_t kFar = std::numeric_limits<int32_t>::max() - 64 - 200;
  for (const int64_t offset : {-kFar, kFar}) {
    AttentionCase c({1, 2, 2, 150, 200, 8}, {.query_offset = offset, .window = 5});
    c.set_prefix({130});
    expect_attention(c);
  }
}

TEST(AttentionVariants, PiecesOfQueriesEqualTheWhole) {
  AttentionCase c = with_all({1, 2, 1, 150, 150, 24});
  c.options.window = 70;
  testing::expect_pieces_equal_the_whole(c);
}

// Padding at either end: it may hold NaN, its rows are zero, and the others are as if it were not there.
TEST(AttentionVariants, PaddingIsNotThere) {
  constexpr int64_t T = 100;
  constexpr float kNan = testing::kNan;
  for (const bool left : {true, false}) {
    for (const int64_t padding : {1, 30, 64, 70, 99}) {
      const int64_t first = left ? padding : 0, last = left ? T : T - padding, used = last - first;
      AttentionCase c(self(1, 2, T, 12));
      std::vector<int32_t> ids(T, -1);
      std::fill(ids.begin() + first, ids.begin() + last, 0);
      c.set_documents(ids);
      c.set_sinks({0.5f, -1.0f});
      AttentionCase without(self(1, 2, used, 12));
      without.set_sinks({0.5f, -1.0f});
      const auto cut = [&](const std::vector<float>& x) {
        return std::vector<float>(x.begin() + first * 24, x.begin() + last * 24);
      };
      without.query = cut(c.query), without.key = cut(c.key), without.value = cut(c.value),
      without.dout = cut(c.dout);
      for (auto* x : {&c.query, &c.key, &c.value, &c.dout}) {
        for (int64_t t = 0; t < T; ++t)
          if (t < first || t >= last) std::fill_n(x->begin() + t * 24, 24, kNan);
      }
      const testing::AttentionExpectation expected(without);
      for_each_target([&] {
        SCOPED_TRACE(c.name());
        AttentionResult r = c.run();
        std::vector<float> padded;
        for (const auto* x : {&r.out, &r.dquery, &r.dkey, &r.dvalue}) {
          padded.insert(padded.end(), x->begin(), x->begin() + first * 24);
          padded.insert(padded.end(), x->begin() + last * 24, x->end());
        }
        expect_all_zero("padding", padded);
        AttentionResult inner = r;
        inner.out = cut(r.out), inner.dquery = cut(r.dquery), inner.dkey = cut(r.dkey),
        inner.dvalue = cut(r.dvalue);
        inner.running_max.clear(), inner.running_sum.clear();
        for (int64_t h = 0; h < 2; ++h) {
          const auto part = [&](const std::vector<float>& x) {
            return std::span(x).subspan(h * T + first, used);
          };
          inner.running_max.insert(inner.running_max.end(), part(r.running_max).begin(),
                                   part(r.running_max).end());
          inner.running_sum.insert(inner.running_sum.end(), part(r.running_sum).begin(),
                                   part(r.running_sum).end());
        }
        expected.expect(without, inner);
      });
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// What a window hides does not leak: the keys before it may be NaN, and their gradients from later rows are
// 0.
TEST(AttentionVariants, BeforeTheWindowNothingLeaks) {
  constexpr int64_t T = 180, kWindow = 50, kFrom = 120;
  AttentionCase c({1, 2, 1, T, T, 20}, {.window = kWindow, .softcap = 3});
  std::fill_n(c.dout.begin(), kFrom * 40, 0.0f);  // the loss looks at the rows from kFrom on
  AttentionCase poisoned = c;
  for (auto* x : {&poisoned.key, &poisoned.value})
    std::fill_n(x->begin(), (kFrom - kWindow + 1) * 20, testing::kNan);
  for_each_target([&] {
    const AttentionResult clean = c.run(), r = poisoned.run();
    const auto late = [](const std::vector<float>& x, int64_t width) {
      return std::span(x).subspan(kFrom * width);
    };
    expect_same_bits("out", late(clean.out, 40), late(r.out, 40));
    expect_same_bits("dquery", late(clean.dquery, 40), late(r.dquery, 40));
    expect_all_zero("dkey", std::span(clean.dkey).first((kFrom - kWindow + 1) * 20));
    expect_all_zero("dvalue", std::span(clean.dvalue).first((kFrom - kWindow + 1) * 20));
  });
}

// A few hundred seeded combinations of everything.
TEST(AttentionVariants, RandomCombinations) {
  const RandomStream random(17, "combinations");
  uint64_t drawn = 0;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.below(drawn++, static_cast<uint64_t>(n)));
  };
  for (int trial = 0; trial < 250; ++trial) {
    const int64_t K = 1 + below(2), group = 1 + below(3), Tk = 1 + below(below(8) == 0 ? 260 : 100);
    const bool decoding = below(3) == 0;
    const int64_t Tq = decoding ? 1 + below(Tk) : Tk;
    constexpr int64_t kHeadSizes[] = {1, 7, 8, 16, 20, 32, 80};
    AttentionShape s{1 + below(2), K * group, K, Tq, Tk, kHeadSizes[below(7)]};
    AttentionOptions o;
    o.query_offset = Tk - Tq;
    const bool elsewhere = below(5) == 0;
    if (elsewhere) o.query_offset = below(Tq + Tk) - Tq;
    o.causal = below(4) != 0;
    if (o.causal && below(2) == 0) o.window = 1 + below(Tk);
    if (below(3) == 0) o.softcap = 0.5f + static_cast<float>(below(40)) / 8;
    if (below(4) == 0) o.dropout = 0.25f, o.dropout_key = static_cast<uint64_t>(trial);
    if (below(4) == 0) o.scale = 0.4f;
    AttentionCase c(s, o);
    const auto batch = static_cast<size_t>(s.batch), heads = static_cast<size_t>(s.query_heads);
    if (below(3) == 0) {
      std::vector<int32_t> prefix;
      for (size_t b = 0; b < batch; ++b) prefix.push_back(static_cast<int32_t>(below(Tk + 1)));
      c.set_prefix(prefix);
    }
    if (below(3) == 0) c.set_alibi_slopes(testing::random_floats(31, heads, 0.2));
    if (below(3) == 0) c.set_sinks(testing::random_floats(32, heads));
    if (!elsewhere && below(3) == 0) {
      std::vector<int32_t> ids;
      for (size_t b = 0; b < batch; ++b) {
        const int64_t length = 1 + below(Tk);
        const bool padded = below(2) == 0;
        const int64_t padding = padded ? below(Tk) : 0;
        for (int64_t t = 0; t < Tk; ++t) ids.push_back(t < padding ? -1 : static_cast<int32_t>(t / length));
      }
      c.set_documents(ids);
    }
    SCOPED_TRACE(trial);
    // ds = p (dp - delta): what cancels is of the size of dp = do . v.
    expect_attention(c, 0.5 * std::sqrt(static_cast<double>(s.head_size)));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(AttentionVariants, SameBitsForAnyNumberOfThreads) {
  AttentionCase c = with_all({2, 4, 2, 300, 300, 16});
  c.options.window = 90;
  const AttentionResult first = c.run();
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    testing::expect_same_result(c.run(pool), first);
  }
}

TEST(AttentionVariants, ImpossibleOnesAreRefusedByName) {
  const AttentionShape s = self(1, 1, 4, 4);
  const auto refused = [&](const AttentionOptions& o, const char* piece) {
    expect_error(ErrorKind::kUse, {piece}, [&] { check_attention(s, o); });
  };
  refused({.causal = false, .window = 3}, "window = 3");
  refused({.window = -1}, "window = -1");
  refused({.softcap = -2}, "softcap = -2");
  refused({.softcap = std::numeric_limits<float>::infinity()}, "softcap = inf");
  refused({.softcap = 1e-40f}, "softcap = ");
  refused({.query_offset = std::numeric_limits<int64_t>::min()}, "query_offset = ");
}

}  // namespace
}  // namespace tril
