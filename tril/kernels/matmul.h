// Matrix products in f32, also with weights stored in fewer bits. One header in front of two engines: oneDNN
// for large blocks, and a Highway product that neither packs nor dispatches for tiny shapes (the only engine
// in builds without oneDNN).
//
// How a product is cut into blocks depends on (M, N, K) alone; each block is computed by one thread, and
// where M and N are too small to occupy several threads K is cut into fixed chunks whose partial sums are
// added in order. So the bits do not depend on the number of threads.
#pragma once

#include "tril/base/parallel.h"
#include "tril/kernels/stored_rows.h"

namespace tril {

enum class Transpose { kNo, kYes };

// C (M, N) = op(A) op(B) [+ C]. Row-major; lda, ldb, ldc are the row strides of A, B, C as stored, in floats.
//   op(A) is (M, K): A stored (M, K), or (K, M) with kYes.   op(B) is (K, N): B stored (K, N), or (N, K) with
//   kYes.
struct Product {
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* b = nullptr;
  int64_t ldb = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;  // C += instead of C =
  // B as stored (N, K), instead of b: y = x W^T with the W of a file. A is not transposed then.
  StoredRows stored = {};
};

// Called once for each finished block of C, by the thread that computed it, while it is still in its cache:
// the place for a bias, an activation, a residual.
using Epilogue = FunctionRef<void(int64_t row, int64_t rows, int64_t column, int64_t columns)>;

// Floats of workspace that matmul needs for these sizes (0 for most). `stored`: the type of B.
int64_t matmul_workspace(int64_t m, int64_t n, int64_t k, DType stored = DType::kF32);

// k = 0 gives C = 0 (or leaves C with accumulate). Each thread makes itself about 1 MB for copies of operands
// at its first product and keeps it; beyond that tril allocates nothing.
void matmul(Executor& executor, const Product& product, float* workspace, Epilogue epilogue = {});

// "oneDNN 2.6.3" or "Highway": which engine runs large products in this build.
const char* matmul_engine();

}  // namespace tril
