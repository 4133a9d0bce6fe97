#include "tril/kernels/norm.h"

#include <gtest/gtest.h>

#include "tests/reference/norm.h"
#include "tests/support/kernel_test.h"

namespace tril {
namespace {

using testing::convert;
using testing::expect_same_bits;
using testing::expect_within_naive;
using testing::for_each_target;
using testing::Guarded;
using testing::kNan;
using testing::random_floats;

struct Case {
  size_t rows, channels;
  bool has_bias = true;
  bool accumulate = false;
  double offset = 0;  // added to x
  NormOptions options = {};
};

constexpr NormOptions kRms = {NormKind::kRms, 1e-6f};

struct Inputs {
  explicit Inputs(const Case& k)
      : x(random_floats(1, k.rows * k.channels)),
        weight(random_floats(2, k.channels)),
        bias(random_floats(3, k.channels)),
        dy(random_floats(4, k.rows * k.channels)),
        dx(random_floats(5, k.rows * k.channels)),
        dweight(random_floats(6, k.channels)),
        dbias(random_floats(7, k.channels)) {
    for (float& v : x) v += static_cast<float>(k.offset);
    if (!k.has_bias) bias.clear();
  }
  std::vector<float> x, weight, bias, dy, dx, dweight, dbias;
};

template <class T>
reference::Norm<T> reference_of(const Case& k, const Inputs& in) {
  reference::Norm<T> r{
      k.options, k.rows, k.channels, convert<T>(in.x), convert<T>(in.weight), convert<T>(in.bias), {}, {}, {},
      {},        {},     {}};
  r.forward();
  r.backward(convert<T>(in.dy));
  for (size_t i = 0; i < r.dx.size() && k.accumulate; ++i) r.dx[i] += T(in.dx[i]);
  for (size_t c = 0; c < k.channels; ++c) r.dweight[c] += T(in.dweight[c]);
  for (size_t c = 0; c < k.channels; ++c) r.dbias[c] += T(in.dbias[c]);
  return r;
}

// Runs the kernels on guarded, misaligned memory.
struct KernelRun {
  KernelRun(Executor& executor, const Case& k, const Inputs& in)
      : x(in.x, 1),
        weight(in.weight, 2),
        bias(in.bias, 3),
        y(in.x.size(), 4),
        again(in.x.size(), 5),
        mean(k.rows, 1),
        rstd(k.rows, 2),
        dy(in.dy, 3),
        dx(k.accumulate ? in.dx : std::vector<float>(in.dx.size(), kNan), 4),
        dweight(in.dweight, 5),
        dbias(in.dbias, 6) {
    const auto rows = static_cast<int64_t>(k.rows), channels = static_cast<int64_t>(k.channels);
    Guarded workspace(static_cast<size_t>(norm_backward_workspace(rows, channels)));
    const float* b = k.has_bias ? bias.data() : nullptr;
    norm_forward(executor, k.options, rows, channels, x.data(), weight.data(), b, y.data(), mean.data(),
                 rstd.data());
    norm_apply(executor, rows, channels, x.data(), weight.data(), b, mean.data(), rstd.data(), again.data());
    norm_backward(executor, k.options.kind, rows, channels, x.data(), weight.data(), mean.data(), rstd.data(),
                  dy.data(), dx.data(), k.accumulate, dweight.data(), k.has_bias ? dbias.data() : nullptr,
                  workspace.data());
    for (const Guarded* g :
         {&x, &weight, &bias, &y, &again, &mean, &rstd, &dy, &dx, &dweight, &dbias, &workspace})
      g->expect_intact("norm");
  }
  Guarded x, weight, bias, y, again, mean, rstd, dy, dx, dweight, dbias;
};

void expect_right(Executor& executor, const Case& k) {
  SCOPED_TRACE("rows " + std::to_string(k.rows) + ", channels " + std::to_string(k.channels));
  const Inputs in(k);
  const auto exact = reference_of<double>(k, in);
  const auto naive = reference_of<float>(k, in);
  KernelRun run(executor, k, in);
  expect_within_naive("y", run.y.span(), exact.y, naive.y, 2, 1 + std::abs(k.offset));
  if (k.options.kind == NormKind::kLayer)
    expect_within_naive("mean", run.mean.span(), exact.mean, naive.mean, 2, 1 + std::abs(k.offset));
  else
    testing::expect_all_zero("mean", run.mean.span());
  expect_within_naive("rstd", run.rstd.span(), exact.rstd, naive.rstd, 2);
  expect_same_bits("y again", run.y.span(), run.again.span());
  expect_within_naive("dx", run.dx.span(), exact.dx, naive.dx, 3, 1 + std::abs(k.offset));
  expect_within_naive("dweight", run.dweight.span(), exact.dweight, naive.dweight, 3, 1 + std::abs(k.offset));
  if (k.has_bias) {
    expect_within_naive("dbias", run.dbias.span(), exact.dbias, naive.dbias, 3);
  } else {
    expect_same_bits("dbias is left alone", run.dbias.span(), in.dbias);
  }
}

TEST(NormReference, GradientsAreComplexSteps) {
  using Complex = std::complex<double>;
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    const Case k{3, 5, true, false, 0, {kind, 1e-3f}};
    const Inputs in(k);
    reference::Norm<double> r{k.options,
                              3,
                              5,
                              convert<double>(in.x),
                              convert<double>(in.weight),
                              convert<double>(in.bias),
                              {},
                              {},
                              {},
                              {},
                              {},
                              {}};
    r.forward();
    r.backward(convert<double>(in.dy));
    const auto loss = [&](std::vector<Complex> x, std::vector<Complex> weight, std::vector<Complex> bias) {
      reference::Norm<Complex> c{
          k.options, 3, 5, std::move(x), std::move(weight), std::move(bias), {}, {}, {}, {}, {}, {}};
      c.forward();
      Complex sum = 0;
      for (size_t i = 0; i < c.y.size(); ++i) sum += c.y[i] * double{in.dy[i]};
      return sum;
    };
    const auto x = convert<Complex>(in.x), weight = convert<Complex>(in.weight),
               bias = convert<Complex>(in.bias);
    testing::expect_complex_step(
        "dx", [&](const std::vector<Complex>& z) { return loss(z, weight, bias); }, r.x, r.dx);
    testing::expect_complex_step(
        "dweight", [&](const std::vector<Complex>& z) { return loss(x, z, bias); }, r.weight, r.dweight);
    testing::expect_complex_step(
        "dbias", [&](const std::vector<Complex>& z) { return loss(x, weight, z); }, r.bias, r.dbias);
  }
}

TEST(Norm, OddSizes) {
  for_each_target([] {
    SerialExecutor serial;
    for (size_t c = 3; c <= 70; ++c) {
      expect_right(serial, {5 + c % 4, c, c % 3 != 0, c % 2 == 0});
      expect_right(serial, {5 + c % 4, c, c % 3 == 0, c % 2 == 0, 0, kRms});
      if (HasFatalFailure()) return;
    }
  });
}

TEST(Norm, LargerSizes) {
  for_each_target([] {
    ThreadPool pool(2);
    for (const Case& k : {Case{130, 257}, Case{3, 20011}, Case{1000, 16}, Case{2500, 33, true, true},
                          Case{130, 257, false, true, 0.5, kRms}, Case{2500, 33, false, false, 0, kRms}})
      expect_right(pool, k);
  });
}

TEST(Norm, MeanFarFromZero) {
  for_each_target([] {
    SerialExecutor serial;
    expect_right(serial, {7, 768, true, false, 300});
    expect_right(serial, {7, 67, true, true, -50});
  });
}

TEST(Norm, SameBitsOnAnyNumberOfThreads) {
  for (const Case& k :
       {Case{300, 200}, Case{41, 1023, true, true}, Case{5000, 20}, Case{300, 200, false, true, 0, kRms}}) {
    const Inputs in(k);
    testing::expect_same_for_any_threads("norm", [&](Executor& executor) {
      KernelRun run(executor, k, in);
      std::vector<float> all;
      for (Guarded* g : {&run.y, &run.mean, &run.rstd, &run.dx, &run.dweight, &run.dbias})
        all.insert(all.end(), g->span().begin(), g->span().end());
      return all;
    });
  }
}

TEST(Norm, GradientMayOverwriteItsInput) {
  for_each_target([] {
    SerialExecutor serial;
    const Case k{9, 61};
    const Inputs in(k);
    KernelRun run(serial, k, in);
    std::vector<float> dx = in.dy, dweight = in.dweight, dbias = in.dbias;
    std::vector<float> workspace(static_cast<size_t>(norm_backward_workspace(9, 61)));
    norm_backward(serial, NormKind::kLayer, 9, 61, in.x.data(), in.weight.data(), run.mean.data(),
                  run.rstd.data(), dx.data(), dx.data(), false, dweight.data(), dbias.data(),
                  workspace.data());
    expect_same_bits("dx", dx, run.dx.span());
    expect_same_bits("dweight", dweight, run.dweight.span());
  });
}

// One channel is always its own mean: y is the bias, and nothing flows back.
TEST(Norm, OneChannelAndConstantRows) {
  for_each_target([] {
    SerialExecutor serial;
    const Case k{4, 1};
    const Inputs in(k);
    KernelRun run(serial, k, in);
    for (size_t n = 0; n < 4; ++n) EXPECT_EQ(run.y.span()[n], in.bias[0]);
    testing::expect_all_zero("dx", run.dx.span());

    std::vector<float> x(33, 7.25f), y(33);
    const std::vector<float> weight = random_floats(1, 33), bias = random_floats(2, 33);
    float mean = kNan, rstd = kNan;
    norm_forward(serial, {}, 1, 33, x.data(), weight.data(), bias.data(), y.data(), &mean, &rstd);
    EXPECT_EQ(mean, 7.25f);
    EXPECT_FLOAT_EQ(rstd, 1 / std::sqrt(1e-5f));
    expect_same_bits("y", y, bias);
  });
}

TEST(Norm, NanStaysInItsRow) {
  for_each_target([] {
    SerialExecutor serial;
    for (const float poison : {kNan, testing::kInfinity, -testing::kInfinity}) {
      const Case k{3, 37};
      Inputs in(k);
      KernelRun clean(serial, k, in);
      in.x[37 + 5] = poison;
      KernelRun run(serial, k, in);
      for (size_t i = 0; i < 37; ++i) {
        EXPECT_EQ(run.y.span()[i], clean.y.span()[i]);
        EXPECT_TRUE(std::isnan(run.y.span()[37 + i]));
        EXPECT_EQ(run.y.span()[74 + i], clean.y.span()[74 + i]);
        EXPECT_EQ(run.dx.span()[i], clean.dx.span()[i]);
        EXPECT_TRUE(std::isnan(run.dx.span()[37 + i]));
      }
    }
  });
}

TEST(Norm, NoRowsAndDryRuns) {
  SerialExecutor serial;
  EXPECT_EQ(norm_backward_workspace(0, 8), 0);
  norm_backward(serial, NormKind::kRms, 0, 8, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, false,
                nullptr, nullptr, nullptr);
  DryExecutor dry(3);
  norm_forward(dry, {}, 500, 300, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  norm_apply(dry, 500, 300, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  norm_backward(dry, NormKind::kLayer, 500, 300, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, true,
                nullptr, nullptr, nullptr);
}

}  // namespace
}  // namespace tril
