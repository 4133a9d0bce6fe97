// What the attention tests share: a case with its data, run through the kernels in strided buffers whose gaps
// hold NaN, on any instruction set.
#pragma once

#include <fmt/ranges.h>
#include <hwy/highway.h>

#include "tests/reference/attention.h"
#include "tests/support/kernel_test.h"
#include "tril/kernels/attention.h"

namespace tril::testing {

// A (B, T, heads, D) array with gaps after each row, each step and each sequence, off alignment by one float.
class Rows {
 public:
  Rows(int64_t batch, int64_t time, int64_t heads, int64_t head_size, int64_t gap)
      : batch_(batch), time_(time), heads_(heads), head_size_(head_size), gap_(gap) {
    data_.assign(static_cast<size_t>(1 + batch * batch_stride()), kNan);
  }
  Rows(const std::vector<float>& values, int64_t batch, int64_t time, int64_t heads, int64_t head_size,
       int64_t gap)
      : Rows(batch, time, heads, head_size, gap) {
    auto next = values.begin();
    each([&](float* row) { std::copy_n(next, head_size_, row), next += head_size_; });
  }

  HeadView view() { return {data_.data() + 1, batch_stride(), time_stride(), head_stride()}; }
  ConstHeadView const_view() const {
    return {data_.data() + 1, batch_stride(), time_stride(), head_stride()};
  }

  std::vector<float> values() {
    std::vector<float> out;
    each([&](const float* row) { out.insert(out.end(), row, row + head_size_); });
    return out;
  }
  // What lies between the rows is untouched.
  void expect_gaps_intact() {
    each([&](float* row) { std::fill_n(row, head_size_, kNan); });
    ASSERT_TRUE(std::all_of(data_.begin(), data_.end(), [](float x) { return std::isnan(x); }));
  }

 private:
  int64_t head_stride() const { return head_size_ + gap_; }
  int64_t time_stride() const { return heads_ * head_stride() + gap_; }
  int64_t batch_stride() const { return time_ * time_stride() + gap_; }
  template <class Body>
  void each(Body&& body) {
    for (int64_t b = 0; b < batch_; ++b)
      for (int64_t t = 0; t < time_; ++t)
        for (int64_t h = 0; h < heads_; ++h) body(view().row(b, t, h));
  }

  int64_t batch_, time_, heads_, head_size_, gap_;
  std::vector<float> data_;
};

// Queries and keys of one length, as many key/value heads as heads.
inline AttentionShape self(int64_t batch, int64_t heads, int64_t time, int64_t head_size) {
  return {batch, heads, heads, time, time, head_size};
}

struct AttentionResult {
  std::vector<float> out, running_max, running_sum, dquery, dkey, dvalue, dsinks;
};

struct AttentionCase {
  AttentionShape shape;
  AttentionOptions options;
  std::vector<int32_t> documents, prefix, lengths;
  std::vector<float> alibi_slopes, sinks;
  int64_t gap = 3;
  std::vector<float> query, key, value, dout;

  explicit AttentionCase(const AttentionShape& s, const AttentionOptions& o = {}, double score_std = 1.0)
      : shape(s), options(o) {
    const auto queries = static_cast<size_t>(s.batch * s.query_length * s.query_heads * s.head_size);
    const auto keys = static_cast<size_t>(s.batch * s.key_length * s.kv_heads * s.head_size);
    query = random_floats(1, queries, score_std);
    key = random_floats(2, keys);
    value = random_floats(3, keys);
    dout = random_floats(4, queries);
  }
  AttentionCase(const AttentionCase& c) { *this = c; }
  AttentionCase& operator=(const AttentionCase& c) {
    shape = c.shape, options = c.options, documents = c.documents, gap = c.gap;
    query = c.query, key = c.key, value = c.value, dout = c.dout;
    prefix = c.prefix, lengths = c.lengths, alibi_slopes = c.alibi_slopes, sinks = c.sinks;
    if (!documents.empty()) options.documents = documents.data();
    if (!prefix.empty()) options.prefix = prefix.data();
    if (!lengths.empty()) options.lengths = lengths.data();
    if (!alibi_slopes.empty()) options.alibi_slopes = alibi_slopes.data();
    if (!sinks.empty()) options.sinks = sinks.data();
    return *this;
  }
  void set_documents(std::vector<int32_t> ids) {
    documents = std::move(ids);
    options.documents = documents.data();
  }

