// AdamW over all parameters of a model: decoupled decay on matrices only, clipping by the global gradient
// norm. With --optimizer muon the hidden matrices take Muon's step instead (kernels/muon.h), with the same
// learning rate and decay. With --ema the optimizer keeps an average of the weights.
//
// All of AdamW is one pass over memory in one run of the executor, and so is the norm: parameters are cut
// into ranges, and ranges gathered into tasks, by their shapes alone.
#pragma once

#include "tril/kernels/adamw.h"
#include "tril/kernels/muon.h"
#include "tril/nn/parameter.h"
#include "tril/train/options.h"

namespace tril {

class Optimizer {
 public:
  Optimizer(Parameters& parameters, const TrainOptions& options);

  // Clips, updates, zeroes the gradients. `step` counts from 0. Returns the gradient norm before clipping; if
  // that is not finite nothing is changed (the gradients are zeroed) and the caller decides.
  double update(Executor& executor, int64_t step);
  // The two halves of update(), for a caller that looks at the gradients in between. The norm is a sum in
  // double in a fixed order: the same for any number of threads.
  double gradient_norm(Executor& executor);
  void apply(Executor& executor, int64_t step, double norm) {
    apply(executor, step, norm, learning_rate_at(options_, step));
  }
  void apply(Executor& executor, int64_t step, double norm, float learning_rate);

  // Views of the parameter's shape, f32 or bf16; empty where there is none.
  struct Moments {
    View m, v;     // v: of AdamW alone
    View average;  // of the weights, f32
  };
  const std::vector<Moments>& moments() const { return moments_; }  // as parameters.items()

  struct Memory {  // bytes
    int64_t moments = 0, averages = 0, workspace = 0;
  };
  // What an Optimizer will take; dry Parameters will do.
  static Memory plan_memory(const Parameters& parameters, const TrainOptions& options);
  int64_t bytes() const { return moments_arena_.capacity(); }  // of the moments
  int64_t average_bytes() const { return averages_arena_.capacity(); }
  int64_t workspace_bytes() const { return 4 * muon_workspace_.elements(); }

  // The averages are the weights as they are now: before the first step, and wherever weights are set anew.
  void start_averages();

 private:
  friend class AveragedWeights;
  struct Range {  // of one parameter
    size_t item;
    int64_t begin, count;
  };
  // Task k is ranges [begins[k], begins[k + 1]).
  struct Tasks {
    std::vector<Range> ranges;
    std::vector<size_t> begins;
    int64_t count() const { return std::ssize(begins) - 1; }
  };
  struct MuonMatrix {  // rows of a parameter
    size_t item;
    int64_t row_begin, rows, columns;
  };
  static std::vector<MuonMatrix> muon_matrices(const Parameters& parameters, const TrainOptions& options);
  Tasks cut(bool with_muon) const;
  void update_range(const Range& range, const AdamWFactors& factors, uint64_t rounding_key) const;
  void apply_muon(Executor& executor, const AdamWStep& step);
  void use_averages(bool on);

  Parameters& parameters_;
  TrainOptions options_;
  Arena moments_arena_ = Arena::dry(), averages_arena_ = Arena::dry();
  std::vector<Moments> moments_;
  std::vector<View> values_;  // the weights themselves, also while the model uses their averages
  Tasks adamw_tasks_, norm_tasks_;
  std::vector<double> partials_;  // one for each of the norm's ranges
  std::vector<MuonMatrix> muon_matrices_;
  Tensor muon_workspace_;
  int averages_in_use_ = 0;
};

// For its lifetime the weights of the model are their averages: views are exchanged, nothing is copied. Does
// nothing without --ema, or unless `averaged`: before the first step there is no average. Evaluating,
// sampling and saving a model are meant to stand in such a scope, steps and checkpoints outside of it.
class AveragedWeights {
 public:
  explicit AveragedWeights(Optimizer& optimizer, bool averaged = true);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  Optimizer* optimizer_;
};

}  // namespace tril
