#include "tril/kernels/query_key.h"

#include <cmath>

#include "tril/kernels/chunks.h"
#include "tril/kernels/partial_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/query_key.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

// y = R x; `sign` -1 turns back. y may be x.
void rotate(const QueryKey& o, int64_t n, float sign, const float* x, float* y) {
  const int64_t pairs = o.rope_size / 2;
  const float* const cosines = o.rotation + n % o.rotation_rows * o.rope_size;
  const float* const sines = cosines + pairs;
  if (o.interleaved) {
    for (int64_t i = 0; i < pairs; ++i) {
      const float x1 = x[2 * i], x2 = x[2 * i + 1], c = cosines[i], s = sign * sines[i];
      y[2 * i] = x1 * c - x2 * s;
      y[2 * i + 1] = x2 * c + x1 * s;
    }
    return;
  }
  const FloatVector signs = hn::Set(FloatTag(), sign);
  for_each_vector(static_cast<size_t>(pairs), [&](size_t i, auto access) HWY_ATTR {
    const FloatVector x1 = access.load(x + i), x2 = access.load(x + pairs + i);
    const FloatVector c = access.load(cosines + i), s = hn::Mul(access.load(sines + i), signs);
    access.store(hn::NegMulAdd(x2, s, hn::Mul(x1, c)), y + i);
    access.store(hn::MulAdd(x1, s, hn::Mul(x2, c)), y + pairs + i);
  });
}

float rstd_of(const QueryKey& o, const float* x) {
  const auto size = static_cast<size_t>(o.head_size);
  const double squares = sum_of(size, [&](size_t i, auto access) HWY_ATTR {
    const FloatVector v = access.load(x + i);
    return hn::Mul(v, v);
  });
  return static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(size) + double{o.epsilon}));
}

void forward_head(const QueryKey& o, int64_t n, const float* weight, const float* x, float* y) {
  const FloatTag d;
  const auto size = static_cast<size_t>(o.head_size);
  if (weight != nullptr) {
    const FloatVector rstd = hn::Set(d, rstd_of(o, x));
    for_each_vector(size, [&](size_t i, auto access) HWY_ATTR {
      access.store(hn::Mul(hn::Mul(access.load(x + i), rstd), access.load(weight + i)), y + i);
    });
  } else {
    std::copy(x, x + size, y);
  }
  if (o.rotation != nullptr) rotate(o, n, 1, y, y);
}

// dy becomes dx; dweight gets this head's term.
void backward_head(const QueryKey& o, int64_t n, const float* weight, const float* x, float* dy,
                   float* dweight) {
  if (o.rotation != nullptr) rotate(o, n, -1, dy, dy);
  if (weight == nullptr) return;
  const FloatTag d;
  const auto size = static_cast<size_t>(o.head_size);
  const float r = rstd_of(o, x);
  const FloatVector rstd = hn::Set(d, r);
  // With xhat = x rstd and g = dy weight:  dx = rstd (g - xhat avg(g xhat)),  dweight += dy xhat
  const double sum = sum_of(size, [&](size_t i, auto access) HWY_ATTR {
    const FloatVector xhat = hn::Mul(access.load(x + i), rstd);
    return hn::Mul(hn::Mul(access.load(dy + i), access.load(weight + i)), xhat);
  });
  const FloatVector average = hn::Set(d, static_cast<float>(sum / static_cast<double>(size)));
  for_each_vector(size, [&](size_t i, auto access) HWY_ATTR {
    const FloatVector xhat = hn::Mul(access.load(x + i), rstd), dyi = access.load(dy + i);
    const FloatVector g = hn::Mul(dyi, access.load(weight + i));
    access.store(hn::MulAdd(dyi, xhat, access.load(dweight + i)), dweight + i);
    access.store(hn::Mul(hn::NegMulAdd(xhat, average, g), rstd), dy + i);
  });
}

void forward_rows(const QueryKey& o, int64_t begin, int64_t end, const float* qkv, float* qk) {
  const int64_t both = o.heads + o.kv_heads, in = (both + o.kv_heads) * o.head_size;
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t h = 0; h < both; ++h) {
      forward_head(o, n, h < o.heads ? o.query_weight : o.key_weight, qkv + n * in + h * o.head_size,
                   qk + (n * both + h) * o.head_size);
    }
  }
}

// sums (2, D): dquery_weight and dkey_weight of these rows; overwritten.
void backward_rows(const QueryKey& o, int64_t begin, int64_t end, const float* qkv, float* dqkv,
                   float* sums) {
  const int64_t both = o.heads + o.kv_heads, in = (both + o.kv_heads) * o.head_size;
  if (o.query_weight != nullptr) std::fill(sums, sums + 2 * o.head_size, 0.0f);
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t h = 0; h < both; ++h) {
      const bool query = h < o.heads;
      const int64_t at = n * in + h * o.head_size;
      backward_head(o, n, query ? o.query_weight : o.key_weight, qkv + at, dqkv + at,
                    query || sums == nullptr ? sums : sums + o.head_size);
    }
  }
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(forward_rows);
HWY_EXPORT(backward_rows);

namespace {

int64_t width(const QueryKey& o) { return (o.heads + o.kv_heads) * o.head_size; }

}  // namespace

void query_key_forward(Executor& executor, const QueryKey& o, const float* qkv, float* qk) {
  parallel_for(executor, o.rows, rows_per_chunk(width(o)), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(forward_rows)(o, begin, end, qkv, qk);
  });
}

int64_t query_key_backward_workspace(const QueryKey& o) {
  return o.query_weight == nullptr ? 0 : 2 * summed_chunks(o.rows, width(o)) * o.head_size;
}

void query_key_backward(Executor& executor, const QueryKey& o, const float* qkv, float* dqkv,
                        float* dquery_weight, float* dkey_weight, float* workspace) {
  const int64_t grain = summed_rows_per_chunk(o.rows, width(o)), stride = 2 * o.head_size;
  parallel_for(executor, o.rows, grain, [&](int64_t begin, int64_t end, int) {
    float* const sums = o.query_weight == nullptr ? nullptr : workspace + begin / grain * stride;
    HWY_DYNAMIC_DISPATCH(backward_rows)(o, begin, end, qkv, dqkv, sums);
  });
  if (o.query_weight == nullptr || o.rows == 0) return;
  executor.run(1, [&](int64_t, int) {
    const int64_t chunks = divide_up(o.rows, grain);
    add_partial_sums(chunks, stride, o.head_size, workspace, dquery_weight);
    add_partial_sums(chunks, stride, o.head_size, workspace + o.head_size, dkey_weight);
  });
}

}  // namespace tril
#endif  // HWY_ONCE
