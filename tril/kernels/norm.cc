#include "tril/kernels/norm.h"

#include <cmath>

#include "tril/kernels/chunks.h"
#include "tril/kernels/partial_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/norm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/rows-inl.h"

#ifndef TRIL_KERNELS_NORM_ROWS_
#define TRIL_KERNELS_NORM_ROWS_
namespace tril {
namespace {

// A chunk of rows of the backward pass.
struct BackwardRows {
  NormKind kind;
  size_t rows, channels;
  const float* x;
  const float* weight;
  const float* mean;
  const float* rstd;
  const float* dy;
  float* dx;
  float* dweight;  // the sums over these rows; overwritten
  float* dbias;
};

}  // namespace
}  // namespace tril
#endif

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

// y = (x - mean) * rstd * weight + bias
HWY_INLINE void apply_row(size_t channels, const float* x, const float* weight, const float* bias, float mean,
                          float rstd, float* y) {
  const FloatTag d;
  const FloatVector m = hn::Set(d, mean), r = hn::Set(d, rstd);
  if (bias != nullptr) {
    for_each_vector(channels, [&](size_t c, auto access) HWY_ATTR {
      const FloatVector xhat = hn::Mul(hn::Sub(access.load(x + c), m), r);
      access.store(hn::MulAdd(xhat, access.load(weight + c), access.load(bias + c)), y + c);
    });
  } else {
    for_each_vector(channels, [&](size_t c, auto access) HWY_ATTR {
      const FloatVector xhat = hn::Mul(hn::Sub(access.load(x + c), m), r);
      access.store(hn::Mul(xhat, access.load(weight + c)), y + c);
    });
  }
}

void apply_rows(size_t rows, size_t channels, const float* x, const float* weight, const float* bias,
                const float* mean, const float* rstd, float* y) {
  for (size_t n = 0; n < rows; ++n) {
    apply_row(channels, x + n * channels, weight, bias, mean[n], rstd[n], y + n * channels);
  }
}

void forward_rows(const NormOptions& options, size_t rows, size_t channels, const float* x,
                  const float* weight, const float* bias, float* y, float* mean, float* rstd) {
  const FloatTag d;
  const double size = static_cast<double>(channels);
  for (size_t n = 0; n < rows; ++n) {
    const float* row = x + n * channels;
    mean[n] = 0;
    if (options.kind == NormKind::kLayer) {
      mean[n] = static_cast<float>(
          sum_of(channels, [&](size_t c, auto access) HWY_ATTR { return access.load(row + c); }) / size);
    }
    // The variance from deviations: the mean of squares minus the square of the mean would cancel.
    const FloatVector m = hn::Set(d, mean[n]);
    const double squares = sum_of(channels, [&](size_t c, auto access) HWY_ATTR {
      const FloatVector deviation = hn::Sub(access.load(row + c), m);
      return hn::Mul(deviation, deviation);
    });
    rstd[n] = static_cast<float>(1.0 / std::sqrt(squares / size + options.epsilon));
    apply_row(channels, row, weight, bias, mean[n], rstd[n], y + n * channels);
  }
}

// The averages of g = dy * weight and of g * xhat.
struct Averages {
  float g, gx;
};

HWY_INLINE Averages averages(size_t channels, const float* x, const float* dy, const float* weight,
                             FloatVector mean, FloatVector rstd) {
  const FloatTag d;
  const double size = static_cast<double>(channels);
  double sum_g = 0, sum_gx = 0;
  for (size_t begin = 0; begin < channels; begin += kSumBlock) {
    const float *xb = x + begin, *dyb = dy + begin, *wb = weight + begin;
    FloatVector g = hn::Zero(d), gx = g;
    for_each_vector(std::min(kSumBlock, channels - begin), [&](size_t c, auto access) HWY_ATTR {
      // In lanes outside the row g is 0.
      const FloatVector xhat = hn::Mul(hn::Sub(access.load(xb + c), mean), rstd);
      const FloatVector gc = hn::Mul(access.load(dyb + c), access.load(wb + c));
      g = hn::Add(g, gc);
      gx = hn::MulAdd(gc, xhat, gx);
    });
    sum_g += hn::GetLane(hn::SumOfLanes(d, g));
    sum_gx += hn::GetLane(hn::SumOfLanes(d, gx));
  }
  return {static_cast<float>(sum_g / size), static_cast<float>(sum_gx / size)};
}

