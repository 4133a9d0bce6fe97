// Layer and RMS normalisation in plain loops, in any type.
#pragma once

#include <cmath>
#include <complex>
#include <vector>

#include "tril/kernels/norm.h"

namespace tril::reference {

template <class T>
struct Norm {
  NormOptions options;
  size_t rows, channels;
  std::vector<T> x, weight, bias;     // (N, C), (C), (C) or empty
  std::vector<T> mean, rstd, y;       // set by forward: (N), (N), (N, C)
  std::vector<T> dx, dweight, dbias;  // set by backward: (N, C), (C), (C)

  void forward() {
    const T size = static_cast<T>(static_cast<double>(channels));
    mean.assign(rows, T(0)), rstd.assign(rows, T(0)), y.assign(rows * channels, T(0));
    for (size_t n = 0; n < rows; ++n) {
      const T* row = &x[n * channels];
      T sum(0), squares(0);
      for (size_t c = 0; c < channels; ++c) sum += row[c];
      const bool layer = options.kind == NormKind::kLayer;
      mean[n] = layer ? sum / size : T(0);
      for (size_t c = 0; c < channels; ++c) squares += (row[c] - mean[n]) * (row[c] - mean[n]);
      rstd[n] = T(1) / std::sqrt(squares / size + T(options.epsilon));
      for (size_t c = 0; c < channels; ++c) {
        y[n * channels + c] = (row[c] - mean[n]) * rstd[n] * weight[c] + (bias.empty() ? T(0) : bias[c]);
      }
    }
  }

  void backward(const std::vector<T>& dy) {
    const T size = static_cast<T>(static_cast<double>(channels));
    dx.assign(rows * channels, T(0)), dweight.assign(channels, T(0)), dbias.assign(channels, T(0));
    for (size_t n = 0; n < rows; ++n) {
      const size_t row = n * channels;
      T sum_g(0), sum_gx(0);
      for (size_t c = 0; c < channels; ++c) {
        const T xhat = (x[row + c] - mean[n]) * rstd[n], g = dy[row + c] * weight[c];
        sum_g += g;
        sum_gx += g * xhat;
        dweight[c] += dy[row + c] * xhat;
        dbias[c] += dy[row + c];
      }
      const T mean_g = options.kind == NormKind::kLayer ? sum_g / size : T(0);
      for (size_t c = 0; c < channels; ++c) {
        const T xhat = (x[row + c] - mean[n]) * rstd[n], g = dy[row + c] * weight[c];
        dx[row + c] = rstd[n] * (g - mean_g - xhat * (sum_gx / size));
      }
    }
  }
};

}  // namespace tril::reference
