// One AdamW step in plain loops, the formulas in the order of the paper.
#pragma once

#include <cmath>
#include <vector>

#include "tril/kernels/adamw.h"

namespace tril::reference {

template <class T>
void adamw(const AdamWStep& s, std::vector<T>& w, const std::vector<T>& gradients, std::vector<T>& m,
           std::vector<T>& v) {
  const T lr(s.learning_rate), b1(s.beta1), b2(s.beta2), one(1);
  const T c1 = one - std::pow(b1, static_cast<T>(s.step)), c2 = one - std::pow(b2, static_cast<T>(s.step));
  for (size_t i = 0; i < w.size(); ++i) {
    const T g = gradients[i] * T(s.gradient_scale);
    m[i] = b1 * m[i] + (one - b1) * g;
    v[i] = b2 * v[i] + (one - b2) * g * g;
    w[i] -= lr * T(s.weight_decay) * w[i];
    w[i] -= lr * (m[i] / c1) / (std::sqrt(v[i] / c2) + T(s.epsilon));
  }
}

}  // namespace tril::reference
