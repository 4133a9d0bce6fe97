#include "tril/kernels/matmul.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <thread>

#include "tests/reference/matmul.h"
#include "tests/support/counting_executor.h"
#include "tests/support/kernel_test.h"

namespace tril {
namespace {

using testing::expect_same_bits;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  Transpose ta, tb;
  int64_t m, n, k;
  bool accumulate = false;
  int64_t pad = 0;  // extra floats per row of each matrix, NaN

  std::string name() const {
    return fmt::format("{}{} {} x {} x {}{}{}", ta == Transpose::kYes ? 'T' : 'N',
                       tb == Transpose::kYes ? 'T' : 'N', m, n, k, accumulate ? " accumulate" : "",
                       pad > 0 ? " padded" : "");
  }
};

// A matrix whose rows are longer than its columns; NaN beyond.
struct Matrix {
  Matrix(uint64_t seed, int64_t rows_, int64_t columns_, int64_t pad)
      : rows(rows_), columns(columns_), stride(columns_ + pad) {
    const RandomStream random(seed, "matrix");
    data.resize(static_cast<size_t>(rows * stride));
    for (size_t i = 0; i < data.size(); ++i) data[i] = 2 * random.uniform(i) - 1;
    for (int64_t i = 0; i < rows; ++i) std::fill_n(data.begin() + i * stride + columns, pad, kNan);
  }
  int64_t rows, columns, stride;
  std::vector<float> data;

  template <class T>
  std::vector<T> without_padding(const std::vector<T>& x) const {
    std::vector<T> out;
    for (int64_t i = 0; i < rows; ++i)
      out.insert(out.end(), x.begin() + i * stride, x.begin() + i * stride + columns);
    return out;
  }
};

struct Operands {
  explicit Operands(const Case& s)
      : a(1, s.ta == Transpose::kYes ? s.k : s.m, s.ta == Transpose::kYes ? s.m : s.k, s.pad),
        b(2, s.tb == Transpose::kYes ? s.n : s.k, s.tb == Transpose::kYes ? s.k : s.n, 2 * s.pad),
        c(3, s.m, s.n, 3 * s.pad) {}
  Product product(const Case& s) {
    return {s.ta,     s.tb,          s.m,      s.n,           s.k,      a.data.data(),
            a.stride, b.data.data(), b.stride, c.data.data(), c.stride, s.accumulate};
  }
  Matrix a, b, c;
};

std::vector<float> workspace_for(const Case& s) {
  return std::vector<float>(static_cast<size_t>(matmul_workspace(s.m, s.n, s.k)), kNan);
}

void expect_right(Executor& executor, const Case& s) {
  SCOPED_TRACE(s.name());
  Operands x(s);
  std::vector<double> exact = testing::convert<double>(x.c.data);
  std::vector<float> naive = x.c.data;
  reference::matmul(s.ta, s.tb, s.m, s.n, s.k, testing::convert<double>(x.a.data).data(), x.a.stride,
                    testing::convert<double>(x.b.data).data(), x.b.stride, exact.data(), x.c.stride,
                    s.accumulate);
  reference::matmul(s.ta, s.tb, s.m, s.n, s.k, x.a.data.data(), x.a.stride, x.b.data.data(), x.b.stride,
                    naive.data(), x.c.stride, s.accumulate);
  std::vector<float> workspace = workspace_for(s);
  if (!s.accumulate) std::fill(x.c.data.begin(), x.c.data.end(), kNan);
  matmul(executor, x.product(s), workspace.data());
  testing::expect_within_naive(s.name(), x.c.without_padding(x.c.data), x.c.without_padding(exact),
                               x.c.without_padding(naive), 2, std::sqrt(static_cast<double>(s.k)));
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = s.n; j < x.c.stride; ++j) ASSERT_TRUE(std::isnan(x.c.data[i * x.c.stride + j]));
}

constexpr Transpose kBoth[] = {Transpose::kNo, Transpose::kYes};

void expect_all_forms_right(Executor& executor, int64_t m, int64_t n, int64_t k, int64_t pad) {
  for (const Transpose ta : kBoth)
    for (const Transpose tb : kBoth)
      for (const bool accumulate : {false, true}) expect_right(executor, {ta, tb, m, n, k, accumulate, pad});
}

