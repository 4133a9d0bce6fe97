// Bias and its gradient in plain loops, in any type.
#pragma once

#include <vector>

namespace tril::reference {

template <class T>
void bias_forward(const std::vector<T>& bias, std::vector<T>& y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i % bias.size()];
}

template <class T>
void bias_backward(const std::vector<T>& dy, std::vector<T>& dbias) {
  for (size_t i = 0; i < dy.size(); ++i) dbias[i % dbias.size()] += dy[i];
}

}  // namespace tril::reference
