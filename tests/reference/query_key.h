// QK-norm and rotary positions of one head in plain loops, in any type.
#pragma once

#include <cmath>
#include <complex>
#include <vector>

namespace tril::reference {

// x (D) -> R (x / sqrt(avg(x^2) + epsilon) * weight). No normalisation without weights; `rotation` holds size
// / 2 cosines, then as many sines; none turn without it.
template <class T>
std::vector<T> query_key(std::vector<T> x, const std::vector<T>& weight, T epsilon,
                         const std::vector<T>& rotation, bool interleaved) {
  using std::sqrt;
  if (!weight.empty()) {
    T squares(0);
    for (const T& v : x) squares += v * v;
    const T rstd = T(1) / sqrt(squares / T(static_cast<double>(x.size())) + epsilon);
    for (size_t i = 0; i < x.size(); ++i) x[i] = x[i] * rstd * weight[i];
  }
  const size_t pairs = rotation.size() / 2;
  for (size_t i = 0; i < pairs; ++i) {
    const size_t one = interleaved ? 2 * i : i, two = interleaved ? 2 * i + 1 : pairs + i;
    const T x1 = x[one], x2 = x[two], c = rotation[i], s = rotation[pairs + i];
    x[one] = x1 * c - x2 * s;
    x[two] = x2 * c + x1 * s;
  }
  return x;
}

}  // namespace tril::reference