void expect_random_sizes_right(uint64_t seed, int count) {
  const RandomStream random(seed, "sizes");
  SerialExecutor serial;
  for (int i = 0; i < count; ++i) {
    const auto size = [&](int j) { return 1 + static_cast<int64_t>(random.below(4 * i + j, 70)); };
    expect_all_forms_right(serial, size(0), size(1), size(2), i % 2 * 5);
  }
}

// Shapes of every class: one block, few rows, blocks in two dimensions, tall, wide, K in chunks.
const Case kClasses[] = {
    {Transpose::kNo, Transpose::kYes, 100, 48, 16},     {Transpose::kNo, Transpose::kYes, 1, 3000, 700},
    {Transpose::kNo, Transpose::kYes, 3, 2500, 301},    {Transpose::kNo, Transpose::kYes, 400, 390, 130},
    {Transpose::kNo, Transpose::kNo, 2100, 65, 100},    {Transpose::kNo, Transpose::kYes, 40, 5030, 60},
    {Transpose::kYes, Transpose::kNo, 128, 128, 2099},  {Transpose::kYes, Transpose::kNo, 65, 70, 9000, true},
    {Transpose::kYes, Transpose::kNo, 16, 48, 20000},   {Transpose::kYes, Transpose::kNo, 3, 5, 100000, true},
    {Transpose::kYes, Transpose::kYes, 131, 257, 1030}, {Transpose::kNo, Transpose::kNo, 200, 512, 300},
    {Transpose::kNo, Transpose::kNo, 65, 50, 8001},     {Transpose::kNo, Transpose::kNo, 300, 390, 310},
};

TEST(Matmul, SmallOddSizes) {
  testing::for_each_target([] { expect_random_sizes_right(1, 12); });
}

TEST(Matmul, EveryClassOfShapes) {
  ThreadPool pool(3);
  for (Case s : kClasses) {
    expect_right(pool, s);
    s.pad = 3;
    s.accumulate = !s.accumulate;
    expect_right(pool, s);
  }
}

TEST(Matmul, EveryInstructionSet) {
  SerialExecutor serial;
  testing::for_each_target([&] {
    for (const int64_t m : {1, 2, 3, 4, 5})
      expect_right(serial, {Transpose::kNo, Transpose::kYes, m, 37, 131});
    expect_all_forms_right(serial, 300, 401, 270, 1);
  });
}

TEST(Matmul, ZeroDepth) {
  ThreadPool pool(2);
  for (const bool accumulate : {false, true}) {
    const Case s{Transpose::kNo, Transpose::kYes, 7, 9, 0, accumulate, 2};
    Operands x(s);
    const std::vector<float> before = x.c.without_padding(x.c.data);
    int64_t covered = 0;
    matmul(pool, x.product(s), nullptr,
           [&](int64_t, int64_t rows, int64_t, int64_t columns) { covered += rows * columns; });
    EXPECT_EQ(covered, 63);
    const std::vector<float> after = x.c.without_padding(x.c.data);
    if (accumulate) {
      expect_same_bits("C with k = 0", before, after);
    } else {
      testing::expect_all_zero("C with k = 0", after);
    }
  }
  matmul(pool, {}, nullptr);
}

TEST(Matmul, SameBitsForAnyNumberOfThreads) {
  for (const Case& s : kClasses) {
    std::vector<float> first;
    for (int threads = 1; threads <= 4; ++threads) {
      ThreadPool pool(threads);
      Operands x(s);
      std::vector<float> workspace = workspace_for(s);
      matmul(pool, x.product(s), workspace.data());
      if (threads == 1) {
        first = x.c.data;
      } else {
        expect_same_bits(fmt::format("{}, 1 and {} threads", s.name(), threads), first, x.c.data);
      }
    }
  }
}

// A thread that has never called the library before gives the same bits as one that has.
TEST(Matmul, SameBitsInAFreshThread) {
  const Case s{Transpose::kYes, Transpose::kNo, 96, 112, 5000};
  SerialExecutor serial;
  Operands x(s), y(s);
  std::vector<float> workspace = workspace_for(s);
  matmul(serial, x.product(s), workspace.data());
  std::thread([&] { matmul(serial, y.product(s), workspace.data()); }).join();
  expect_same_bits(s.name(), x.c.data, y.c.data);
}

