#include "tril/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "tril/base/random.h"
#include "tril/kernels/chunks.h"

namespace tril {
namespace {

// Fewer elements than this are one task, for which no other thread is woken: waking costs more than the work.
constexpr int64_t kOneTask = 2 * kChunkElements;

bool takes_muon(const Parameters::Item& item, const TrainOptions& options) {
  return options.optimizer == "muon" && item.info.hidden;
}

// Where moments and averages lie; dry arenas only count. All first moments come before all second ones.
std::vector<Optimizer::Moments> lay_out(const Parameters& parameters, const TrainOptions& options,
                                        Arena& moments, Arena& averages) {
  const DType dtype = options.moments == "bf16" ? DType::kBF16 : DType::kF32;
  std::vector<Optimizer::Moments> out;
  for (const Parameters::Item& item : parameters.items()) {
    out.push_back({.m = moments.allocate(item.info.shape, dtype)});
    if (options.ema > 0) out.back().average = averages.allocate(item.info.shape);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const Parameters::Item& item = parameters.items()[i];
    if (!takes_muon(item, options)) out[i].v = moments.allocate(item.info.shape, dtype);
  }
  return out;
}

template <class T>
T* at(const View& view, int64_t begin) {
  return view ? reinterpret_cast<T*>(view.data) + begin : nullptr;
}

}  // namespace

Optimizer::Optimizer(Parameters& parameters, const TrainOptions& options)
    : parameters_(parameters), options_(options) {
  for (const Parameters::Item& item : parameters.items()) {
    check_use(static_cast<bool>(item.weight->gradient), "optimizer: parameter {} has no gradient",
              item.info.name);
    values_.push_back(item.weight->value);
  }
  const Memory memory = plan_memory(parameters, options);
  moments_arena_ = Arena(memory.moments);
  averages_arena_ = Arena(memory.averages);
  muon_workspace_ = Tensor({memory.workspace / 4});
  moments_ = lay_out(parameters, options, moments_arena_, averages_arena_);
  muon_matrices_ = muon_matrices(parameters, options);
  adamw_tasks_ = cut(/*with_muon=*/false);
  norm_tasks_ = cut(/*with_muon=*/true);
  partials_.resize(norm_tasks_.ranges.size());
}

Optimizer::Memory Optimizer::plan_memory(const Parameters& parameters, const TrainOptions& options) {
  Arena moments = Arena::dry(), averages = Arena::dry();
  lay_out(parameters, options, moments, averages);
  int64_t floats = 0;
  for (const MuonMatrix& matrix : muon_matrices(parameters, options))
    floats = std::max(floats, muon_workspace(matrix.rows, matrix.columns));
  return {moments.peak(), averages.peak(), dtype_bytes(DType::kF32, floats)};
}

// Query, key and value of a fused projection are matrices of their own.
std::vector<Optimizer::MuonMatrix> Optimizer::muon_matrices(const Parameters& parameters,
                                                            const TrainOptions& options) {
  std::vector<MuonMatrix> out;
  for (size_t i = 0; i < parameters.items().size(); ++i) {
    const ParameterInfo& info = parameters.items()[i].info;
    if (!takes_muon(parameters.items()[i], options)) continue;
    for (const ParameterPart& part : info.parts)
      out.push_back({i, part.row_begin, part.row_end - part.row_begin, info.shape[1]});
    if (info.parts.empty()) out.push_back({i, 0, info.shape[0], info.shape[1]});
  }
  return out;
}

Optimizer::Tasks Optimizer::cut(bool with_muon) const {
  Tasks tasks;
  int64_t total = 0;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!with_muon && takes_muon(parameters_.items()[i], options_)) continue;
    const int64_t count = values_[i].elements();
    for (int64_t begin = 0; begin < count; begin += kChunkElements)
      tasks.ranges.push_back({i, begin, std::min(kChunkElements, count - begin)});
    total += count;
  }
  const int64_t least = total < kOneTask ? kOneTask : kChunkElements;
  int64_t gathered = least;
  for (size_t r = 0; r < tasks.ranges.size(); ++r) {
    if (gathered >= least) tasks.begins.push_back(r), gathered = 0;
    gathered += tasks.ranges[r].count;
  }
  tasks.begins.push_back(tasks.ranges.size());
  return tasks;
}

double Optimizer::gradient_norm(Executor& executor) {
  const Tasks& tasks = norm_tasks_;
  executor.run(tasks.count(), [&](int64_t task, int) {
    const auto k = static_cast<size_t>(task);
    for (size_t r = tasks.begins[k]; r < tasks.begins[k + 1]; ++r) {
      const Range& range = tasks.ranges[r];
      const View& gradient = parameters_.items()[range.item].weight->gradient;
      partials_[r] = sum_of_squares(range.count, gradient.f32() + range.begin);
    }
  });
  double total = 0, sum = 0;  // sum: of one parameter
  for (size_t r = 0; r < partials_.size(); ++r) {
    if (tasks.ranges[r].begin == 0) total += sum, sum = 0;
    sum += partials_[r];
  }
  return std::sqrt(total + sum);
}

