// The whole model as plain loops over one scalar type: float, double, std::complex<double> or Dual<float>.
// Slow and obvious; no dropout.
#pragma once

#include <cmath>
#include <complex>
#include <map>
#include <string>
#include <vector>

#include "tests/reference/dual.h"
#include "tril/nn/transformer.h"

namespace tril::testing {

template <class T>
double real_part(const T& x) {
  if constexpr (requires { x.value; }) {
    return static_cast<double>(x.value);
  } else {
    return static_cast<double>(std::real(x));
  }
}

template <class T>
class ReferenceTransformer {
 public:
  using Rows = std::vector<std::vector<T>>;  // [row][feature]
  ReferenceTransformer(const TransformerConfig& config, std::map<std::string, std::vector<T>> parameters)
      : config_(config.resolved()), parameters_(std::move(parameters)) {}

  // Logits (N, V).
  Rows logits(const Batch& batch) const {
    const auto& token_table = at("token_embedding.weight");
    const auto& position_table = at("position_embedding.weight");
    const size_t c = size(config_.channels);
    Rows x(size(batch.rows()), std::vector<T>(c));
    for (size_t n = 0; n < x.size(); ++n) {
      const size_t token = size(batch.tokens[n]);
      const size_t position = batch.positions != nullptr ? size(batch.positions[n]) : n % size(batch.time);
      for (size_t i = 0; i < c; ++i) x[n][i] = token_table[token * c + i] + position_table[position * c + i];
    }
    for (int64_t l = 0; l < config_.layers; ++l) {
      const std::string block = "blocks." + std::to_string(l) + ".";
      add(x, attention(norm(x, block + "ln1"), block + "attention.", batch));
      add(x, mlp(norm(x, block + "ln2"), block + "mlp."));
    }
    const std::string head = config_.tied_head ? "token_embedding" : "lm_head";
    return linear(norm(x, "ln_final"), at(head + ".weight"), find("lm_head.bias"));
  }

  // Mean cross-entropy over the counted targets.
  T loss(const Batch& batch) const {
    using std::exp;
    using std::log;
    const Rows z = logits(batch);
    T sum = 0.0;
    for (size_t n = 0; n < z.size(); ++n) {
      if (batch.loss_mask != nullptr && batch.loss_mask[n] == 0) continue;
      double most = real_part(z[n][0]);
      for (const T& v : z[n]) most = std::max(most, real_part(v));
      T total = 0.0;
      for (const T& v : z[n]) total += exp(v - T(most));
      sum += log(total) + T(most) - z[n][size(batch.targets[n])];
    }
    return sum / T(static_cast<double>(batch.counted_targets));
  }

  Rows attention(const Rows& x, const std::string& prefix, const Batch& batch) const {
    using std::exp;
    const size_t heads = size(config_.heads), kv = size(config_.kv_heads), d = size(config_.head_size);
    const Rows qkv = linear(x, at(prefix + "qkv.weight"), find(prefix + "qkv.bias"));
    const T scale =
        T(config_.scale != 0 ? static_cast<double>(config_.scale) : 1 / std::sqrt(static_cast<double>(d)));
    Rows out(x.size(), std::vector<T>(heads * d));
    const size_t time = size(batch.time);
    for (size_t n = 0; n < x.size(); ++n) {
      std::vector<size_t> seen;
      for (size_t m = n / time * time; m <= n; ++m) {
        if (batch.documents == nullptr || batch.documents[m] == batch.documents[n]) seen.push_back(m);
      }
      for (size_t h = 0; h < heads; ++h) {
        const size_t q = h * d, k = (heads + h / (heads / kv)) * d, v = k + kv * d;
        std::vector<T> score(seen.size());
        double most = -1e300;
        for (size_t j = 0; j < seen.size(); ++j) {
          T dot = 0.0;
          for (size_t i = 0; i < d; ++i) dot += qkv[n][q + i] * qkv[seen[j]][k + i];
          score[j] = scale * dot;
          most = std::max(most, real_part(score[j]));
        }
        T total = 0.0;
        for (T& s : score) total += s = exp(s - T(most));
        for (size_t j = 0; j < seen.size(); ++j) {
          for (size_t i = 0; i < d; ++i) out[n][h * d + i] += score[j] / total * qkv[seen[j]][v + i];
        }
      }
    }
    return linear(out, at(prefix + "projection.weight"), find(prefix + "projection.bias"));
  }

 private:
  static size_t size(int64_t n) { return static_cast<size_t>(n); }
  const std::vector<T>& at(const std::string& name) const { return parameters_.at(name); }
  const std::vector<T>* find(const std::string& name) const {
    const auto it = parameters_.find(name);
    return it == parameters_.end() ? nullptr : &it->second;
  }
  static void add(Rows& x, const Rows& y) {
    for (size_t n = 0; n < x.size(); ++n) {
      for (size_t i = 0; i < x[n].size(); ++i) x[n][i] += y[n][i];
    }
  }
  static Rows linear(const Rows& x, const std::vector<T>& weight, const std::vector<T>* bias) {
    const size_t in = x[0].size(), out = weight.size() / in;
    Rows y(x.size(), std::vector<T>(out));
    for (size_t n = 0; n < x.size(); ++n) {
      for (size_t o = 0; o < out; ++o) {
        T sum = 0.0;
        for (size_t i = 0; i < in; ++i) sum += x[n][i] * weight[o * in + i];
        y[n][o] = bias != nullptr ? sum + (*bias)[o] : sum;
      }
    }
    return y;
  }
  Rows norm(const Rows& x, const std::string& name) const {
    using std::sqrt;
    const auto& weight = at(name + ".weight");
    const auto* bias = find(name + ".bias");
    Rows y = x;
    for (auto& row : y) {
      const T c = T(static_cast<double>(row.size()));
      T mean = 0.0, variance = 0.0;
      for (const T& v : row) mean += v;
      mean = mean / c;
      for (const T& v : row) variance += (v - mean) * (v - mean);
      const T rstd = T(1.0) / sqrt(variance / c + T(1e-5));
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = (row[i] - mean) * rstd * weight[i];
        if (bias != nullptr) row[i] = row[i] + (*bias)[i];
      }
    }
    return y;
  }
  Rows mlp(const Rows& x, const std::string& prefix) const {
    using std::tanh;
    Rows h = linear(x, at(prefix + "hidden.weight"), find(prefix + "hidden.bias"));
    for (auto& row : h) {
      for (T& v : row) {
        if (config_.activation == Activation::kRelu) {
          v = real_part(v) > 0 ? v : T(0.0);
        } else {  // tanh GELU; the exact one is tested on its own
          v = T(0.5) * v * (T(1.0) + tanh(T(0.7978845608028654) * (v + T(0.044715) * v * v * v)));
        }
      }
    }
    return linear(h, at(prefix + "projection.weight"), find(prefix + "projection.bias"));
  }

  TransformerConfig config_;
  std::map<std::string, std::vector<T>> parameters_;
};

}  // namespace tril::testing