  void set_prefix(std::vector<int32_t> keys) {
    prefix = std::move(keys);
    options.prefix = prefix.data();
  }
  void set_lengths(std::vector<int32_t> keys) {
    lengths = std::move(keys);
    options.lengths = lengths.data();
  }
  void set_alibi_slopes(std::vector<float> slopes) {
    alibi_slopes = std::move(slopes);
    options.alibi_slopes = alibi_slopes.data();
  }
  void set_sinks(std::vector<float> scores) {
    sinks = std::move(scores);
    options.sinks = sinks.data();
  }

  std::string name() const {
    return fmt::format(
        "B {} H {} K {} Tq {} Tk {} D {} offset {}{}{}{} window {} softcap {}{}{}{} lengths {}", shape.batch,
        shape.query_heads, shape.kv_heads, shape.query_length, shape.key_length, shape.head_size,
        options.query_offset, options.causal ? " causal" : "", documents.empty() ? "" : " documents",
        options.dropout > 0 ? " dropout" : "", options.window, options.softcap,
        prefix.empty() ? "" : " prefix", alibi_slopes.empty() ? "" : " ALiBi", sinks.empty() ? "" : " sinks",
        fmt::join(lengths, " "));
  }

  Rows query_rows(const std::vector<float>& x) const {
    return {x, shape.batch, shape.query_length, shape.query_heads, shape.head_size, gap};
  }
  Rows key_rows(const std::vector<float>& x) const {
    return {x, shape.batch, shape.key_length, shape.kv_heads, shape.head_size, gap};
  }

  AttentionResult run(Executor& executor) const {
    const AttentionShape& s = shape;
    const auto stats = static_cast<size_t>(s.batch * s.query_heads * s.query_length);
    AttentionResult r;
    r.running_max.assign(stats, kNan);
    r.running_sum.assign(stats, kNan);
    r.dsinks.assign(sinks.empty() ? 0 : static_cast<size_t>(s.batch * s.query_heads), kNan);
    std::vector<float> workspace(static_cast<size_t>(attention_workspace(s, executor.threads())), kNan);
    const Rows q = query_rows(query), k = key_rows(key), v = key_rows(value), g = query_rows(dout);
    Rows out(s.batch, s.query_length, s.query_heads, s.head_size, gap), dq = out;
    Rows dk(s.batch, s.key_length, s.kv_heads, s.head_size, gap), dv = dk;
    attention_forward(executor, s, options, q.const_view(), k.const_view(), v.const_view(), out.view(),
                      r.running_max.data(), r.running_sum.data(), workspace.data());
    std::fill(workspace.begin(), workspace.end(), kNan);
    attention_backward(executor, s, options, q.const_view(), k.const_view(), v.const_view(), out.const_view(),
                       r.running_max.data(), r.running_sum.data(), g.const_view(), dq.view(), dk.view(),
                       dv.view(), workspace.data(), r.dsinks.data());
    r.out = out.values(), r.dquery = dq.values(), r.dkey = dk.values(), r.dvalue = dv.values();
    for (Rows* rows : {&out, &dq, &dk, &dv}) rows->expect_gaps_intact();
    return r;
  }
  AttentionResult run() const {
    SerialExecutor serial;
    return run(serial);
  }
};

// The reference in double and in plain float, computed once for all instruction sets.
struct AttentionExpectation {
  reference::AttentionOutput<double> exact;
  reference::AttentionOutput<float> naive;
  reference::AttentionGradients<double> exact_gradients;
  reference::AttentionGradients<float> naive_gradients;

  explicit AttentionExpectation(const AttentionCase& c) {
    const auto q = convert<double>(c.query), k = convert<double>(c.key), v = convert<double>(c.value),
               g = convert<double>(c.dout);
    exact = reference::attention_forward(c.shape, c.options, q, k, v);
    naive = reference::attention_forward(c.shape, c.options, c.query, c.key, c.value);
    exact_gradients = reference::attention_backward(c.shape, c.options, q, k, v, g);
    naive_gradients = reference::attention_backward(c.shape, c.options, c.query, c.key, c.value, c.dout);
  }

  // magnitude: the size of the terms of a gradient's sums, where those cancel.
  void expect(const AttentionCase& c, const AttentionResult& r, double magnitude = 0) const {
    const auto close = [&](const char* what, const std::vector<float>& actual,
                           const std::vector<double>& wanted, const std::vector<float>& plain, double factor,
                           double size) {
      const std::string name = fmt::format("{} of {}", what, c.name());
      if (std::all_of(wanted.begin(), wanted.end(), [&](double x) { return x == wanted[0]; })) {
        expect_within_constant(name, actual, wanted, size);
      } else {
        expect_within_naive(name, actual, wanted, plain, factor, size);
      }
    };
    close("out", r.out, exact.out, naive.out, 2, 0);
    close("running_max", r.running_max, exact.running_max, naive.running_max, 2, 0);
    close("running_sum", r.running_sum, exact.running_sum, naive.running_sum, 2, 0);
    close("dquery", r.dquery, exact_gradients.dquery, naive_gradients.dquery, 3, magnitude);
    close("dkey", r.dkey, exact_gradients.dkey, naive_gradients.dkey, 3, magnitude);
    close("dvalue", r.dvalue, exact_gradients.dvalue, naive_gradients.dvalue, 3, 0);
    if (!c.sinks.empty())
      close("dsinks", r.dsinks, exact_gradients.dsinks, naive_gradients.dsinks, 3, magnitude);
  }

