// Muon: momentum, orthogonalised. Jordan et al. "Muon: an optimizer for hidden layers in neural networks"
// (2024); scaled as in Liu et al. "Muon is scalable for LLM training" (2025), equation 4, so that AdamW's
// learning rate and weight decay suit it.
//
//   m = b m + (1 - b) g;  u = b m + (1 - b) g                      Nesterov's momentum
//   O = orthogonalised u: of u = U S V^T about U V^T
//   w = w - lr (0.2 sqrt(max(rows, columns)) O + decay w)
//   average = average + averaging (w - average)                    where an average of the weights is kept
//
// O comes from five steps of a Newton-Schulz iteration on X = u / |u| (Frobenius' norm), which bring every
// singular value s near 1 through a s + b s^3 + c s^5:
//   A = X X^T;  X = a X + (b A + c A A) X;  a = 3.4445, b = -4.7750, c = 2.0315
// or, with more rows than columns, the same from the other side, A = X^T X.
#pragma once

#include "tril/base/parallel.h"
#include "tril/kernels/bfloat16.h"

namespace tril {

struct MuonStep {
  float learning_rate = 0;
  float momentum = 0.95f;  // b
  float weight_decay = 0;
  float gradient_scale = 1;  // multiplies g first: the factor of global-norm clipping
  float averaging = 0;
};

template <class Stored>
struct MuonWeights {
  int64_t rows = 0, columns = 0;
  float* weights = nullptr;    // (rows, columns), as all below
  float* gradients = nullptr;  // set to zero on the way
  Stored* m = nullptr;         // bfloat16: rounded to the nearest
  float* average = nullptr;    // or null: none is kept
};

// Floats of workspace for a matrix of these sizes.
int64_t muon_workspace(int64_t rows, int64_t columns);

// The workspace must be aligned for double. Gradients must be finite.
void muon(Executor& executor, const MuonStep& step, const MuonWeights<float>& matrix, float* workspace);
void muon(Executor& executor, const MuonStep& step, const MuonWeights<Bfloat16>& matrix, float* workspace);

// The iteration alone, of x (rows, columns) with a Frobenius norm of at most 1, which is overwritten on the
// way. Returns where the result is, in the workspace.
int64_t newton_schulz_workspace(int64_t rows, int64_t columns);
const float* newton_schulz(Executor& executor, int64_t rows, int64_t columns, float* x, float* workspace);

}  // namespace tril
