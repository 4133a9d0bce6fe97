// Dual numbers: a value and its derivative, so that a templated reference gives the naive float gradient.
#pragma once

#include <cmath>

namespace tril::testing {

template <class T>
struct Dual {
  T value = 0, slope = 0;
  Dual() = default;
  Dual(double v) : value(static_cast<T>(v)) {}  // NOLINT: constants read as numbers
  Dual(T v, T s) : value(v), slope(s) {}
  Dual& operator+=(const Dual& o) { return *this = *this + o; }
  friend Dual operator+(const Dual& a, const Dual& b) { return {a.value + b.value, a.slope + b.slope}; }
  friend Dual operator-(const Dual& a, const Dual& b) { return {a.value - b.value, a.slope - b.slope}; }
  friend Dual operator*(const Dual& a, const Dual& b) {
    return {a.value * b.value, a.slope * b.value + a.value * b.slope};
  }
  friend Dual operator/(const Dual& a, const Dual& b) {
    return {a.value / b.value, (a.slope * b.value - a.value * b.slope) / (b.value * b.value)};
  }
};

template <class T>
Dual<T> exp(const Dual<T>& x) {
  return {std::exp(x.value), std::exp(x.value) * x.slope};
}
template <class T>
Dual<T> log(const Dual<T>& x) {
  return {std::log(x.value), x.slope / x.value};
}
template <class T>
Dual<T> sqrt(const Dual<T>& x) {
  return {std::sqrt(x.value), x.slope / (2 * std::sqrt(x.value))};
}
template <class T>
Dual<T> tanh(const Dual<T>& x) {
  const T t = std::tanh(x.value);
  return {t, (1 - t * t) * x.slope};
}

}  // namespace tril::testing
