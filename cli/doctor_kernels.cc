#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "cli/doctor_checks.h"
#include "tril/kernels/activation.h"
#include "tril/kernels/cross_entropy.h"
#include "tril/kernels/matmul.h"
#include "tril/kernels/norm.h"

namespace tril::cli {
namespace {

constexpr const char* kRelative = "largest difference over largest value";

// A float sum of k products in any order is off by at most about k eps sum |a b| (Higham, "Accuracy and
// stability of numerical algorithms", section 3.1).
void check_matmul(Executor& executor, Checks& checks) {
  const int64_t shapes[][3] = {{1, 1, 1},      {3, 5, 7},       {33, 65, 17},
                               {130, 70, 257}, {256, 384, 128}, {8, 8, 5000}};
  double worst = 0;
  for (const auto& [m, n, k] : shapes) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const auto a = doctor_random("doctor a", m * k), b = doctor_random("doctor b", k * n);
        std::vector<float> c(static_cast<size_t>(m * n), NAN);
        std::vector<float> workspace(static_cast<size_t>(matmul_workspace(m, n, k) + 1));
        matmul(executor,
               {.transpose_a = ta ? Transpose::kYes : Transpose::kNo,
                .transpose_b = tb ? Transpose::kYes : Transpose::kNo,
                .m = m,
                .n = n,
                .k = k,
                .a = a.data(),
                .lda = ta ? m : k,
                .b = b.data(),
                .ldb = tb ? k : n,
                .c = c.data(),
                .ldc = n},
               workspace.data());
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0, size = 0;
            for (int64_t p = 0; p < k; ++p) {
              const double x = a[static_cast<size_t>(ta ? p * m + i : i * k + p)];
              const double y = b[static_cast<size_t>(tb ? j * k + p : p * n + j)];
              sum += x * y;
              size += std::fabs(x * y);
            }
            const double error = std::fabs(c[static_cast<size_t>(i * n + j)] - sum);
            const double ratio = error / (static_cast<double>(k) * 0x1p-24 * size);
            worst = ratio > worst || std::isnan(ratio) ? ratio : worst;
          }
        }
      }
    }
  }
  checks.push_back({"matrix product", worst, 1, "largest error over k eps sum|ab|"});
}

void check_layer_norm(Executor& executor, Checks& checks) {
  const int64_t rows = 37, channels = 97;
  const auto x = doctor_random("doctor x", rows * channels, 3),
             dy = doctor_random("doctor dy", rows * channels);
  const auto weight = doctor_random("doctor weight", channels), bias = doctor_random("doctor bias", channels);
  std::vector<float> y(x.size()), mean(static_cast<size_t>(rows)), rstd(mean), dx(x.size());
  std::vector<float> dweight(static_cast<size_t>(channels)), dbias(dweight);
  std::vector<float> workspace(static_cast<size_t>(norm_backward_workspace(rows, channels) + 1));
  norm_forward(executor, {}, rows, channels, x.data(), weight.data(), bias.data(), y.data(), mean.data(),
               rstd.data());
  norm_backward(executor, NormKind::kLayer, rows, channels, x.data(), weight.data(), mean.data(), rstd.data(),
                dy.data(), dx.data(), false, dweight.data(), dbias.data(), workspace.data());
  std::vector<double> want_y(x.size()), want_dx(x.size()), want_dweight(dweight.size());
  for (int64_t r = 0; r < rows; ++r) {
    const auto at = [&](int64_t c) { return static_cast<size_t>(r * channels + c); };
    double average = 0, variance = 0, g_average = 0, gx_average = 0;
    for (int64_t c = 0; c < channels; ++c) average += x[at(c)] / static_cast<double>(channels);
    for (int64_t c = 0; c < channels; ++c)
      variance += (x[at(c)] - average) * (x[at(c)] - average) / static_cast<double>(channels);
    const double scale = 1 / std::sqrt(variance + NormOptions().epsilon);
    for (int64_t c = 0; c < channels; ++c) {
      const double xhat = (x[at(c)] - average) * scale,
                   g = double{dy[at(c)]} * weight[static_cast<size_t>(c)];
      want_y[at(c)] = xhat * weight[static_cast<size_t>(c)] + bias[static_cast<size_t>(c)];
      want_dweight[static_cast<size_t>(c)] += dy[at(c)] * xhat;
      g_average += g / static_cast<double>(channels);
      gx_average += g * xhat / static_cast<double>(channels);
    }
    for (int64_t c = 0; c < channels; ++c) {
      const double xhat = (x[at(c)] - average) * scale,
                   g = double{dy[at(c)]} * weight[static_cast<size_t>(c)];
      want_dx[at(c)] = scale * (g - g_average - xhat * gx_average);
    }
  }
  checks.push_back({"layer norm forward", relative_error(y, want_y), 2e-6, kRelative});
  checks.push_back({"layer norm backward",
                    std::max(relative_error(dx, want_dx), relative_error(dweight, want_dweight)), 5e-6,
                    kRelative});
}

