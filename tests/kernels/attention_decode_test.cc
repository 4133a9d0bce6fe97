// Few queries at the end of many keys, as a key/value cache asks: against the reference, against the tiles,
// and what must hold bit for bit.
#include "tests/kernels/attention_case.h"
#include "tests/support/expect_error.h"
#include "tests/support/kernel_test.h"

namespace tril {
namespace {

using testing::AttentionCase;
using testing::expect_all_zero;
using testing::expect_error;
using testing::expect_same_bits;
using testing::expect_within_naive;
using testing::for_each_target;
using testing::kNan;

struct Result {
  std::vector<float> out, running_max, running_sum;
};

enum class Stored { kFloat, kBfloat16 };

// Keys or values as bfloat16, one element off alignment, in the same strides as `rows`.
class BfloatRows {
 public:
  BfloatRows(const testing::Rows& rows, int64_t batch) : view_(rows.const_view()) {
    data_.resize(static_cast<size_t>(1 + batch * view_.batch_stride));
    to_bfloat16(batch * view_.batch_stride, view_.data, data_.data() + 1);
  }
  HeadRows<const Bfloat16> view() const {
    return {data_.data() + 1, view_.batch_stride, view_.time_stride, view_.head_stride};
  }

 private:
  const ConstHeadView view_;
  std::vector<Bfloat16> data_;
};

Result forward(const AttentionCase& c, Executor& executor, Stored stored = Stored::kFloat) {
  const AttentionShape& s = c.shape;
  const auto stats = static_cast<size_t>(s.batch * s.query_heads * s.query_length);
  Result r{{}, std::vector<float>(stats, kNan), std::vector<float>(stats, kNan)};
  testing::Guarded workspace(static_cast<size_t>(attention_forward_workspace(s, executor.threads())));
  const testing::Rows q = c.query_rows(c.query), k = c.key_rows(c.key), v = c.key_rows(c.value);
  testing::Rows out(s.batch, s.query_length, s.query_heads, s.head_size, c.gap);
  if (stored == Stored::kFloat) {
    attention_forward(executor, s, c.options, q.const_view(), k.const_view(), v.const_view(), out.view(),
                      r.running_max.data(), r.running_sum.data(), workspace.data());
  } else {
    const BfloatRows keys(k, s.batch), values(v, s.batch);
    attention_forward(executor, s, c.options, q.const_view(), keys.view(), values.view(), out.view(),
                      r.running_max.data(), r.running_sum.data(), workspace.data());
  }
  workspace.expect_intact("workspace");
  r.out = out.values();
  out.expect_gaps_intact();
  return r;
}

Result forward(const AttentionCase& c, Stored stored = Stored::kFloat) {
  SerialExecutor serial;
  return forward(c, serial, stored);
}

void expect_same_result(const Result& a, const Result& b) {
  expect_same_bits("out", a.out, b.out);
  if (a.running_max.size() > 1) expect_same_bits("running_max", a.running_max, b.running_max);
  if (a.running_sum.size() > 1) expect_same_bits("running_sum", a.running_sum, b.running_sum);
}

std::vector<float> rounded(const std::vector<float>& x) {
  std::vector<float> out;
  for (const float value : x) out.push_back(to_float(to_bfloat16(value)));
  return out;
}

// The kernel on every instruction set against double, its error at most twice the plain float loop's.
void expect_forward(const AttentionCase& c) {
  SCOPED_TRACE(c.name());
  const auto exact =
      reference::attention_forward(c.shape, c.options, testing::convert<double>(c.query),
                                   testing::convert<double>(c.key), testing::convert<double>(c.value));
  const auto naive = reference::attention_forward(c.shape, c.options, c.query, c.key, c.value);
  const auto close = [](const char* what, const std::vector<float>& actual, const std::vector<double>& wanted,
                        const std::vector<float>& plain) {
    if (std::all_of(wanted.begin(), wanted.end(), [&](double x) { return x == wanted[0]; })) {
      // One number, or zeros where nothing is seen.
      for (const float x : actual) ASSERT_NEAR(x, wanted[0], 4e-6 * std::abs(wanted[0])) << what;
    } else {
      expect_within_naive(what, actual, wanted, plain, 2);
    }
  };
  for_each_target([&] {
    const Result r = forward(c);
    close("out", r.out, exact.out, naive.out);
    close("running_max", r.running_max, exact.running_max, naive.running_max);
    close("running_sum", r.running_sum, exact.running_sum, naive.running_sum);
  });
}

// The last `queries` of `keys`.
AttentionCase at_the_end(int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys,
                         int64_t head_size) {
  return AttentionCase({batch, heads, kv_heads, queries, keys, head_size}, {.query_offset = keys - queries});
}

TEST(AttentionDecode, EveryNumberOfKeys) {
  for (int64_t keys = 1; keys <= 300; ++keys) {
    expect_forward(at_the_end(1, 2, 2, 1, keys, keys % 3 == 0 ? 16 : 7));
    if (HasFatalFailure()) return;
  }
}

TEST(AttentionDecode, HeadSizesAndGroups) {
  for (const int64_t D : {1, 8, 15, 16, 24, 33, 64, 80, 96, 128, 192, 255, 256}) {
    for (const int64_t heads : {2, 4, 6, 14})
      for (const int64_t queries : {1, 3, 4}) expect_forward(at_the_end(2, heads, 2, queries, 75, D));
    if (HasFatalFailure()) return;
  }
  expect_forward(at_the_end(1, 4, 1, 1, 3000, 64));
}

// What a cache asks of a few hundred seeded combinations.
TEST(AttentionDecode, RandomCombinations) {
  const RandomStream random(23, "decode");
  uint64_t drawn = 0;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.below(drawn++, static_cast<uint64_t>(n)));
  };
  for (int trial = 0; trial < 400; ++trial) {
    const int64_t K = 1 + below(2), group = 1 + below(4), Tk = 2 + below(below(3) == 0 ? 700 : 100);
    const int64_t Tq = 1 + below(below(5) == 0 ? 80 : 4);
    constexpr int64_t kHeadSizes[] = {1, 7, 8, 16, 20, 32, 80};
    AttentionShape s{1 + below(3), K * group, K, Tq, Tk, kHeadSizes[below(7)]};
    AttentionOptions o;
    const bool by_length = below(2) == 0, elsewhere = below(5) == 0;
    if (!by_length) o.query_offset = elsewhere ? below(Tq + Tk) - Tq : std::max<int64_t>(0, Tk - Tq);
    o.causal = below(4) != 0;
    if (o.causal && below(2) == 0) o.window = 1 + below(Tk);
    if (below(3) == 0) o.softcap = 0.5f + static_cast<float>(below(40)) / 8;
    if (below(4) == 0) o.scale = 0.4f;
    AttentionCase c(s, o);
    const auto heads = static_cast<size_t>(s.query_heads);
    std::vector<int32_t> lengths, prefix, ids;
    for (int64_t b = 0; b < s.batch; ++b) {
      lengths.push_back(static_cast<int32_t>(below(5) == 0 ? below(5) % Tk : below(Tk + 1)));
      prefix.push_back(static_cast<int32_t>(below(Tk + 1)));
      const int64_t length = 1 + below(Tk), padding = below(2) == 0 ? below(Tk) : 0;
      for (int64_t t = 0; t < Tk; ++t) ids.push_back(t < padding ? -1 : static_cast<int32_t>(t / length));
    }
    if (by_length) c.set_lengths(lengths);
    if (below(3) == 0) c.set_prefix(prefix);
    if (below(3) == 0) c.set_alibi_slopes(testing::random_floats(31, heads, 0.2));
    if (below(3) == 0) c.set_sinks(testing::random_floats(32, heads));
    if (below(3) == 0 && (by_length || (o.query_offset >= 0 && Tq + o.query_offset <= Tk)))
      c.set_documents(ids);
    SCOPED_TRACE(trial);
    expect_forward(c);
    if (HasFatalFailure()) return;
  }
}

