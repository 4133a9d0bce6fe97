// Attention as its formulas are written, one loop per sum; arrays are (B, T, heads, D) without gaps. For
// float, double and std::complex<double> (whose maximum goes by the real part: the complex step of a
// gradient).
#pragma once

#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>
#include <vector>

#include "tril/base/random.h"
#include "tril/kernels/attention.h"

namespace tril::reference {

inline double real_part(double x) { return x; }
inline double real_part(std::complex<double> x) { return x.real(); }

template <class Float>
struct AttentionOutput {
  std::vector<Float> out;                       // (B, Tq, H, D)
  std::vector<Float> running_max, running_sum;  // (B, H, Tq)
};

template <class Float>
struct AttentionGradients {
  std::vector<Float> dquery;        // (B, Tq, H, D)
  std::vector<Float> dkey, dvalue;  // (B, Tk, K, D)
  std::vector<Float> dsinks;        // (B, H)
};

// Of query i of sequence b among the keys; below 0 it is padding.
inline int64_t attention_position(const AttentionShape& s, const AttentionOptions& o, int64_t b, int64_t i) {
  return o.lengths ? o.lengths[b] - s.query_length + i : i + o.query_offset;
}

inline bool attention_visible(const AttentionShape& s, const AttentionOptions& o, int64_t b, int64_t i,
                              int64_t j) {
  const int64_t position = attention_position(s, o, b, i);
  if (o.lengths && (position < 0 || j >= o.lengths[b])) return false;
  const bool in_prefix = o.prefix && j < o.prefix[b];
  if (!in_prefix && o.causal && j > position) return false;
  if (!in_prefix && o.window > 0 && j <= position - o.window) return false;
  if (!o.documents) return true;
  const int32_t own = o.documents[b * s.key_length + j];
  return own >= 0 && o.documents[b * s.key_length + position] == own;
}

inline bool attention_keeps(const AttentionShape& s, const AttentionOptions& o, int64_t b, int64_t h,
                            int64_t i, int64_t j) {
  const auto words =
      philox4x32({static_cast<uint32_t>(j >> 2), static_cast<uint32_t>(i),
                  static_cast<uint32_t>(b * s.query_heads + h), o.dropout_substream},
                 {static_cast<uint32_t>(o.dropout_key), static_cast<uint32_t>(o.dropout_key >> 32)});
  return o.dropout == 0 || words[static_cast<size_t>(j & 3)] >= o.dropout * 0x1p32;
}

// Row i of head (b, h): the weights p_ij of the visible keys, zero elsewhere.
template <class Float>
struct AttentionRow {
  std::vector<Float> weights, slopes;  // slopes: of the softcap, 1 without
  Float max = 0, sum = 0, sink = 0;    // sink: its weight
};

template <class Float>
Float attention_scale(const AttentionShape& s, const AttentionOptions& o) {
  if (o.scale != 0) return Float(o.scale);
  return Float(1.0 / std::sqrt(static_cast<double>(s.head_size)));
}

template <class Float>
AttentionRow<Float> attention_row(const AttentionShape& s, const AttentionOptions& o, const Float* query,
                                  const Float* keys, int64_t b, int64_t h, int64_t i) {
  const int64_t key_stride = s.kv_heads * s.head_size;
  AttentionRow<Float> row;
  row.weights.assign(static_cast<size_t>(s.key_length), Float(0));
  row.slopes.assign(row.weights.size(), Float(1));
  double highest = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < s.key_length; ++j) {
    if (!attention_visible(s, o, b, i, j)) continue;
    Float dot = 0;
    for (int64_t d = 0; d < s.head_size; ++d) dot += query[d] * keys[j * key_stride + d];
    Float& score = row.weights[static_cast<size_t>(j)];
    score = attention_scale<Float>(s, o) * dot;
    if (o.softcap > 0) {
      const Float t = std::tanh(score / Float(o.softcap));
      score = Float(o.softcap) * t;
      row.slopes[static_cast<size_t>(j)] = Float(1) - t * t;
    }
    if (o.alibi_slopes)
      score -=
          Float(o.alibi_slopes[h]) * Float(static_cast<float>(std::abs(attention_position(s, o, b, i) - j)));
    if (real_part(score) > highest) highest = real_part(score), row.max = score;
  }
  const bool sink = o.sinks && std::isfinite(highest);  // a row without keys has no weights at all
  if (sink && o.sinks[h] > highest) row.max = Float(o.sinks[h]);
  for (int64_t j = 0; j < s.key_length; ++j) {
    if (!attention_visible(s, o, b, i, j)) continue;
    Float& p = row.weights[static_cast<size_t>(j)];
    p = std::exp(p - row.max);
    row.sum += p;
  }
  if (sink) {
    const Float weight = std::exp(Float(o.sinks[h]) - row.max);
    row.sum += weight;
    row.sink = weight / row.sum;
  }
  for (Float& p : row.weights) {
    if (p != Float(0)) p /= row.sum;
  }
  return row;
}