#if defined(__linux__)
// A library with threads of its own would start a team in every thread of ours.
TEST(Matmul, StartsNoThreads) {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  SerialExecutor serial;
  const Case s{Transpose::kYes, Transpose::kNo, 400, 390, 410};
  Operands x(s);
  std::vector<float> workspace = workspace_for(s);
  const auto before = threads();
  auto after = before;
  std::thread([&] {
    matmul(serial, x.product(s), workspace.data());
    after = threads();
  }).join();
  EXPECT_LE(after, before + 1);
}
#endif

TEST(Matmul, EpilogueCoversEveryElementOnceAfterItIsFinished) {
  ThreadPool pool(4);
  for (const Case& s : kClasses) {
    SCOPED_TRACE(s.name());
    Operands plain(s), x(s);
    std::vector<float> workspace = workspace_for(s);
    matmul(pool, plain.product(s), workspace.data());
    std::vector<std::atomic<int>> calls(static_cast<size_t>(s.m * s.n));
    matmul(pool, x.product(s), workspace.data(),
           [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
             for (int64_t i = row; i < row + rows; ++i) {
               for (int64_t j = column; j < column + columns; ++j) {
                 ++calls[static_cast<size_t>(i * s.n + j)];
                 float& c = x.c.data[static_cast<size_t>(i * x.c.stride + j)];
                 c = 2 * c;
               }
             }
           });
    for (const auto& n : calls) ASSERT_EQ(n, 1);
    for (float& c : plain.c.data) c = 2 * c;
    expect_same_bits("doubled", plain.c.data, x.c.data);
  }
}

TEST(Matmul, TinyProductsAreOneChunk) {
  for (const Case& s :
       {Case{Transpose::kNo, Transpose::kYes, 128, 48, 16}, Case{Transpose::kNo, Transpose::kNo, 128, 16, 64},
        Case{Transpose::kYes, Transpose::kNo, 64, 16, 128}}) {
    testing::CountingExecutor executor(16);
    Operands x(s);
    EXPECT_EQ(matmul_workspace(s.m, s.n, s.k), 0);
    matmul(executor, x.product(s), nullptr);
    EXPECT_EQ(executor.runs, std::vector<int64_t>{1}) << s.name();
  }
}

TEST(Matmul, LargeProductsFeedSixteenThreads) {
  for (const Case& s : {Case{Transpose::kNo, Transpose::kYes, 512, 768, 384},
                        Case{Transpose::kYes, Transpose::kNo, 128, 128, 8192},
                        Case{Transpose::kYes, Transpose::kNo, 65, 384, 8192},
                        Case{Transpose::kNo, Transpose::kYes, 1, 40000, 512}}) {
    testing::CountingExecutor executor(16);
    Operands x(s);
    std::vector<float> workspace = workspace_for(s);
    matmul(executor, x.product(s), workspace.data());
    EXPECT_GE(executor.runs[0], 16) << s.name();
  }
}

TEST(Matmul, TouchesNothingOutsideTheExecutor) {
  DryExecutor dry(4);
  for (const Case& s : kClasses) {
    const Product product{
        .transpose_a = s.ta, .transpose_b = s.tb, .m = s.m, .n = s.n, .k = s.k, .lda = 1, .ldb = 1, .ldc = 1};
    matmul(dry, product, nullptr, [](int64_t, int64_t, int64_t, int64_t) { FAIL(); });
  }
}

TEST(Matmul, EngineHasAName) {
#ifdef TRIL_ONEDNN
  EXPECT_EQ(std::string(matmul_engine()).substr(0, 7), "oneDNN ");
#else
  EXPECT_FALSE(std::string(matmul_engine()).empty());
#endif
}

// Outputs of exactly one good block, and one element more: K is cut for 32 tasks over one and over two
// blocks.
TEST(Matmul, ChunksOfKAtTheBorderOfABlock) {
  constexpr int64_t kRows = 192, kColumns = 384, kDepth = 16384;
  EXPECT_EQ(matmul_workspace(kRows, kColumns, kDepth), 31 * kRows * kColumns);
  EXPECT_EQ(matmul_workspace(kRows + 1, kColumns, kDepth), 15 * (kRows + 1) * kColumns);
}

}  // namespace
}  // namespace tril
