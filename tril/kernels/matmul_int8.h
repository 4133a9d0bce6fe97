// Many rows times block-quantised rows, y = x W^T, in 8-bit integers on the matrix registers of x86's AMX,
// which multiply eight times as fast as floats do.
//
// Each block of 32 elements of x is rounded to 8 bits with a scale, as GGML does: to 1/254 of its largest
// element.
#pragma once

#include "tril/kernels/matmul.h"

namespace tril {

// Whether this processor has them, the system lets this process use them, and Highway's targets are not
// limited to narrower ones.
bool has_int8_products();

// Floats of workspace for x (m, k).
int64_t int8_workspace(int64_t m, int64_t k);

// The product `p`, whose `stored` is quantised.
void matmul_int8(Executor& executor, const Product& p, float* workspace, Epilogue epilogue);

}  // namespace tril
