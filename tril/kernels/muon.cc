#include "tril/kernels/muon.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tril/kernels/adamw.h"
#include "tril/kernels/chunks.h"
#include "tril/kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/muon.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/bfloat16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

// m = b m + (1 - b) g;  x = b m + (1 - b) g;  g = 0
void momentum_floats(const MuonStep& s, size_t count, float* gradients, float* m, float* x) {
  const FloatTag d;
  const FloatVector scale = hn::Set(d, s.gradient_scale);
  const FloatVector beta = hn::Set(d, s.momentum), rest = hn::Set(d, 1 - s.momentum);
  for_each_vector(count, [&](size_t i, auto access) HWY_ATTR {
    const FloatVector g = hn::Mul(rest, hn::Mul(access.load(gradients + i), scale));
    const FloatVector sum = hn::MulAdd(beta, access.load(m + i), g);
    access.store(sum, m + i);
    access.store(hn::MulAdd(beta, sum, g), x + i);
    access.store(hn::Zero(d), gradients + i);
  });
}

void momentum_halves(const MuonStep& s, size_t count, float* gradients, Bfloat16* m, float* x) {
  constexpr size_t kBlock = 256;
  HWY_ALIGN float floats[kBlock];
  for (size_t i = 0; i < count; i += kBlock) {
    const size_t n = std::min(kBlock, count - i);
    floats_of(n, m + i, floats);
    momentum_floats(s, n, gradients + i, floats, x + i);
    round_to_nearest(n, floats, m + i);
  }
}

// y = a x + b y
void add_scaled(float a, float b, size_t count, const float* x, float* y) {
  const FloatTag d;
  const FloatVector va = hn::Set(d, a), vb = hn::Set(d, b);
  for_each_vector(count, [&](size_t i, auto access) HWY_ATTR {
    access.store(hn::MulAdd(va, access.load(x + i), hn::Mul(vb, access.load(y + i))), y + i);
  });
}

void scale_elements(float factor, size_t count, float* x) {
  const FloatVector f = hn::Set(FloatTag(), factor);
  for_each_vector(
      count, [&](size_t i, auto access) HWY_ATTR { access.store(hn::Mul(access.load(x + i), f), x + i); });
}

