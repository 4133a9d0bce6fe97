#include <algorithm>
#include <array>
#include <utility>

#include "cli/doctor_checks.h"
#include "tril/kernels/attention.h"

namespace tril::cli {
namespace {

struct Inputs {
  std::vector<float> query, key, value, dout;  // (B, T, heads, D)
};

struct Wanted {
  std::vector<double> out, dquery, dkey, dvalue;
};

HeadView rows(std::vector<float>& x, const AttentionShape& s, int64_t heads, int64_t length) {
  return {x.data(), length * heads * s.head_size, heads * s.head_size, s.head_size};
}
ConstHeadView rows(const std::vector<float>& x, const AttentionShape& s, int64_t heads, int64_t length) {
  return {x.data(), length * heads * s.head_size, heads * s.head_size, s.head_size};
}

// The equations of kernels/attention.h for one query row, in double, with all probabilities at hand.
void one_row(const AttentionShape& s, const Inputs& in, int64_t b, int64_t h, int64_t i, Wanted& w) {
  const int64_t D = s.head_size, group = s.query_heads / s.kv_heads;
  const auto q_at = [&](int64_t d) {
    return static_cast<size_t>(((b * s.query_length + i) * s.query_heads + h) * D + d);
  };
  const auto k_at = [&](int64_t j, int64_t d) {
    return static_cast<size_t>(((b * s.key_length + j) * s.kv_heads + h / group) * D + d);
  };
  const double scale = 1 / std::sqrt(static_cast<double>(D));
  std::vector<double> p(static_cast<size_t>(i + 1));
  double largest = -INFINITY, sum = 0, delta = 0;
  for (int64_t j = 0; j <= i; ++j) {
    double score = 0;
    for (int64_t d = 0; d < D; ++d) score += double{in.query[q_at(d)]} * in.key[k_at(j, d)];
    p[static_cast<size_t>(j)] = score * scale;
    largest = std::max(largest, score * scale);
  }
  for (double& x : p) sum += x = std::exp(x - largest);
  for (double& x : p) x /= sum;
  for (int64_t d = 0; d < D; ++d) {
    for (int64_t j = 0; j <= i; ++j) w.out[q_at(d)] += p[static_cast<size_t>(j)] * in.value[k_at(j, d)];
    delta += in.dout[q_at(d)] * w.out[q_at(d)];
  }
  for (int64_t j = 0; j <= i; ++j) {
    double dp = 0;
    for (int64_t d = 0; d < D; ++d) dp += double{in.dout[q_at(d)]} * in.value[k_at(j, d)];
    const double ds = p[static_cast<size_t>(j)] * (dp - delta) * scale;
    for (int64_t d = 0; d < D; ++d) {
      w.dquery[q_at(d)] += ds * in.key[k_at(j, d)];
      w.dkey[k_at(j, d)] += ds * in.query[q_at(d)];
      w.dvalue[k_at(j, d)] += p[static_cast<size_t>(j)] * in.dout[q_at(d)];
    }
  }
}

}  // namespace

void check_attention(Executor& executor, Checks& checks) {
  double forward = 0, backward = 0, leak = 0;
  for (const auto& sizes : {std::array<int64_t, 4>{1, 2, 2, 8}, {67, 4, 2, 24}, {130, 2, 2, 64}}) {
    const int64_t T = sizes[0], H = sizes[1], K = sizes[2], D = sizes[3];
    const AttentionShape s{
        .batch = 2, .query_heads = H, .kv_heads = K, .query_length = T, .key_length = T, .head_size = D};
    const AttentionOptions options;
    const int64_t q_size = 2 * T * H * D, k_size = 2 * T * K * D;
    Inputs in{doctor_random("doctor q", q_size), doctor_random("doctor k", k_size),
              doctor_random("doctor v", k_size), doctor_random("doctor do", q_size)};
    const auto count = [](int64_t n) { return static_cast<size_t>(n); };
    std::vector<float> out(count(q_size)), maximum(count(2 * H * T)), sum(count(2 * H * T));
    std::vector<float> dq(count(q_size)), dk(count(k_size)), dv(count(k_size));
    std::vector<float> workspace(count(attention_workspace(s, executor.threads()) + 1));
    const auto run_forward = [&](std::vector<float>& y) {
      attention_forward(executor, s, options, rows(std::as_const(in.query), s, H, T),
                        rows(std::as_const(in.key), s, K, T), rows(std::as_const(in.value), s, K, T),
                        rows(y, s, H, T), maximum.data(), sum.data(), workspace.data());
    };
    run_forward(out);
    attention_backward(executor, s, options, rows(std::as_const(in.query), s, H, T),
                       rows(std::as_const(in.key), s, K, T), rows(std::as_const(in.value), s, K, T),
                       rows(std::as_const(out), s, H, T), maximum.data(), sum.data(),
                       rows(std::as_const(in.dout), s, H, T), rows(dq, s, H, T), rows(dk, s, K, T),
                       rows(dv, s, K, T), workspace.data());
    Wanted want{std::vector<double>(out.size()), std::vector<double>(dq.size()),
                std::vector<double>(dk.size()), std::vector<double>(dv.size())};
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t i = 0; i < T; ++i) one_row(s, in, b, h, i, want);
    forward = std::max(forward, relative_error(out, want.out));
    if (T > 1)  // with one key the gradients of query and key are exactly zero
      for (const double error : {relative_error(dq, want.dquery), relative_error(dk, want.dkey)})
        backward = std::isnan(error) ? error : std::max(backward, error);
    backward = std::max(backward, relative_error(dv, want.dvalue));

    // Another last token of row 0 changes no output before it, bit for bit.
    std::vector<float> changed(out.size());
    for (int64_t d = 0; d < K * D; ++d)
      in.key[count((T - 1) * K * D + d)] = in.value[count((T - 1) * K * D + d)] = 5;
    run_forward(changed);
    for (int64_t at = 0; at < (T - 1) * H * D; ++at) leak += out[count(at)] != changed[count(at)] ? 1 : 0;
  }
  checks.push_back({"attention forward", forward, 3e-6, "largest difference over largest value"});
  checks.push_back({"attention backward", backward, 1e-5, "largest difference over largest value"});
  checks.push_back({"attention is causal", leak, 0, "outputs changed by a later token"});
}

}  // namespace tril::cli
