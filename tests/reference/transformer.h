// The whole model as plain loops over one scalar type: float, double, std::complex<double> or Dual<float>.
// Slow and obvious; no dropout.
#pragma once

#include <cmath>
#include <complex>
#include <map>
#include <string>
#include <vector>

#include "tests/reference/activation.h"
#include "tests/reference/dual.h"
#include "tests/reference/query_key.h"
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

  // What enters block `layer` (N, C).
  Rows stream(const Batch& batch, int64_t layer) const {
    const auto& token_table = at("token_embedding.weight");
    const auto* position_table = find("position_embedding.weight");
    const size_t c = size(config_.channels);
    Rows x(size(batch.rows()), std::vector<T>(c));
    for (size_t n = 0; n < x.size(); ++n) {
      const size_t token = size(batch.tokens[n]);
      for (size_t i = 0; i < c; ++i) {
        x[n][i] = token_table[token * c + i];
        if (position_table != nullptr) x[n][i] += (*position_table)[position_of(batch, n) * c + i];
      }
    }
    for (int64_t l = 0; l < layer; ++l) {
      const std::string block = block_name(l);
      Rows before = x;
      add(x, attention(norm(x, block + "ln1"), block + "attention.", batch));
      add(x, mlp(norm(config_.parallel_residual ? before : x, block + "ln2"), block + "mlp."));
    }
    return x;
  }

  // Logits (N, V).
  Rows logits(const Batch& batch) const {
    const std::string head = config_.tied_head ? "token_embedding" : "lm_head";
    Rows out =
        linear(norm(stream(batch, config_.layers), "ln_final"), at(head + ".weight"), find("lm_head.bias"));
    for (auto& row : out) {
      for (T& v : row) v = capped(v, config_.logit_softcap);
    }
    return out;
  }

  // Mean cross-entropy over the counted targets, of labels smoothed by `smoothing`; `z_loss` times the square
  // of log Z added to each.
  T loss(const Batch& batch, double z_loss = 0, double smoothing = 0) const {
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
      const T log_z = log(total) + T(most);
      sum += log_z + T(z_loss) * log_z * log_z - T(1 - smoothing) * z[n][size(batch.targets[n])];
      for (const T& v : z[n]) sum += T(-smoothing / static_cast<double>(z[n].size())) * v;
    }
    return sum / T(static_cast<double>(batch.counted_targets));
  }

  // What each row gives to each, in one head, and to the head's sink (N, N + 1).
  Rows weights(const Batch& batch, int64_t layer, size_t head) const {
    const std::string prefix = block_name(layer) + "attention.";
    const Rows qkv = project(norm(stream(batch, layer), block_name(layer) + "ln1"), prefix, batch);
    Rows out;
    for (size_t n = 0; n < qkv.size(); ++n) out.push_back(weights_of(qkv, n, head, prefix, batch));
    return out;
  }

  Rows attention(const Rows& x, const std::string& prefix, const Batch& batch) const {
    const size_t heads = size(config_.heads), d = size(config_.head_size);
    const Rows qkv = project(x, prefix, batch);
    Rows out(x.size(), std::vector<T>(heads * d));
    for (size_t n = 0; n < x.size(); ++n) {
      for (size_t h = 0; h < heads; ++h) {
        const size_t v = key_column(h) + size(config_.kv_heads) * d;
        const std::vector<T> weight = weights_of(qkv, n, h, prefix, batch);
        for (size_t m = 0; m < x.size(); ++m) {
          if (!sees(batch, n, m)) continue;
          for (size_t i = 0; i < d; ++i) out[n][h * d + i] += weight[m] * qkv[m][v + i];
        }
      }
    }
    return linear(out, at(prefix + "projection.weight"), find(prefix + "projection.bias"));
  }

 private:
  static size_t position_of(const Batch& batch, size_t n) {
    return batch.positions != nullptr ? size(batch.positions[n]) : n % size(batch.time);
  }
  static std::string block_name(int64_t layer) { return "blocks." + std::to_string(layer) + "."; }
  // Queries, keys and values of each row, normalised and turned.
  Rows project(const Rows& x, const std::string& prefix, const Batch& batch) const {
    Rows qkv = linear(x, at(prefix + "qkv.weight"), find(prefix + "qkv.bias"));
    for (size_t n = 0; n < x.size(); ++n) {
      for (size_t h = 0; h < size(config_.heads + config_.kv_heads); ++h)
        normalise_and_turn(qkv[n], h, prefix, position_of(batch, n));
    }
    return qkv;
  }
  // Of the key that head h reads.
  size_t key_column(size_t h) const {
    return (size(config_.heads) + h / size(config_.heads / config_.kv_heads)) * size(config_.head_size);
  }
  // Row n in head h: its weights, 0 for rows it does not see; the last is the sink's, 0 without.
  std::vector<T> weights_of(const Rows& qkv, size_t n, size_t h, const std::string& prefix,
                            const Batch& batch) const {
    using std::exp;
    const size_t d = size(config_.head_size), k = key_column(h);
    const AttentionVariants& variants = config_.attention;
    const auto* sinks = find(prefix + "sinks");
    const T scale =
        T(config_.scale != 0 ? static_cast<double>(config_.scale) : 1 / std::sqrt(static_cast<double>(d)));
    std::vector<T> weight(qkv.size() + 1, T(0.0));
    std::vector<size_t> seen;
    double most = -1e300;
    for (size_t m = 0; m < qkv.size(); ++m) {
      if (!sees(batch, n, m)) continue;
      seen.push_back(m);
      T dot = 0.0;
      for (size_t i = 0; i < d; ++i) dot += qkv[n][h * d + i] * qkv[m][k + i];
      weight[m] = capped(scale * dot, variants.softcap);
      if (variants.positions == Positions::kAlibi) {
        const double distance = std::abs(static_cast<double>(n) - static_cast<double>(m));
        weight[m] += T(-alibi_slope(h) * distance);
      }
      most = std::max(most, real_part(weight[m]));
    }
    T total = 0.0;
    for (const size_t m : seen) total += weight[m] = exp(weight[m] - T(most));
    if (sinks != nullptr && !seen.empty()) total += weight.back() = exp((*sinks)[h] - T(most));
    for (const size_t m : seen) weight[m] = weight[m] / total;
    if (!seen.empty()) weight.back() = weight.back() / total;
    return weight;
  }
  static T capped(const T& x, float cap) {
    using std::tanh;
    return cap > 0 ? T(double{cap}) * tanh(x / T(double{cap})) : x;
  }
  bool sees(const Batch& batch, size_t n, size_t m) const {
    const size_t time = size(batch.time), window = size(config_.attention.window);
    const bool in_prefix = batch.prefix != nullptr && static_cast<int64_t>(m % time) < batch.prefix[n / time];
    const bool near = m <= n && (window == 0 || m + window > n);
    const bool same =
        batch.documents == nullptr || (batch.documents[m] == batch.documents[n] && batch.documents[m] >= 0);
    return n / time == m / time && (in_prefix || near) && same;
  }
  // Press et al. (2021): for a power of two of heads.
  double alibi_slope(size_t h) const {
    return std::pow(2.0, -8.0 * static_cast<double>(h + 1) / static_cast<double>(config_.heads));
  }
  // QK-norm and rotary position of head h (query heads first, then keys) of one row.
  void normalise_and_turn(std::vector<T>& row, size_t h, const std::string& prefix, size_t position) const {
    const size_t d = size(config_.head_size);
    const auto begin = row.begin() + static_cast<std::ptrdiff_t>(h * d);
    std::vector<T> weight, rotation;
    if (config_.attention.qk_norm)
      weight = at(prefix + (h < size(config_.heads) ? "query_norm.weight" : "key_norm.weight"));
    const RopeConfig& rope = config_.attention.rope;
    if (config_.attention.positions == Positions::kRope) {  // scalings are tested on their own
      const size_t turned = rope.size != 0 ? size(rope.size) : d;
      for (size_t i = 0; i < turned; ++i) {
        const double pair = static_cast<double>(i % (turned / 2));
        const double angle = static_cast<double>(position) *
                             std::pow(double{rope.base}, -2 * pair / static_cast<double>(turned));
        rotation.push_back(T(i < turned / 2 ? std::cos(angle) : std::sin(angle)));
      }
    }
    const auto y = reference::query_key<T>({begin, begin + static_cast<std::ptrdiff_t>(d)}, weight,
                                           T(double{config_.norm.epsilon}), rotation, rope.interleaved);
    std::copy(y.begin(), y.end(), begin);
  }
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
      if (config_.norm.kind == NormKind::kLayer) {
        for (const T& v : row) mean += v;
        mean = mean / c;
      }
      for (const T& v : row) variance += (v - mean) * (v - mean);
      const T rstd = T(1.0) / sqrt(variance / c + T(double{config_.norm.epsilon}));
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = (row[i] - mean) * rstd * weight[i];
        if (bias != nullptr) row[i] = row[i] + (*bias)[i];
      }
    }
    return y;
  }
  // The exact GELU is tested on its own.
  static T activate(Activation activation, const T& v) {
    using std::exp;
    using std::tanh;
    if (activation == Activation::kRelu) return real_part(v) > 0 ? v : T(0.0);
    if (activation == Activation::kSilu) return v / (T(1.0) + exp(T(-1.0) * v));
    return T(0.5) * v * (T(1.0) + tanh(T(0.7978845608028654) * (v + T(0.044715) * v * v * v)));
  }
  Rows mlp(const Rows& x, const std::string& prefix) const {
    Rows h = linear(x, at(prefix + "hidden.weight"), find(prefix + "hidden.bias"));
    const Activation activation = config_.activation;
    Rows gate;
    if (is_gated(activation)) gate = linear(x, at(prefix + "gate.weight"), find(prefix + "gate.bias"));
    for (size_t n = 0; n < h.size(); ++n) {
      for (size_t i = 0; i < h[n].size(); ++i) {
        h[n][i] = gate.empty() ? activate(activation, h[n][i])
                               : activate(reference::gate_of(activation), gate[n][i]) * h[n][i];
      }
    }
    return linear(h, at(prefix + "projection.weight"), find(prefix + "projection.bias"));
  }

  TransformerConfig config_;
  std::map<std::string, std::vector<T>> parameters_;
};

}  // namespace tril::testing
