// Sums that chunks of work made apart, added in the order of the chunks: the same bits for any number of
// threads.
#pragma once

#include <cstdint>

namespace tril {

// out_c += sum over k of partials[k * stride + c], k in order; c in [0, count), chunks >= 1. One thread.
void add_partial_sums(int64_t chunks, int64_t stride, int64_t count, const float* partials, float* out);

}  // namespace tril
