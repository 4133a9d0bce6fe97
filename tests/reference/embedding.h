// Token and position embedding in plain loops, in any type. Null positions: n mod time.
#pragma once

#include <cstdint>
#include <vector>

namespace tril::reference {

inline size_t index_of(const int32_t* indices, size_t n, size_t time) {
  return indices != nullptr ? static_cast<size_t>(indices[n]) : n % time;
}

template <class T>
std::vector<T> embedding_forward(size_t rows, size_t time, size_t channels, const int32_t* tokens,
                                 const int32_t* positions, const std::vector<T>& token_table,
                                 const std::vector<T>& position_table) {
  std::vector<T> y(rows * channels);
  for (size_t n = 0; n < rows; ++n) {
    for (size_t c = 0; c < channels; ++c) {
      y[n * channels + c] = token_table[static_cast<size_t>(tokens[n]) * channels + c];
      if (!position_table.empty())
        y[n * channels + c] += position_table[index_of(positions, n, time) * channels + c];
    }
  }
  return y;
}

template <class T>
void embedding_backward(size_t rows, size_t time, size_t channels, const int32_t* indices,
                        const std::vector<T>& dy, std::vector<T>& dtable) {
  for (size_t n = 0; n < rows; ++n)
    for (size_t c = 0; c < channels; ++c)
      dtable[index_of(indices, n, time) * channels + c] += dy[n * channels + c];
}

}  // namespace tril::reference
