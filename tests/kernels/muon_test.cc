#include "tril/kernels/muon.h"

#include <gtest/gtest.h>

#include "tests/reference/muon.h"
#include "tests/support/kernel_test.h"

namespace tril {
namespace {

using testing::convert;
using testing::expect_same_bits;
using testing::expect_within_naive;
using testing::for_each_target;
using testing::Guarded;
using testing::random_floats;

constexpr MuonStep kStep{.learning_rate = 0.02f, .weight_decay = 0.1f, .gradient_scale = 0.7f};

// A buffer for doubles, with guard words behind it.
struct Workspace {
  Workspace(int64_t rows, int64_t columns)
      : guarded(static_cast<size_t>(muon_workspace(rows, columns)), 64) {}
  float* data() {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(guarded.data()) % sizeof(double), 0u);
    return guarded.data();
  }
  Guarded guarded;
};

// One matrix under the kernel.
struct Matrix {
  Matrix(int64_t r, int64_t c)
      : rows(r),
        columns(c),
        count(static_cast<size_t>(r * c)),
        w(random_floats(1, count), 1),
        g(count, 2),
        m(std::vector<float>(count), 3),
        workspace(r, c) {}
  void step(Executor& executor, const MuonStep& s, const std::vector<float>& gradients) {
    std::copy(gradients.begin(), gradients.end(), g.data());
    muon(executor, s, MuonWeights<float>{rows, columns, w.data(), g.data(), m.data(), nullptr},
         workspace.data());
    testing::expect_all_zero("gradients after the step", g.span());
    for (const Guarded* a : {&w, &g, &m, &workspace.guarded}) a->expect_intact("muon");
  }
  int64_t rows, columns;
  size_t count;
  Guarded w, g, m;
  Workspace workspace;
};

void expect_right(Executor& executor, int64_t rows, int64_t columns) {
  SCOPED_TRACE(fmt::format("{} x {}", rows, columns));
  Matrix p(rows, columns);
  const auto r = static_cast<size_t>(rows), c = static_cast<size_t>(columns);
  std::vector<float> w = p.w.values(), m(p.count);
  std::vector<double> exact_w = convert<double>(w), exact_m(p.count);
  for (uint64_t t = 1; t <= 2; ++t) {
    const std::vector<float> g = random_floats(100 + t, p.count);
    reference::muon(kStep, r, c, exact_w, convert<double>(g), exact_m);
    reference::muon(kStep, r, c, w, g, m);
    p.step(executor, kStep, g);
  }
  expect_within_naive("w", p.w.span(), exact_w, w, 3);
  expect_within_naive("m", p.m.span(), exact_m, m, 2);
}

TEST(Muon, StepsOfOddSizes) {
  for_each_target([] {
    SerialExecutor serial;
    for (const auto& [rows, columns] :
         {std::pair(1, 2), {2, 1}, {3, 3}, {5, 17}, {17, 5}, {16, 48}, {33, 31}, {70, 19}}) {
      expect_right(serial, rows, columns);
      if (HasFatalFailure()) return;
    }
  });
}

// Large enough for products in several blocks.
TEST(Muon, LargerMatrices) {
  SerialExecutor serial;
  expect_right(serial, 150, 130);
  expect_right(serial, 90, 260);
}

TEST(Muon, SameBitsOnAnyNumberOfThreads) {
  testing::expect_same_for_any_threads("muon", [](Executor& executor) {
    Matrix p(190, 170);
    p.step(executor, kStep, random_floats(2, p.count));
    std::vector<float> all = p.w.values();
    all.insert(all.end(), p.m.span().begin(), p.m.span().end());
    return all;
  });
}

// The singular values of what the iteration returns lie near 1: O O^T has a diagonal near 1 for rows that
// were far from orthogonal.
TEST(NewtonSchulz, MakesRowsNearlyOrthonormal) {
  constexpr int64_t kRows = 8, kColumns = 40;
  std::vector<float> x = random_floats(3, kRows * kColumns);
  for (int64_t j = 0; j < kColumns; ++j)
    for (int64_t i = 1; i < kRows; ++i) x[i * kColumns + j] += x[j];  // all lean to the first
  double norm = 0;
  for (const float v : x) norm += double{v} * v;
  for (float& v : x) v = static_cast<float>(v / std::sqrt(norm));
  SerialExecutor serial;
  std::vector<float> workspace(static_cast<size_t>(newton_schulz_workspace(kRows, kColumns)));
  const float* const o = newton_schulz(serial, kRows, kColumns, x.data(), workspace.data());
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t k = 0; k <= i; ++k) {
      double dot = 0;
      for (int64_t j = 0; j < kColumns; ++j) dot += double{o[i * kColumns + j]} * o[k * kColumns + j];
      EXPECT_NEAR(dot, i == k ? 1 : 0, 0.5) << i << " " << k;
    }
  }
}

