// Rotary position embedding: pairs of features of a query or key turn by an angle that grows with the
// position, so that q . k depends on the distance alone. Su et al. "RoFormer" (2021), section 3.4.
//
//   (x1, x2) at position p and pair i of size / 2:   angle = p * frequency_i
//   y1 = x1 cos - x2 sin,   y2 = x2 cos + x1 sin
//   frequency_i = base^(-2 i / size), changed by the scaling:
//     kLinear  / factor. Chen et al. "Extending context window ..." (2023)
//     kNtk     base * factor^(size / (size - 2)) in place of base. bloc97 (2023)
//     kLlama3  long wavelengths / factor, short ones as they are, a ramp between. Llama 3.1's
//     kYarn    the same with a ramp over pairs, and cos and sin times 0.1 ln(factor) + 1. Peng et al. (2023)
#pragma once

#include <string_view>

#include "tril/base/parallel.h"

namespace tril {

enum class RopeScaling { kNone, kLinear, kNtk, kLlama3, kYarn };

struct RopeConfig {
  float base = 10000;
  int64_t size = 0;          // features that turn, the first ones of a head; even. 0: all
  bool interleaved = false;  // pairs (0, 1), (2, 3), ...; otherwise (0, size / 2), (1, size / 2 + 1), ...
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1;              // how much longer the context is than the original one
  int64_t original_context = 0;  // of kLlama3 and kYarn
  float low_frequency_factor = 1, high_frequency_factor = 4;  // of kLlama3
  float beta_fast = 32, beta_slow = 1;                        // of kYarn: turns in the original context
  float attention_factor = 0;                                 // of kYarn; 0: 0.1 ln(factor) + 1
  bool operator==(const RopeConfig&) const = default;
};

std::string_view rope_scaling_name(RopeScaling scaling);    // "none", "linear", "ntk", "llama3", "yarn"
RopeScaling rope_scaling_from_name(std::string_view name);  // throws kUse

// Throws kUse, with the values, for what cannot be.
void check_rope(const RopeConfig& rope, int64_t head_size);
inline int64_t rope_size(const RopeConfig& rope, int64_t head_size) {
  return rope.size != 0 ? rope.size : head_size;
}

// frequencies (size / 2); returns the factor of cos and sin.
float rope_frequencies(const RopeConfig& rope, int64_t head_size, double* frequencies);

// rotation (rows, size): the cosines of a row's pairs, then the sines. `positions` (rows), or null: row r
// stands at position r.
void rope_rotation(Executor& executor, const RopeConfig& rope, int64_t head_size, int64_t rows,
                   const int32_t* positions, float* rotation);

}  // namespace tril
