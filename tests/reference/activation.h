// Activations and their derivatives as written in the papers, in any type; erf and tanh for complex numbers.
#pragma once

#include <cmath>
#include <complex>
#include <numbers>

#include "tril/kernels/activation.h"

namespace tril::reference {

using Complex = std::complex<double>;

inline float real_part(float x) { return x; }
inline double real_part(double x) { return x; }
inline double real_part(const Complex& x) { return x.real(); }

template <class T>
T tanh_of(T x) {
  return std::tanh(x);
}

// tanh z = (1 - e^-2z) / (1 + e^-2z) for Re z >= 0, odd.
inline Complex tanh_of(const Complex& z) {
  if (z.real() < 0) return -tanh_of(-z);
  const Complex e = std::exp(-2.0 * z);
  return (1.0 - e) / (1.0 + e);
}

template <class T>
T erf_of(T x) {
  return std::erf(x);
}

// erf z = 2/sqrt(pi) e^{-z^2} sum_n 2^n z^{2n+1} / (1 3 5 ... (2n+1)) near 0 (Abramowitz & Stegun 7.1.6),
// else 1 - e^{-z^2} / sqrt(pi) * 1 / (z + (1/2) / (z + 1 / (z + (3/2) / (z + ...)))) (7.1.14) for Re z > 0.
inline Complex erf_of(const Complex& z) {
  if (z.real() < 0) return -erf_of(-z);
  const Complex gauss = std::exp(-z * z) * std::numbers::inv_sqrtpi;
  if (std::abs(z) < 3) {
    Complex term = z, sum = z;
    for (int n = 1; n < 120; ++n) sum += term *= 2.0 * z * z / (2.0 * n + 1.0);
    return 2.0 * gauss * sum;
  }
  Complex fraction = z;
  for (int n = 200; n >= 1; --n) fraction = z + 0.5 * n / fraction;
  return 1.0 - gauss / fraction;
}

template <class T>
T activate(Activation activation, T x) {
  using Real = decltype(real_part(x));
  const Real half(0.5), one(1);
  switch (activation) {
    case Activation::kRelu:
      return real_part(x) > 0 ? x : T(0);
    case Activation::kGeluTanh: {
      const Real a = std::sqrt(Real(2) * std::numbers::inv_pi_v<Real>);
      return half * x * (one + tanh_of(a * (x + Real(0.044715) * x * x * x)));
    }
    case Activation::kGeluErf:
      return half * x * (one + erf_of(x / std::numbers::sqrt2_v<Real>));
    default:
      break;
  }
  return x / (one + std::exp(-x));
}

template <class T>
T activation_slope(Activation activation, T x) {
  const T half(0.5), one(1), two(2);
  switch (activation) {
    case Activation::kRelu:
      return x > 0 ? one : T(0);
    case Activation::kGeluTanh: {
      const T a = std::sqrt(two / std::numbers::pi_v<T>), b(0.044715);
      const T t = std::tanh(a * (x + b * x * x * x));
      return half * (one + t) + half * x * (one - t * t) * a * (one + T(3) * b * x * x);
    }
    case Activation::kGeluErf:
      return half * (one + std::erf(x / std::sqrt(two))) +
             x * std::exp(-half * x * x) / std::sqrt(two * std::numbers::pi_v<T>);
    default:
      break;
  }
  const T sigma = one / (one + std::exp(-x));
  return sigma + x * sigma * (one - sigma);
}

// The activation of a gated one's gate.
inline Activation gate_of(Activation gated) {
  return gated == Activation::kSwiGlu ? Activation::kSilu : Activation::kGeluTanh;
}

}  // namespace tril::reference
