#include "tril/kernels/query_key.h"

#include <gtest/gtest.h>

#include "tests/reference/dual.h"
#include "tests/reference/query_key.h"
#include "tests/support/kernel_test.h"

namespace tril {
namespace {

using testing::convert;
using testing::Dual;
using testing::expect_within_naive;
using testing::for_each_target;
using testing::Guarded;
using testing::random_floats;

struct Case {
  int64_t rows, heads, kv_heads, head_size;
  bool norm = true;
  int64_t rope_size = 0;  // 0: none
  bool interleaved = false;
};

struct Inputs {
  Case k;
  std::vector<float> qkv, query_weight, key_weight, rotation, dqk, dquery_weight, dkey_weight;
  explicit Inputs(const Case& c)
      : k(c),
        qkv(random_floats(1, size(c.rows * (c.heads + 2 * c.kv_heads) * c.head_size))),
        query_weight(random_floats(2, size(c.head_size))),
        key_weight(random_floats(3, size(c.head_size))),
        rotation(random_floats(4, size(time() * c.rope_size))),
        dqk(random_floats(5, qkv.size())),
        dquery_weight(random_floats(6, size(c.head_size))),
        dkey_weight(random_floats(7, size(c.head_size))) {}
  static size_t size(int64_t n) { return static_cast<size_t>(n); }
  int64_t time() const { return std::max<int64_t>(1, k.rows / 2); }  // two sequences share the rotation