// A row of the batch gives the same bits alone with just its keys, wherever its cache ends; what lies beyond
// its length may be NaN.
TEST(AttentionDecode, LengthsEqualSeparateCalls) {
  constexpr int64_t B = 5, Tk = 700, H = 4, K = 2, D = 20;
  const int32_t lengths[B] = {700, 1, 33, 256, 600};
  for (const int64_t Tq : {1, 3, 5, 40}) {
    AttentionCase c({B, H, K, Tq, Tk, D}, {.window = 290, .softcap = 4});
    c.set_lengths({lengths, lengths + B});
    c.set_prefix({50, 50, 50, 50, 50});
    c.set_alibi_slopes(testing::random_floats(6, H, 0.1));
    c.set_sinks(testing::random_floats(7, H));
    for (auto* x : {&c.key, &c.value}) {
      for (int64_t b = 0; b < B; ++b)
        std::fill_n(x->begin() + (b * Tk + lengths[b]) * K * D, (Tk - lengths[b]) * K * D, kNan);
    }
    for_each_target([&] {
      const Result all = forward(c);
      for (int64_t b = 0; b < B; ++b) {
        SCOPED_TRACE(fmt::format("Tq {} row {}", Tq, b));
        const int64_t keys = lengths[b], queries = std::min<int64_t>(Tq, keys), padding = Tq - queries;
        const auto row_of = [&](const std::vector<float>& x, int64_t first, int64_t count, int64_t time,
                                int64_t width) {
          const auto start = x.begin() + (b * time + first) * width;
          return std::vector<float>(start, start + count * width);
        };
        expect_all_zero("padding", row_of(all.out, 0, padding, Tq, H * D));
        if (queries >= keys || (queries <= 4) != (Tq <= 4)) continue;  // another loop, not the same bits
        AttentionCase one = c;
        one.shape.batch = 1, one.shape.query_length = queries, one.shape.key_length = keys;
        one.lengths.clear(), one.options.lengths = nullptr, one.options.query_offset = keys - queries;
        one.query = row_of(c.query, padding, queries, Tq, H * D);
        one.key = row_of(c.key, 0, keys, Tk, K * D);
        one.value = row_of(c.value, 0, keys, Tk, K * D);
        expect_same_bits("out", forward(one).out, row_of(all.out, padding, queries, Tq, H * D));
      }
    });
  }
}

