// The doctor's checks: what tril's kernels and a small model compute here, against plain loops in double.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "tril/base/parallel.h"
#include "tril/base/random.h"

namespace tril::cli {

struct CheckResult {
  std::string name;
  double error = 0;  // the largest difference, in units of the bound's meaning below
  double bound = 0;
  std::string detail;                         // what the numbers are
  bool ok() const { return error <= bound; }  // false for NaN
};

using Checks = std::vector<CheckResult>;

void check_kernels(Executor& executor, Checks& checks);    // products, layer norm, GELU, cross-entropy
void check_attention(Executor& executor, Checks& checks);  // forward and backward
void check_models(Checks& checks);                         // first loss, label shift, threads

// Standard normal numbers of a named stream.
inline std::vector<float> doctor_random(std::string_view name, int64_t count, double scale = 1) {
  const RandomStream random(1, name);
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(scale * random.normal(i));
  return x;
}

// The largest |got - want|, divided by the largest |want|. NaN if anything is not finite.
inline double relative_error(const std::vector<float>& got, const std::vector<double>& want) {
  double error = 0, scale = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(got[i]) - want[i]);
    if (!std::isfinite(difference)) return std::nan("");
    error = std::max(error, difference);
    scale = std::max(scale, std::fabs(want[i]));
  }
  return scale > 0 ? error / scale : std::nan("");
}

}  // namespace tril::cli
