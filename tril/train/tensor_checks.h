// Looks at the tensors of a run that goes wrong.
#pragma once

#include <optional>
#include <string>

#include "tril/nn/parameter.h"

namespace tril {

struct NonFinite {
  bool in_weight = false;  // then no later step mends it; else in gradients alone
  // "the first bad tensor is the gradient of blocks.0.mlp.hidden.bias (96): element 5 is nan, 3 of 96 are not
  // finite, the others from -0.31 to 0.4 with norm 1.2; 2 of 28 gradients are bad"
  std::string text;
};

// Weights before gradients, each in the order of the parameters; none if all are finite.
std::optional<NonFinite> find_non_finite(Executor& executor, const Parameters& parameters,
                                         bool gradients_too = true);

// Rows of a matrix that are exactly zero.
int64_t count_zero_rows(const View& matrix);  // (rows, columns)

}  // namespace tril