// One row: dx, and the row's terms added to the sums.
template <bool kAccumulate>
HWY_INLINE void backward_row(const BackwardRows& p, size_t n) {
  const FloatTag d;
  const float* x = p.x + n * p.channels;
  const float* dy = p.dy + n * p.channels;
  float* dx = p.dx + n * p.channels;
  const FloatVector mean = hn::Set(d, p.mean[n]), rstd = hn::Set(d, p.rstd[n]);
  const Averages avg = averages(p.channels, x, dy, p.weight, mean, rstd);
  const FloatVector avg_g = hn::Set(d, p.kind == NormKind::kLayer ? avg.g : 0.0f);
  const FloatVector avg_gx = hn::Set(d, avg.gx);
  for_each_vector(p.channels, [&](size_t c, auto access) HWY_ATTR {
    const FloatVector xhat = hn::Mul(hn::Sub(access.load(x + c), mean), rstd);
    const FloatVector dyc = access.load(dy + c);
    const FloatVector g = hn::Mul(dyc, access.load(p.weight + c));
    // dx = rstd * (g - avg(g) - xhat * avg(g * xhat))
    const FloatVector projected = hn::NegMulAdd(xhat, avg_gx, hn::Sub(g, avg_g));
    if constexpr (kAccumulate) {
      access.store(hn::MulAdd(projected, rstd, access.load(dx + c)), dx + c);
    } else {
      access.store(hn::Mul(projected, rstd), dx + c);
    }
    access.store(hn::MulAdd(dyc, xhat, access.load(p.dweight + c)), p.dweight + c);
    access.store(hn::Add(dyc, access.load(p.dbias + c)), p.dbias + c);
  });
}

void backward_rows(const BackwardRows& p, bool accumulate) {
  std::fill(p.dweight, p.dweight + p.channels, 0.0f);
  std::fill(p.dbias, p.dbias + p.channels, 0.0f);
  for (size_t n = 0; n < p.rows; ++n) {
    if (accumulate) {
      backward_row<true>(p, n);
    } else {
      backward_row<false>(p, n);
    }
  }
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(apply_rows);
HWY_EXPORT(forward_rows);
HWY_EXPORT(backward_rows);

void norm_forward(Executor& executor, const NormOptions& options, int64_t rows, int64_t channels,
                  const float* x, const float* weight, const float* bias, float* y, float* mean,
                  float* rstd) {
  parallel_for(executor, rows, rows_per_chunk(channels), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(forward_rows)
    (options, static_cast<size_t>(end - begin), static_cast<size_t>(channels), x + begin * channels, weight,
     bias, y + begin * channels, mean + begin, rstd + begin);
  });
}

void norm_apply(Executor& executor, int64_t rows, int64_t channels, const float* x, const float* weight,
                const float* bias, const float* mean, const float* rstd, float* y) {
  parallel_for(executor, rows, rows_per_chunk(channels), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(apply_rows)
    (static_cast<size_t>(end - begin), static_cast<size_t>(channels), x + begin * channels, weight, bias,
     mean + begin, rstd + begin, y + begin * channels);
  });
}

int64_t norm_backward_workspace(int64_t rows, int64_t channels) {
  return 2 * summed_chunks(rows, channels) * channels;
}

void norm_backward(Executor& executor, NormKind kind, int64_t rows, int64_t channels, const float* x,
                   const float* weight, const float* mean, const float* rstd, const float* dy, float* dx,
                   bool accumulate_dx, float* dweight, float* dbias, float* workspace) {
  const int64_t grain = summed_rows_per_chunk(rows, channels);
  const int64_t stride = 2 * channels;  // a chunk's sums: dweight, then dbias
  parallel_for(executor, rows, grain, [&](int64_t begin, int64_t end, int) {
    float* sums = workspace + begin / grain * stride;
    const BackwardRows chunk{kind,
                             static_cast<size_t>(end - begin),
                             static_cast<size_t>(channels),
                             x + begin * channels,
                             weight,
                             mean + begin,
                             rstd + begin,
                             dy + begin * channels,
                             dx + begin * channels,
                             sums,
                             sums + channels};
    HWY_DYNAMIC_DISPATCH(backward_rows)(chunk, accumulate_dx);
  });
  const int64_t chunks = divide_up(rows, grain);
  if (chunks == 0) return;
  parallel_for(executor, channels, kSummedColumns, [&](int64_t begin, int64_t end, int) {
    add_partial_sums(chunks, stride, end - begin, workspace + begin, dweight + begin);
    if (dbias != nullptr)
      add_partial_sums(chunks, stride, end - begin, workspace + channels + begin, dbias + begin);
  });
}

}  // namespace tril
#endif  // HWY_ONCE