// w = w - (rate x + decay w);  average = average + averaging (w - average)
void apply_update(float rate, float decay, float averaging, size_t count, const float* x, float* w,
                  float* average) {
  const FloatTag d;
  const FloatVector vr = hn::Set(d, rate), vd = hn::Set(d, decay), va = hn::Set(d, averaging);
  for_each_vector(count, [&](size_t i, auto access) HWY_ATTR {
    const FloatVector old = access.load(w + i);
    const FloatVector updated = hn::Sub(old, hn::MulAdd(vd, old, hn::Mul(vr, access.load(x + i))));
    access.store(updated, w + i);
    if (average == nullptr) return;
    const FloatVector before = access.load(average + i);
    access.store(hn::MulAdd(va, hn::Sub(updated, before), before), average + i);
  });
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(momentum_floats);
HWY_EXPORT(momentum_halves);
HWY_EXPORT(add_scaled);
HWY_EXPORT(scale_elements);
HWY_EXPORT(apply_update);

namespace {

constexpr int kIterations = 5;
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

void momentum(const MuonStep& s, size_t count, float* gradients, float* m, float* x) {
  HWY_DYNAMIC_DISPATCH(momentum_floats)(s, count, gradients, m, x);
}
void momentum(const MuonStep& s, size_t count, float* gradients, Bfloat16* m, float* x) {
  HWY_DYNAMIC_DISPATCH(momentum_halves)(s, count, gradients, m, x);
}

// The products of an iteration; s = min(rows, columns).
struct Products {
  Product gram;    // A (s, s) = X X^T, or X^T X
  Product square;  // P (s, s) = A A
  Product step;    // Y (rows, columns) = P X, or X P
  int64_t workspace() const {
    const auto of = [](const Product& p) { return matmul_workspace(p.m, p.n, p.k); };
    return std::max({of(gram), of(square), of(step)});
  }
};

Products make_products(int64_t rows, int64_t columns) {
  const int64_t s = std::min(rows, columns);
  Products p;
  p.square = {.m = s, .n = s, .k = s, .lda = s, .ldb = s, .ldc = s};
  p.gram = {.m = s, .n = s, .k = std::max(rows, columns), .lda = columns, .ldb = columns, .ldc = s};
  p.step = {.m = rows, .n = columns, .k = s, .ldc = columns};
  const bool wide = rows <= columns;
  (wide ? p.gram.transpose_b : p.gram.transpose_a) = Transpose::kYes;
  p.step.lda = wide ? s : columns;
  p.step.ldb = wide ? columns : s;
  return p;
}

// C = factor C + addend_factor * addend, on the finished blocks of a product.
struct Combine {
  float factor, addend_factor;
  const float* addend;
  float* c;
  int64_t columns;  // of both
  void operator()(int64_t row, int64_t rows, int64_t column, int64_t count) const {
    for (int64_t r = row; r < row + rows; ++r) {
      const int64_t at = r * columns + column;
      HWY_DYNAMIC_DISPATCH(add_scaled)
      (addend_factor, factor, static_cast<size_t>(count), addend + at, c + at);
    }
  }
};

// So that every matrix in the workspace begins on a cache line.
int64_t padded(int64_t rows, int64_t columns) {
  return round_up(checked_multiply(rows, columns), kLineFloats);
}

template <class Stored>
void muon_step(Executor& executor, const MuonStep& step, const MuonWeights<Stored>& w, float* workspace) {
  const int64_t count = checked_multiply(w.rows, w.columns);
  const int64_t chunks = divide_up(count, kChunkElements);
  auto* const partials = reinterpret_cast<double*>(workspace);
  float* const x = workspace + round_up(2 * chunks, kLineFloats);
  parallel_for(executor, count, kChunkElements, [&](int64_t begin, int64_t end, int) {
    momentum(step, static_cast<size_t>(end - begin), w.gradients + begin, w.m + begin, x + begin);
    partials[begin / kChunkElements] = sum_of_squares(end - begin, x + begin);
  });
  // X = u / |u|
  parallel_for(executor, count, kChunkElements, [&](int64_t begin, int64_t end, int) {
    double sum = 0;
    for (int64_t k = 0; k < chunks; ++k) sum += partials[k];
    const double most = std::numeric_limits<float>::max();
    const double factor = sum > 0 ? std::min(1 / std::sqrt(sum), most) : 0;
    HWY_DYNAMIC_DISPATCH(scale_elements)
    (static_cast<float>(factor), static_cast<size_t>(end - begin), x + begin);
  });
  const float* const o = newton_schulz(executor, w.rows, w.columns, x, x + padded(w.rows, w.columns));
  const double rate = 0.2 * std::sqrt(static_cast<double>(std::max(w.rows, w.columns))) * step.learning_rate;
  const float decay = step.learning_rate * step.weight_decay;
  parallel_for(executor, count, kChunkElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(apply_update)
    (static_cast<float>(rate), decay, step.averaging, static_cast<size_t>(end - begin), o + begin,
     w.weights + begin, w.average != nullptr ? w.average + begin : nullptr);
  });
}

}  // namespace

int64_t newton_schulz_workspace(int64_t rows, int64_t columns) {
  const int64_t s = std::min(rows, columns);
  const int64_t matrices = checked_add(padded(rows, columns), checked_multiply(2, padded(s, s)));
  return checked_add(matrices, make_products(rows, columns).workspace());
}

const float* newton_schulz(Executor& executor, int64_t rows, int64_t columns, float* x, float* workspace) {
  const int64_t s = std::min(rows, columns);
  Products p = make_products(rows, columns);
  float* const gram = workspace;
  float* const square = gram + padded(s, s);
  float* y = square + padded(s, s);
  float* const partials = y + padded(rows, columns);
  p.square.a = p.square.b = p.gram.c = gram;
  p.square.c = square;
  for (int i = 0; i < kIterations; ++i) {
    p.gram.a = p.gram.b = x;
    (rows <= columns ? p.step.a : p.step.b) = square;
    (rows <= columns ? p.step.b : p.step.a) = x;
    p.step.c = y;
    matmul(executor, p.gram, partials);
    matmul(executor, p.square, partials, Combine{kC, kB, gram, square, s});
    matmul(executor, p.step, partials, Combine{1, kA, x, y, columns});
    std::swap(x, y);
  }
  static_assert(kIterations % 2 == 1);
  return x;
}

int64_t muon_workspace(int64_t rows, int64_t columns) {
  const int64_t chunks = divide_up(checked_multiply(rows, columns), kChunkElements);
  return checked_add(checked_add(round_up(2 * chunks, kLineFloats), padded(rows, columns)),
                     newton_schulz_workspace(rows, columns));
}

void muon(Executor& executor, const MuonStep& step, const MuonWeights<float>& matrix, float* workspace) {
  muon_step(executor, step, matrix, workspace);
}

void muon(Executor& executor, const MuonStep& step, const MuonWeights<Bfloat16>& matrix, float* workspace) {
  muon_step(executor, step, matrix, workspace);
}

}  // namespace tril
#endif  // HWY_ONCE