 private:
  // One key and no more to choose from: the weights are 1, and the gradients of the scores exactly 0;
  // with dropout but for the rounding of terms of this size. Or there is one number in all, a sum of such
  // terms.
  static void expect_within_constant(const std::string& what, const std::vector<float>& actual,
                                     const std::vector<double>& wanted, double size) {
    const double bound = std::max(4e-6 * std::abs(wanted[0]), 1e-6 * size);
    for (const float x : actual) ASSERT_NEAR(x, wanted[0], bound) << what;
  }
};

inline void expect_attention(const AttentionCase& c, double magnitude = 0) {
  const AttentionExpectation expectation(c);
  for_each_target([&] { expectation.expect(c, c.run(), magnitude); });
}

// The reference's gradient of sum(dout * out) against the complex step, for all three inputs.
inline void expect_reference_gradient(const AttentionCase& c) {
  SCOPED_TRACE(c.name());
  using Complex = std::complex<double>;
  const auto q = convert<double>(c.query), k = convert<double>(c.key), v = convert<double>(c.value),
             g = convert<double>(c.dout);
  const auto gradients = reference::attention_backward(c.shape, c.options, q, k, v, g);
  const auto loss = [&](const std::vector<Complex>& query, const std::vector<Complex>& key,
                        const std::vector<Complex>& value) {
    const auto out = reference::attention_forward(c.shape, c.options, query, key, value).out;
    Complex sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += g[i] * out[i];
    return sum;
  };
  const auto cq = convert<Complex>(q), ck = convert<Complex>(k), cv = convert<Complex>(v);
  expect_complex_step(
      "dquery", [&](const auto& x) { return loss(x, ck, cv); }, q, gradients.dquery);
  expect_complex_step(
      "dkey", [&](const auto& x) { return loss(cq, x, cv); }, k, gradients.dkey);
  expect_complex_step(
      "dvalue", [&](const auto& x) { return loss(cq, ck, x); }, v, gradients.dvalue);
}

// Floats of one time step of a (1, T, heads, D) array.
inline std::span<const float> steps(const std::vector<float>& x, int64_t time, int64_t first, int64_t last) {
  const int64_t step = static_cast<int64_t>(x.size()) / time;
  return std::span(x).subspan(first * step, (last - first) * step);
}

inline void expect_same_result(const AttentionResult& a, const AttentionResult& b) {
  expect_same_bits("out", a.out, b.out);
  expect_same_bits("running_max", a.running_max, b.running_max);
  expect_same_bits("running_sum", a.running_sum, b.running_sum);
  expect_same_bits("dquery", a.dquery, b.dquery);
  expect_same_bits("dkey", a.dkey, b.dkey);
  expect_same_bits("dvalue", a.dvalue, b.dvalue);
  if (!a.dsinks.empty() || !b.dsinks.empty()) expect_same_bits("dsinks", a.dsinks, b.dsinks);
}

// The queries of a (1, T, ...) case in pieces, each at its offset, give the same bits as all at once. T % 5 =
// 0: no piece is so short that it is decoded (attention_decode_test.cc has those).
inline void expect_pieces_equal_the_whole(const AttentionCase& c) {
  const int64_t T = c.shape.query_length;
  for_each_target([&] {
    const AttentionResult whole = c.run();
    for (const int64_t piece : {5, 6, 30, 64, 100}) {
      for (int64_t t = 0; t < T; t += piece) {
        const int64_t count = std::min(piece, T - t);
        AttentionCase part = c;
        part.shape.query_length = count;
        part.options.query_offset = t;
        const auto rows = steps(c.query, T, t, t + count);
        part.query.assign(rows.begin(), rows.end());
        part.dout.assign(rows.size(), 1.0f);
        expect_same_bits(fmt::format("queries {} to {}", t, t + count), part.run().out,
                         steps(whole.out, T, t, t + count));
      }
    }
  });
}

}  // namespace tril::testing
