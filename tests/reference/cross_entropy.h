// Softmax and cross-entropy of one row in plain loops, in any type.
#pragma once

#include <cmath>
#include <vector>

#include "tests/reference/activation.h"

namespace tril::reference {

// The row's softmax; the largest real part is subtracted first.
template <class T>
std::vector<T> softmax(const std::vector<T>& logits) {
  auto max = real_part(logits[0]);
  for (const T& x : logits) max = std::max(max, real_part(x));
  std::vector<T> out;
  T sum(0);
  for (const T& x : logits) sum += out.emplace_back(std::exp(x - max));
  for (T& x : out) x /= sum;
  return out;
}

template <class T>
T cross_entropy_loss(const std::vector<T>& logits, size_t target) {
  auto max = real_part(logits[0]);
  for (const T& x : logits) max = std::max(max, real_part(x));
  T sum(0);
  for (const T& x : logits) sum += std::exp(x - max);
  return std::log(sum) + max - logits[target];
}

// log sum exp of the logits.
template <class T>
T log_partition(const std::vector<T>& logits) {
  return cross_entropy_loss(logits, 0) + logits[0];
}

// Of cross-entropy with smoothed labels and z_loss log^2 Z.
template <class T>
std::vector<T> cross_entropy_gradient(const std::vector<T>& logits, size_t target, T scale, T z_loss = T(0),
                                      T smoothing = T(0)) {
  std::vector<T> out = softmax(logits);
  const T pull = T(1) + T(2) * z_loss * log_partition(logits);
  for (T& x : out) x *= pull;
  out[target] -= T(1) - smoothing;
  for (T& x : out) x -= smoothing / static_cast<T>(static_cast<double>(out.size()));
  for (T& x : out) x *= scale;
  return out;
}

}  // namespace tril::reference