void Optimizer::update_range(const Range& range, const AdamWFactors& factors, uint64_t rounding_key) const {
  const Moments& moments = moments_[range.item];
  float* const weights = at<float>(values_[range.item], range.begin);
  float* const gradients = at<float>(parameters_.items()[range.item].weight->gradient, range.begin);
  float* const average = at<float>(moments.average, range.begin);
  if (moments.m.dtype == DType::kBF16) {
    adamw_range(factors,
                {range.count, weights, gradients, at<Bfloat16>(moments.m, range.begin),
                 at<Bfloat16>(moments.v, range.begin), average},
                {rounding_key, range.item, static_cast<uint64_t>(range.begin)});
  } else {
    adamw_range(factors, {range.count, weights, gradients, at<float>(moments.m, range.begin),
                          at<float>(moments.v, range.begin), average});
  }
}

// g <- g min(1, clip / |g|);  then AdamW, see kernels/adamw.h.
void Optimizer::apply(Executor& executor, int64_t step, double norm, float learning_rate) {
  AdamWStep update;
  update.learning_rate = learning_rate;
  update.beta1 = options_.beta1;
  update.beta2 = options_.beta2;
  update.epsilon = options_.epsilon;
  if (options_.clip > 0 && norm > options_.clip)
    update.gradient_scale = static_cast<float>(options_.clip / norm);
  update.step = step + 1;
  // An average of the last 1 / (1 - ema) steps, early on of the last tenth: the first weights are soon
  // forgotten.
  update.averaging = std::max(1 - options_.ema, 9.0f / static_cast<float>(update.step + 8));
  const AdamWFactors without_decay = adamw_factors(update);
  update.weight_decay = options_.weight_decay;
  const AdamWFactors with_decay = adamw_factors(update);
  const uint64_t rounding_key =
      stream_key(stream_key(options_.seed, "moments") + static_cast<uint64_t>(step), "rounding");
  const Tasks& tasks = adamw_tasks_;
  executor.run(tasks.count(), [&](int64_t task, int) {
    const auto k = static_cast<size_t>(task);
    for (size_t r = tasks.begins[k]; r < tasks.begins[k + 1]; ++r) {
      const Range& range = tasks.ranges[r];
      const bool decay = options_.decay_all || parameters_.items()[range.item].info.decay;
      update_range(range, decay ? with_decay : without_decay, rounding_key);
    }
  });
  if (options_.optimizer == "muon") apply_muon(executor, update);
}

void Optimizer::apply_muon(Executor& executor, const AdamWStep& step) {
  const MuonStep update{.learning_rate = step.learning_rate,
                        .weight_decay = step.weight_decay,
                        .gradient_scale = step.gradient_scale,
                        .averaging = step.averaging};
  for (const MuonMatrix& matrix : muon_matrices_) {
    const Moments& moments = moments_[matrix.item];
    const int64_t begin = matrix.row_begin * matrix.columns;
    float* const weights = at<float>(values_[matrix.item], begin);
    float* const gradients = at<float>(parameters_.items()[matrix.item].weight->gradient, begin);
    float* const average = at<float>(moments.average, begin);
    const auto run = [&](auto* m) {
      using Matrix = MuonWeights<std::remove_pointer_t<decltype(m)>>;
      muon(executor, update, Matrix{matrix.rows, matrix.columns, weights, gradients, m, average},
           muon_workspace_.f32());
    };
    if (moments.m.dtype == DType::kBF16)
      run(at<Bfloat16>(moments.m, begin));
    else
      run(at<float>(moments.m, begin));
  }
}

double Optimizer::update(Executor& executor, int64_t step) {
  const double norm = gradient_norm(executor);
  if (std::isfinite(norm)) {
    apply(executor, step, norm);
  } else {
    parameters_.zero_gradients();
  }
  return norm;
}

void Optimizer::start_averages() {
  for (size_t i = 0; i < values_.size(); ++i)
    if (moments_[i].average) std::copy_n(values_[i].f32(), values_[i].elements(), moments_[i].average.f32());
}

void Optimizer::use_averages(bool on) {
  for (size_t i = 0; i < values_.size(); ++i)
    parameters_.items()[i].weight->value = on ? moments_[i].average : values_[i];
}

AveragedWeights::AveragedWeights(Optimizer& optimizer, bool averaged)
    : optimizer_(averaged && optimizer.options_.ema > 0 ? &optimizer : nullptr) {
  if (optimizer_ != nullptr && optimizer_->averages_in_use_++ == 0) optimizer_->use_averages(true);
}

AveragedWeights::~AveragedWeights() {
  if (optimizer_ != nullptr && --optimizer_->averages_in_use_ == 0) optimizer_->use_averages(false);
}

}  // namespace tril
