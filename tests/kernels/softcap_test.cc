#include "tril/kernels/softcap.h"

#include <gtest/gtest.h>

#include "tests/support/kernel_test.h"

namespace tril {
namespace {

using testing::expect_within_naive;
using testing::for_each_target;
using testing::Guarded;
using testing::random_floats;

template <class T>
struct Expected {
  std::vector<T> y, dx;
  Expected(float cap, const std::vector<float>& x, const std::vector<float>& dy) {
    for (size_t i = 0; i < x.size(); ++i) {
      const T t = std::tanh(T(x[i]) / T(cap));
      y.push_back(T(cap) * t);
      dx.push_back(T(dy[i]) * (T(1) - t * t));
    }
  }
};

TEST(Softcap, OddLengthsAndAlignments) {
  for_each_target([] {
    SerialExecutor serial;
    for (const float cap : {0.5f, 30.0f}) {
      for (const size_t count : {2u, 7u, 16u, 17u, 33u, 20011u}) {
        const auto x = random_floats(1, count, double{cap}), dy = random_floats(2, count);
        const Expected<double> exact(cap, x, dy);
        const Expected<float> naive(cap, x, dy);
        Guarded y(x, 1), slopes(count, 2), dx(dy, 3), alone(count, 1);
        const auto n = static_cast<int64_t>(count);
        softcap_forward(serial, n, cap, x.data(), alone.data(), nullptr);
        softcap_forward(serial, n, cap, y.data(), y.data(), slopes.data());
        softcap_backward(serial, n, slopes.data(), dx.data(), dx.data());
        expect_within_naive("y", y.span(), exact.y, naive.y, 2);
        expect_within_naive("dx", dx.span(), exact.dx, naive.dx, 3, 1);
        testing::expect_same_bits("without slopes", alone.span(), y.span());
        for (const Guarded* g : {&y, &slopes, &dx, &alone}) g->expect_intact("softcap");
      }
    }
  });
}

}  // namespace
}  // namespace tril