// A prompt at once and then token by token gives what all at once gives, but for rounding.
TEST(AttentionDecode, TokenByTokenEqualsAllAtOnce) {
  constexpr int64_t T = 330, H = 4, K = 2, D = 16;
  AttentionCase whole({1, H, K, T, T, D}, {.window = 200});
  whole.set_alibi_slopes(testing::random_floats(6, H, 0.1));
  const auto exact = reference::attention_forward(
      whole.shape, whole.options, testing::convert<double>(whole.query), testing::convert<double>(whole.key),
      testing::convert<double>(whole.value));
  const auto naive =
      reference::attention_forward(whole.shape, whole.options, whole.query, whole.key, whole.value);
  for (const int64_t step : {1, 2, 4}) {
    for_each_target([&] {
      std::vector<float> out;
      for (int64_t t = 0; t < T; t += step) {
        AttentionCase token = whole;
        token.shape.query_length = std::min(step, T - t);
        token.set_lengths({static_cast<int32_t>(t + token.shape.query_length)});
        const auto rows = testing::steps(whole.query, T, t, t + token.shape.query_length);
        token.query.assign(rows.begin(), rows.end());
        const Result r = forward(token);
        out.insert(out.end(), r.out.begin(), r.out.end());
      }
      expect_within_naive("out", out, exact.out, naive.out, 2);
    });
  }
}

TEST(AttentionDecode, Bfloat16EqualsItsValuesAsFloats) {
  for (const int64_t Tq : {1, 2, 50}) {
    for (const int64_t D : {7, 16, 64, 80}) {
      for (const int64_t heads : {2, 8}) {
        AttentionCase c({2, heads, 2, Tq, 300, D}, {.window = 280});
        c.set_lengths({299, 120});
        AttentionCase exact = c;
        exact.key = rounded(c.key), exact.value = rounded(c.value);
        for_each_target([&] { expect_same_result(forward(c, Stored::kBfloat16), forward(exact)); });
      }
    }
  }
}

TEST(AttentionDecode, SameBitsForAnyNumberOfThreads) {
  for (const Stored stored : {Stored::kFloat, Stored::kBfloat16}) {
    AttentionCase c({3, 4, 2, 2, 1500, 32});
    c.set_lengths({1500, 700, 3});
    c.set_sinks(testing::random_floats(7, 4));
    for_each_target([&] {
      testing::expect_same_for_any_threads(
          "out", [&](Executor& executor) { return forward(c, executor, stored).out; });
      testing::expect_same_for_any_threads(
          "sum", [&](Executor& executor) { return forward(c, executor, stored).running_sum; });
    });
  }
}

