// One step of Muon in plain loops, in any type.
#pragma once

#include <cmath>
#include <vector>

#include "tril/kernels/muon.h"

namespace tril::reference {

// a (n, k) b (k, m)
template <class T>
std::vector<T> product(size_t n, size_t k, size_t m, const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> out(n * m, T(0));
  for (size_t i = 0; i < n; ++i)
    for (size_t l = 0; l < k; ++l)
      for (size_t j = 0; j < m; ++j) out[i * m + j] += a[i * k + l] * b[l * m + j];
  return out;
}

// Always from the left, X = a X + (b A + c A A) X with A = X X^T.
template <class T>
std::vector<T> newton_schulz(size_t rows, size_t columns, std::vector<T> x) {
  for (int iteration = 0; iteration < 5; ++iteration) {
    std::vector<T> turned(columns * rows);
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) turned[j * rows + i] = x[i * columns + j];
    const std::vector<T> gram = product(rows, columns, rows, x, turned);
    std::vector<T> polynomial = product(rows, rows, rows, gram, gram);
    for (size_t i = 0; i < gram.size(); ++i)
      polynomial[i] = T(-4.7750f) * gram[i] + T(2.0315f) * polynomial[i];
    const std::vector<T> change = product(rows, rows, columns, polynomial, x);
    for (size_t i = 0; i < x.size(); ++i) x[i] = T(3.4445f) * x[i] + change[i];
  }
  return x;
}

template <class T>
void muon(const MuonStep& s, size_t rows, size_t columns, std::vector<T>& w, const std::vector<T>& gradients,
          std::vector<T>& m) {
  const T b(s.momentum), lr(s.learning_rate);
  std::vector<T> u(w.size());
  T squares(0);
  for (size_t i = 0; i < w.size(); ++i) {
    const T g = (T(1) - b) * (gradients[i] * T(s.gradient_scale));
    m[i] = b * m[i] + g;
    u[i] = b * m[i] + g;
    squares += u[i] * u[i];
  }
  for (T& x : u) x /= std::sqrt(squares);
  const std::vector<T> o = newton_schulz(rows, columns, u);
  const T scale = T(0.2) * std::sqrt(static_cast<T>(std::max(rows, columns)));
  for (size_t i = 0; i < w.size(); ++i) w[i] -= lr * (scale * o[i] + T(s.weight_decay) * w[i]);
}

}  // namespace tril::reference