  QueryKey options(const float* query, const float* key, const float* turn) const {
    return {.rows = k.rows,
            .heads = k.heads,
            .kv_heads = k.kv_heads,
            .head_size = k.head_size,
            .query_weight = k.norm ? query : nullptr,
            .key_weight = k.norm ? key : nullptr,
            .epsilon = 1e-3f,
            .rotation = k.rope_size > 0 ? turn : nullptr,
            .rotation_rows = time(),
            .rope_size = k.rope_size,
            .interleaved = k.interleaved};
  }
};

// Head h of row n through the reference.
template <class T>
std::vector<T> head(const Inputs& in, int64_t n, int64_t h, const std::vector<T>& qkv,
                    const std::vector<T>& weight) {
  const Case& k = in.k;
  const auto at = qkv.begin() + (n * (k.heads + 2 * k.kv_heads) + h) * k.head_size;
  const auto turn = in.rotation.begin() + n % in.time() * k.rope_size;
  return reference::query_key<T>({at, at + k.head_size}, k.norm ? weight : std::vector<T>(), T(1e-3f),
                                 std::vector<T>(turn, turn + k.rope_size), k.interleaved);
}

template <class T>
std::vector<T> forward(const Inputs& in) {
  std::vector<T> out;
  const auto qkv = convert<T>(in.qkv), query = convert<T>(in.query_weight), key = convert<T>(in.key_weight);
  for (int64_t n = 0; n < in.k.rows; ++n) {
    for (int64_t h = 0; h < in.k.heads + in.k.kv_heads; ++h) {
      const auto y = head(in, n, h, qkv, h < in.k.heads ? query : key);
      out.insert(out.end(), y.begin(), y.end());
    }
  }
  return out;
}

// sum y dqk, as a function of everything, in steps of one variable: the gradient by complex step or dual
// numbers.
template <class T, class Slope>
void gradients(const Inputs& in, T step, const Slope& slope, std::vector<double>& dqkv,
               std::vector<double>& dweights) {
  const Case& k = in.k;
  auto qkv = std::vector<T>(in.qkv.begin(), in.qkv.end());
  std::vector<T> weights[2] = {{in.query_weight.begin(), in.query_weight.end()},
                               {in.key_weight.begin(), in.key_weight.end()}};
  dqkv.assign(in.dqk.begin(), in.dqk.end());  // values stay as they are
  dweights.assign(Inputs::size(2 * k.head_size), 0.0);
  for (int64_t n = 0; n < k.rows; ++n) {
    for (int64_t h = 0; h < k.heads + k.kv_heads; ++h) {
      std::vector<T>& weight = weights[h < k.heads ? 0 : 1];
      const int64_t at = (n * (k.heads + 2 * k.kv_heads) + h) * k.head_size;
      const auto term = [&] {
        const auto y = head(in, n, h, qkv, weight);
        double sum = 0;
        for (int64_t i = 0; i < k.head_size; ++i)
          sum += slope(y[Inputs::size(i)]) * in.dqk[Inputs::size(at + i)];
        return sum;
      };
      for (int64_t i = 0; i < k.head_size; ++i) {
        T& x = qkv[Inputs::size(at + i)];
        T& w = weight[Inputs::size(i)];
        const T before = x, w_before = w;
        x += step;
        dqkv[Inputs::size(at + i)] = term();
        x = before;
        w += step;
        dweights[Inputs::size((h < k.heads ? 0 : k.head_size) + i)] += term();
        w = w_before;
      }
    }
  }
}

void expect_right(Executor& executor, const Case& k) {
  SCOPED_TRACE(::testing::Message() << k.rows << " rows, " << k.heads << ":" << k.kv_heads << " heads of "
                                    << k.head_size << ", norm " << k.norm << ", rope " << k.rope_size << " "
                                    << k.interleaved);
  const Inputs in(k);
  Guarded qkv(in.qkv, 1), query(in.query_weight, 2), key(in.key_weight, 3), turn(in.rotation, 4);
  Guarded qk(Inputs::size(k.rows * (k.heads + k.kv_heads) * k.head_size), 1), dqkv(in.dqk, 2);
  Guarded dquery(in.dquery_weight, 3), dkey(in.dkey_weight, 1);
  const QueryKey options = in.options(query.data(), key.data(), turn.data());
  Guarded workspace(Inputs::size(query_key_backward_workspace(options)), 1);
  query_key_forward(executor, options, qkv.data(), qk.data());
  query_key_backward(executor, options, qkv.data(), dqkv.data(), dquery.data(), dkey.data(),
                     workspace.data());
  for (const Guarded* g : {&qkv, &query, &key, &turn, &qk, &dqkv, &dquery, &dkey, &workspace})
    g->expect_intact("query_key");
  expect_within_naive("qk", qk.span(), forward<double>(in), forward<float>(in), 2);

  std::vector<double> exact, exact_weights, naive, naive_weights;
  constexpr double kStep = 1e-30;
  gradients(
      in, std::complex<double>(0, kStep), [](auto z) { return z.imag() / kStep; }, exact, exact_weights);
  gradients(
      in, Dual<float>(0.0f, 1.0f), [](auto z) { return z.slope; }, naive, naive_weights);
  expect_within_naive("dqkv", dqkv.span(), exact, convert<float>(naive), 3);
  if (!k.norm) return;
  for (const bool is_key : {false, true}) {
    const auto begin = is_key ? k.head_size : 0;
    std::vector<double> want(exact_weights.begin() + begin, exact_weights.begin() + begin + k.head_size);
    std::vector<float> plain(naive_weights.begin() + begin, naive_weights.begin() + begin + k.head_size);
    const auto& old = is_key ? in.dkey_weight : in.dquery_weight;
    for (size_t i = 0; i < want.size(); ++i) want[i] += double{old[i]}, plain[i] += old[i];
    expect_within_naive("dweight", is_key ? dkey.span() : dquery.span(), want, plain, 3);
  }
}

TEST(QueryKey, AllCombinations) {
  for_each_target([] {
    SerialExecutor serial;
    for (const int64_t size : {2, 3, 8, 15, 16, 33, 64, 80}) {
      for (const bool norm : {false, true}) {
        for (const int64_t rope : {int64_t{0}, size / 2 * 2, size / 4 * 2}) {
          for (const bool interleaved : {false, true}) {
            if (!norm && rope == 0) continue;
            expect_right(serial, {4, 2, 1, size, norm, rope, interleaved});
            if (HasFatalFailure()) return;
          }
        }
      }
    }
    ThreadPool pool(2);
    expect_right(pool, {130, 2, 2, 24, true, 24});
  });
}

TEST(QueryKey, SameBitsOnAnyNumberOfThreads) {
  const Inputs in({3000, 3, 1, 20, true, 20, false});
  testing::expect_same_for_any_threads("query_key", [&](Executor& executor) {
    const QueryKey options = in.options(in.query_weight.data(), in.key_weight.data(), in.rotation.data());
    std::vector<float> qk(3000 * 4 * 20), dqkv = in.dqk, dquery = in.dquery_weight, dkey = in.dkey_weight;
    std::vector<float> workspace(Inputs::size(query_key_backward_workspace(options)));
    query_key_forward(executor, options, in.qkv.data(), qk.data());
    query_key_backward(executor, options, in.qkv.data(), dqkv.data(), dquery.data(), dkey.data(),
                       workspace.data());
    for (const auto* more : {&dqkv, &dquery, &dkey}) qk.insert(qk.end(), more->begin(), more->end());
    return qk;
  });
}

TEST(QueryKey, DryRunsTouchNothing) {
  DryExecutor dry(2);
  const float some = 0;
  const QueryKey options{
      .rows = 700, .heads = 2, .kv_heads = 1, .head_size = 8, .query_weight = &some, .key_weight = &some};
  query_key_forward(dry, options, nullptr, nullptr);
  query_key_backward(dry, options, nullptr, nullptr, nullptr, nullptr, nullptr);
}

}  // namespace
}  // namespace tril