template <class Float>
AttentionOutput<Float> attention_forward(const AttentionShape& s, const AttentionOptions& o,
                                         const std::vector<Float>& query, const std::vector<Float>& key,
                                         const std::vector<Float>& value) {
  const int64_t D = s.head_size, group = s.query_heads / s.kv_heads;
  AttentionOutput<Float> r;
  r.out.assign(query.size(), Float(0));
  r.running_max.assign(static_cast<size_t>(s.batch * s.query_heads * s.query_length), Float(0));
  r.running_sum = r.running_max;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.query_heads; ++h) {
      const int64_t kv = (b * s.key_length * s.kv_heads + h / group) * D;
      for (int64_t i = 0; i < s.query_length; ++i) {
        const int64_t at = ((b * s.query_length + i) * s.query_heads + h) * D;
        const auto row = attention_row(s, o, &query[at], &key[kv], b, h, i);
        const auto stat = static_cast<size_t>((b * s.query_heads + h) * s.query_length + i);
        r.running_max[stat] = row.max;
        r.running_sum[stat] = row.sum;
        for (int64_t j = 0; j < s.key_length; ++j) {
          if (!attention_visible(s, o, b, i, j) || !attention_keeps(s, o, b, h, i, j)) continue;
          const Float p = row.weights[static_cast<size_t>(j)] / Float(1.0f - o.dropout);
          for (int64_t d = 0; d < D; ++d) r.out[at + d] += p * value[kv + j * s.kv_heads * D + d];
        }
      }
    }
  }
  return r;
}

template <class Float>
AttentionGradients<Float> attention_backward(const AttentionShape& s, const AttentionOptions& o,
                                             const std::vector<Float>& query, const std::vector<Float>& key,
                                             const std::vector<Float>& value,
                                             const std::vector<Float>& dout) {
  const int64_t D = s.head_size, group = s.query_heads / s.kv_heads, key_stride = s.kv_heads * D;
  const Float scale = attention_scale<Float>(s, o), kept = Float(1) / Float(1.0f - o.dropout);
  AttentionGradients<Float> r;
  r.dquery.assign(query.size(), Float(0));
  r.dkey.assign(key.size(), Float(0));
  r.dvalue.assign(value.size(), Float(0));
  r.dsinks.assign(o.sinks ? static_cast<size_t>(s.batch * s.query_heads) : 0, Float(0));
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.query_heads; ++h) {
      const int64_t kv = (b * s.key_length * s.kv_heads + h / group) * D;
      for (int64_t i = 0; i < s.query_length; ++i) {
        const int64_t at = ((b * s.query_length + i) * s.query_heads + h) * D;
        const auto row = attention_row(s, o, &query[at], &key[kv], b, h, i);
        std::vector<Float> dp(row.weights.size(), Float(0));
        Float delta = 0;
        for (int64_t j = 0; j < s.key_length; ++j) {
          if (!attention_visible(s, o, b, i, j) || !attention_keeps(s, o, b, h, i, j)) continue;
          const Float p = row.weights[static_cast<size_t>(j)];
          Float& dp_j = dp[static_cast<size_t>(j)];
          for (int64_t d = 0; d < D; ++d) {
            dp_j += dout[at + d] * value[kv + j * key_stride + d];
            r.dvalue[kv + j * key_stride + d] += p * kept * dout[at + d];
          }
          dp_j *= kept;
          delta += p * dp_j;
        }
        if (o.sinks) r.dsinks[static_cast<size_t>(b * s.query_heads + h)] -= row.sink * delta;
        for (int64_t j = 0; j < s.key_length; ++j) {
          if (!attention_visible(s, o, b, i, j)) continue;
          const Float ds = row.weights[static_cast<size_t>(j)] * (dp[static_cast<size_t>(j)] - delta) *
                           row.slopes[static_cast<size_t>(j)];
          for (int64_t d = 0; d < D; ++d) {
            r.dquery[at + d] += scale * ds * key[kv + j * key_stride + d];
            r.dkey[kv + j * key_stride + d] += scale * ds * query[at + d];
          }
        }
      }
    }
  }
  return r;
}

}  // namespace tril::reference