void check_gelu(Executor& executor, Checks& checks) {
  const int64_t count = 4001;
  std::vector<float> x(count), y(count), dy(count, 1.0f);
  for (int64_t i = 0; i < count; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i - 2000) * 0.005f;
  activation_forward(executor, Activation::kGeluTanh, count, x.data(), y.data());
  std::vector<float> recomputed = x;
  activation_backward(executor, Activation::kGeluTanh, count, recomputed.data(), dy.data());
  std::vector<double> want(x.size()), want_d(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], a = std::sqrt(2 / std::numbers::pi);
    const double t = std::tanh(a * (v + 0.044715 * v * v * v));
    want[i] = 0.5 * v * (1 + t);
    want_d[i] = 0.5 * (1 + t) + 0.5 * v * (1 - t * t) * a * (1 + 3 * 0.044715 * v * v);
  }
  checks.push_back({"GELU forward", relative_error(y, want), 5e-7, kRelative});
  checks.push_back({"GELU backward", relative_error(dy, want_d), 2e-6, kRelative});
}

void check_cross_entropy(Executor& executor, Checks& checks) {
  const int64_t rows = 19, vocabulary = 301;
  const auto start = doctor_random("doctor logits", rows * vocabulary, 4);
  std::vector<float> logits = start, losses(static_cast<size_t>(rows));
  std::vector<int32_t> targets(static_cast<size_t>(rows));
  const RandomStream random(1, "doctor targets");
  for (size_t r = 0; r < targets.size(); ++r) targets[r] = static_cast<int32_t>(random.below(r, 301));
  cross_entropy(executor, rows, vocabulary, logits.data(), targets.data(), nullptr, 1.0f / 19, 0, 0,
                losses.data());
  std::vector<double> want_loss(losses.size()), want_d(start.size());
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = &start[static_cast<size_t>(r * vocabulary)];
    const auto target = static_cast<size_t>(targets[static_cast<size_t>(r)]);
    double largest = row[0], sum = 0;
    for (int64_t v = 0; v < vocabulary; ++v) largest = std::max(largest, double{row[v]});
    for (int64_t v = 0; v < vocabulary; ++v) sum += std::exp(row[v] - largest);
    want_loss[static_cast<size_t>(r)] = std::log(sum) + largest - row[target];
    for (int64_t v = 0; v < vocabulary; ++v)
      want_d[static_cast<size_t>(r * vocabulary + v)] =
          (std::exp(row[v] - largest) / sum - (static_cast<size_t>(v) == target ? 1 : 0)) / 19;
  }
  checks.push_back({"cross-entropy forward", relative_error(losses, want_loss), 1e-6, kRelative});
  checks.push_back({"cross-entropy backward", relative_error(logits, want_d), 1e-6, kRelative});
}

}  // namespace

void check_kernels(Executor& executor, Checks& checks) {
  check_matmul(executor, checks);
  check_layer_norm(executor, checks);
  check_gelu(executor, checks);
  check_cross_entropy(executor, checks);
}

}  // namespace tril::cli