// Hidden by causality, window, document or prefix: a key may hold anything, and changes no bit.
TEST(AttentionDecode, WhatIsHiddenDoesNotLeak) {
  constexpr int64_t Tk = 500, Tq = 3, D = 16;
  AttentionCase c({1, 2, 1, Tq, Tk, D}, {.query_offset = 450, .window = 100});
  c.set_prefix({20});
  std::vector<int32_t> ids(Tk, 1);
  for (int64_t t = 400; t < 420; ++t) ids[t] = 2;
  c.set_documents(ids);
  for (const float poison : {kNan, std::numeric_limits<float>::infinity()}) {
    AttentionCase poisoned = c;
    for (auto* x : {&poisoned.key, &poisoned.value}) {
      const auto fill = [&](int64_t from, int64_t to) {
        std::fill_n(x->begin() + from * D, (to - from) * D, poison);
      };
      fill(20, 351), fill(400, 420), fill(453, Tk);
    }
    for_each_target([&] { expect_same_result(forward(c), forward(poisoned)); });
    // The key of the last query only: the earlier ones do not notice.
    poisoned = c;
    for (auto* x : {&poisoned.key, &poisoned.value}) std::fill_n(x->begin() + 452 * D, D, poison);
    for_each_target([&] {
      const Result clean = forward(c), r = forward(poisoned);
      expect_same_bits("out", testing::steps(clean.out, Tq, 0, 2), testing::steps(r.out, Tq, 0, 2));
      EXPECT_TRUE(std::isnan(r.out.back()));
    });
  }
}

TEST(AttentionDecode, ForwardAloneNeedsLittle) {
  const AttentionShape s{1, 12, 12, 1, 65536, 64};
  // D + 16 floats for each query row and 256 keys, two cache lines for each head; tiles beside them.
  EXPECT_LE(attention_forward_workspace(s, 2), 65536 / 256 * 12 * (80 + 32) + 2 * 60000);
  EXPECT_GE(attention_workspace(s, 2), attention_forward_workspace(s, 2));
}

TEST(AttentionDecode, DryRunTouchesNothing) {
  DryExecutor dry(2);
  attention_forward(dry, {1, 1, 1, 1, 4, 8}, {}, {}, ConstHeadView(), ConstHeadView(), {}, nullptr, nullptr,
                    nullptr);
}

TEST(AttentionDecode, ImpossibleLengthsAreRefusedByName) {
  const AttentionShape s{2, 1, 1, 1, 4, 4};
  const int32_t good[] = {0, 4}, low[] = {-1, 2}, high[] = {3, 5};
  check_attention(s, {.lengths = good});
  const auto refused = [&](const AttentionOptions& o, const char* piece) {
    expect_error(ErrorKind::kUse, {piece}, [&] { check_attention(s, o); });
  };
  refused({.lengths = low}, "lengths[0] = -1");
  refused({.lengths = high}, "lengths[1] = 5");
  refused({.query_offset = 1, .lengths = good}, "query_offset = 1");
  SerialExecutor serial;
  expect_error(ErrorKind::kUse, {"attention_backward: lengths"}, [&] {
    attention_backward(serial, s, {.lengths = good}, {}, {}, {}, {}, nullptr, nullptr, {}, {}, {}, {},
                       nullptr);
  });
}

TEST(Bfloat16, RoundsToTheNearest) {
  const RandomStream random(5, "bfloat16");
  for (uint64_t i = 0; i < 20000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random.below(i, uint64_t{1} << 32)));
    const float y = to_float(to_bfloat16(x));
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(y));
      continue;
    }
    // The two neighbours that are bfloat16.
    const uint32_t below = std::bit_cast<uint32_t>(x) & 0xFFFF0000u;
    const double low = std::bit_cast<float>(below);
    const float above = std::bit_cast<float>(below + 0x10000u);
    if (std::isinf(above)) continue;
    const double middle = (low + static_cast<double>(above)) / 2;
    if (static_cast<double>(x) == middle) {
      ASSERT_EQ(std::bit_cast<uint32_t>(y) & 0x10000u, 0u) << x;
    } else {
      ASSERT_EQ(y, std::abs(x) < std::abs(middle) ? low : static_cast<double>(above)) << x;
    }
  }
  const auto bits = [](uint32_t x) { return to_bfloat16(std::bit_cast<float>(x)).bits; };
  EXPECT_EQ(bits(0x3F808000), 0x3F80);  // half way between two: the even one
  EXPECT_EQ(bits(0x3F818000), 0x3F82);
  EXPECT_EQ(bits(0x80000000), 0x8000);
  EXPECT_EQ(bits(0x7F7FFFFF), 0x7F80);  // beyond the largest: infinity
  EXPECT_EQ(bits(0xFF800000), 0xFF80);
  EXPECT_EQ(bits(0x7F800001), 0x7FC0);  // a signalling NaN whose payload lies in the lower half
  EXPECT_EQ(bits(0xFFFFFFFF), 0xFFFF);
}

}  // namespace
}  // namespace tril
