#include "tril/train/scaling.h"

#include <cmath>

namespace tril {

double hoffmann_loss(double parameters, double tokens) {
  // L(N, D) = E + A / N^alpha + B / D^beta
  return 1.69 + 406.4 / std::pow(parameters, 0.34) + 410.7 / std::pow(tokens, 0.28);
}

double effective_tokens(double tokens, double passes) {
  if (passes <= 1) return tokens * passes;
  // D' = U + U R* (1 - exp(-R / R*)), R repetitions of U tokens
  constexpr double kRepetitions = 15.39;
  return tokens * (1 + kRepetitions * (1 - std::exp(-(passes - 1) / kRepetitions)));
}

}  // namespace tril
