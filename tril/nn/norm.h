// Layer or RMS normalisation with a weight and an optional bias; see kernels/norm.h.
#pragma once

#include "tril/kernels/norm.h"
#include "tril/nn/context.h"
#include "tril/nn/parameter.h"

namespace tril {

class Norm {
 public:
  explicit Norm(int64_t channels, bool with_bias = true, const NormOptions& options = {});

  // Saves mean and rstd; y is recomputed where backward passes need it again.
  struct State {
    View mean;  // (N)
    View rstd;  // (N)
  };
  State plan(Arena& saved, int64_t rows) const;

  // x, y, dy, dx (.., C); dx may be dy.
  void forward(const Context& context, ConstView x, View y, State& state) const;
  void apply(const Context& context, ConstView x, View y, const State& state) const;  // y again
  // dx = ..., or dx += ... with `accumulate_dx`.
  void backward(const Context& context, ConstView x, ConstView dy, View dx, bool accumulate_dx,
                const State& state);
  void visit(const std::string& prefix, ParameterVisitor visit);

  Weight weight;  // (C)
  Weight bias;    // (C), or empty

 private:
  int64_t channels_;
  bool with_bias_;
  NormOptions options_;
};

}  // namespace tril