TEST(Muon, TheSizeOfTheGradientDoesNotMatterAndNoneChangesNothing) {
  SerialExecutor serial;
  std::vector<float> g = random_floats(4, 12 * 7);
  Matrix one(12, 7), tiny(12, 7), none(12, 7);
  MuonStep s = kStep;
  s.weight_decay = 0;
  const std::vector<float> before = one.w.values();
  one.step(serial, s, g);
  for (float& v : g) v *= 0x1p-40f;
  tiny.step(serial, s, g);
  for (size_t i = 0; i < one.count; ++i) EXPECT_NEAR(one.w.span()[i], tiny.w.span()[i], 1e-6);
  // The update has about the size of AdamW's: 0.2 of the rate.
  double change = 0;
  for (size_t i = 0; i < one.count; ++i)
    change += std::pow(double{one.w.span()[i]} - before[i], 2) / static_cast<double>(one.count);
  EXPECT_NEAR(std::sqrt(change) / (0.2 * kStep.learning_rate), 1, 0.4);
  none.step(serial, s, std::vector<float>(none.count, 0.0f));
  expect_same_bits("w", none.w.span(), before);
}

TEST(Muon, MomentumStoredAsBfloat16IsRoundedToTheNearest) {
  for_each_target([] {
    SerialExecutor serial;
    constexpr int64_t kRows = 19, kColumns = 37, kCount = kRows * kColumns;
    Matrix whole(kRows, kColumns);
    std::vector<float> w = whole.w.values(), g = random_floats(5, kCount), first = g;
    std::vector<Bfloat16> m(kCount);
    Workspace workspace(kRows, kColumns);
    const auto half_step = [&] {
      muon(serial, kStep, MuonWeights<Bfloat16>{kRows, kColumns, w.data(), g.data(), m.data(), nullptr},
           workspace.data());
    };
    half_step();
    whole.step(serial, kStep, first);
    expect_same_bits("w", w, whole.w.span());  // computed before it is rounded
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(m[i].bits, to_bfloat16(whole.m.span()[i]).bits) << i;
      whole.m.data()[i] = to_float(m[i]);
    }
    g = random_floats(6, kCount);
    const std::vector<float> second = g;
    half_step();
    whole.step(serial, kStep, second);
    expect_same_bits("w", w, whole.w.span());
  });
}

TEST(Muon, AveragesTheWeights) {
  for_each_target([] {
    SerialExecutor serial;
    Matrix plain(5, 9), averaged(5, 9);
    const std::vector<float> g = random_floats(7, 45), start = random_floats(8, 45);
    Guarded average(start, 5), gradients(g, 2);
    plain.step(serial, kStep, g);
    MuonStep s = kStep;
    s.averaging = 0.25f;
    muon(serial, s,
         MuonWeights<float>{5, 9, averaged.w.data(), gradients.data(), averaged.m.data(), average.data()},
         averaged.workspace.data());
    average.expect_intact("average");
    expect_same_bits("w", averaged.w.span(), plain.w.span());
    for (size_t i = 0; i < 45; ++i)
      EXPECT_FLOAT_EQ(average.span()[i], start[i] + 0.25f * (plain.w.span()[i] - start[i]));
  });
}

TEST(Muon, DryExecutorTouchesNothing) {
  DryExecutor dry(2);
  auto* const untouched = reinterpret_cast<float*>(64);
  muon(dry, kStep, MuonWeights<float>{300, 200, untouched, untouched, untouched, nullptr}, untouched);
}

}  // namespace
}  // namespace tril
