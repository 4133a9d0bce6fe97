// C = op(A) op(B) [+ C], three plain loops in any type; each sum in the order of k.
#pragma once

#include "tril/kernels/matmul.h"

namespace tril::reference {

template <class T>
void matmul(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, const T* a,
            int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc, bool accumulate) {
  for (int64_t i = 0; i < m; ++i) {
    T* row = c + i * ldc;
    for (int64_t j = 0; j < n && !accumulate; ++j) row[j] = T(0);
    for (int64_t l = 0; l < k; ++l) {
      const T x = transpose_a == Transpose::kYes ? a[l * lda + i] : a[i * lda + l];
      for (int64_t j = 0; j < n; ++j)
        row[j] += x * (transpose_b == Transpose::kYes ? b[j * ldb + l] : b[l * ldb + j]);
    }
  }
}

}  // namespace tril::reference
