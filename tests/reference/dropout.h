// Dropout in a plain loop; the mask word of element i is RandomStream::bits(i).
#pragma once

#include <string_view>
#include <vector>

#include "tril/base/random.h"

namespace tril::reference {

inline bool dropped(const RandomStream& random, uint64_t i, float probability) {
  return static_cast<double>(random.bits(i)) < static_cast<double>(probability) * 0x1p32;
}

template <class T>
std::vector<T> dropout(const RandomStream& random, float probability, const std::vector<T>& x) {
  std::vector<T> y;
  for (size_t i = 0; i < x.size(); ++i) {
    y.push_back(dropped(random, i, probability) ? T(0) : x[i] * T(1.0 / (1.0 - double{probability})));
  }
  return y;
}

}  // namespace tril::reference
