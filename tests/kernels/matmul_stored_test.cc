// Products with weights as they are stored: f16, bf16 and blocks.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "tests/support/kernel_test.h"
#include "tril/kernels/embedding.h"
#include "tril/kernels/matmul.h"
#include "tril/kernels/matmul_int8.h"
#include "tril/kernels/matmul_quantized.h"
#include "tril/tensor/quantized.h"

namespace tril {
namespace {

using testing::random_floats;

constexpr DType kTypes[] = {DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1};

// W (n, k) as stored, one byte off alignment, and its floats. Rows differ in size, so that scales do.
struct StoredMatrix {
  StoredMatrix(DType dtype_, int64_t n_, int64_t k_, uint64_t seed = 5) : dtype(dtype_), n(n_), k(k_) {
    const int64_t row_bytes = dtype_bytes(dtype, k);
    bytes.resize(static_cast<size_t>(1 + n * row_bytes));
    floats = random_floats(seed, static_cast<size_t>(n * k));
    for (int64_t r = 0; r < n; ++r) {
      float* const row = floats.data() + r * k;
      for (int64_t i = 0; i < k; ++i) row[i] *= 0.05f * static_cast<float>(1 + (r + i / 32) % 3);
      quantize_row(dtype, k, row, bytes.data() + 1 + r * row_bytes);
      dequantize_row(dtype, k, bytes.data() + 1 + r * row_bytes, row);
    }
  }
  StoredRows rows() const { return StoredRows(ConstView(bytes.data() + 1, dtype, {n, k})); }
  DType dtype;
  int64_t n, k;
  std::vector<std::byte> bytes;
  std::vector<float> floats;
};

std::vector<float> multiply(Executor& executor, const StoredMatrix& w, int64_t m, const std::vector<float>& x,
                            Epilogue epilogue = {}) {
  std::vector<float> y(static_cast<size_t>(m * w.n), testing::kNan);
  std::vector<float> workspace(static_cast<size_t>(matmul_workspace(m, w.n, w.k, w.dtype)), testing::kNan);
  matmul(executor,
         {.transpose_b = Transpose::kYes,
          .m = m,
          .n = w.n,
          .k = w.k,
          .a = x.data(),
          .lda = w.k,
          .c = y.data(),
          .ldc = w.n,
          .stored = w.rows()},
         workspace.data(), epilogue);
  return y;
}

// The largest number that an element of x becomes; 0: x is not rounded.
double steps_of_x(DType dtype, int64_t m) {
  if (!is_quantized(dtype)) return 0;
  if (m <= kFewQuantizedRows) return dtype == DType::kQ8_0 ? kLargestNumber : kLargestOfNibbles;
  return has_int8_products() ? 127 : 0;
}

// What rounding x to blocks may cost an element of y: half a step of the block's scale for each element, and
// the rounding of float sums. In the mean: errors spread evenly over a step have its square / 12.
struct RoundingError {
  double most = 0, mean_square = 0;
};

RoundingError rounding_error(const StoredMatrix& w, double steps, const float* x, const float* row) {
  RoundingError error;
  double size = 0;
  for (int64_t b = 0; b < w.k; b += 32) {
    double most = 0, weights = 0, squares = 0;
    for (int64_t i = b; i < std::min(w.k, b + 32); ++i) {
      most = std::max<double>(most, std::abs(x[i]));
      weights += std::abs(row[i]);
      squares += static_cast<double>(row[i]) * row[i];
      size += std::abs(static_cast<double>(x[i]) * row[i]);
    }
    if (steps == 0) continue;
    const double step = most / steps;
    error.most += 0.5 * step * weights;
    error.mean_square += step * step / 12 * squares;
  }
  // Scales of nibbles go with numbers of up to 15 where the elements are up to 8: more to cancel.
  error.most = 1.01 * error.most + 4e-6 * size;
  error.mean_square += 1e-7 * size * 1e-7 * size;
  return error;
}

void expect_right(Executor& executor, DType dtype, int64_t m, int64_t n, int64_t k) {
  SCOPED_TRACE(fmt::format("{} {} x {} x {}", dtype_info(dtype).name, m, n, k));
  const StoredMatrix w(dtype, n, k);
  const std::vector<float> x = random_floats(6, static_cast<size_t>(m * k));
  const std::vector<float> y = multiply(executor, w, m, x);
  const double steps = steps_of_x(dtype, m);
  double squares = 0, expected_squares = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const float* const xi = x.data() + i * k;
      const float* const wj = w.floats.data() + j * k;
      double exact = 0;
      for (int64_t c = 0; c < k; ++c) exact += static_cast<double>(xi[c]) * wj[c];
      const float actual = y[static_cast<size_t>(i * n + j)];
      const RoundingError error = rounding_error(w, steps, xi, wj);
      ASSERT_NEAR(actual, exact, error.most) << i << ", " << j;
      squares += (actual - exact) * (actual - exact);
      expected_squares += error.mean_square;
    }
  }
  // Of many results; 0.85 to 1.01 were measured where x is rounded.
  if (m * n >= 100) {
    EXPECT_LE(std::sqrt(squares), 1.2 * std::sqrt(expected_squares));
  }
}

TEST(MatmulStored, EveryTypeShapeAndInstructionSet) {
  SerialExecutor serial;
  testing::for_each_target([&] {
    for (const DType dtype : kTypes) {
      for (const int64_t m : {1, 2, 3, 4, 5, 40})
        for (const int64_t n : {1, 8, 37}) expect_right(serial, dtype, m, n, 96);
      expect_right(serial, dtype, 1, 11, 32);
      expect_right(serial, dtype, 2, 5, 2144);   // more blocks than one group of scales
      expect_right(serial, dtype, 30, 60, 544);  // more depth than one pass of tiles
      if (is_quantized(dtype)) continue;
      for (const int64_t k : {1, 31, 131}) expect_right(serial, dtype, 3, 9, k);
    }
  });
}

TEST(MatmulStored, LargeShapesOnThreads) {
  ThreadPool pool(3);
  for (const DType dtype : kTypes) {
    expect_right(pool, dtype, 1, 2000, 576);
    expect_right(pool, dtype, 200, 200, 288);
    expect_right(pool, dtype, 530, 20, 2080);  // more rows, and blocks, than one chunk
  }
}

TEST(MatmulStored, SameBitsForAnyNumberOfThreads) {
  for (const DType dtype : kTypes) {
    const StoredMatrix w(dtype, 1003, 320);
    for (const int64_t m : {1, 3, 90}) {
      const std::vector<float> x = random_floats(7, static_cast<size_t>(m * w.k));
      testing::expect_same_for_any_threads(fmt::format("{} {}", dtype_info(dtype).name, m),
                                           [&](Executor& executor) { return multiply(executor, w, m, x); });
    }
  }
}

// A NaN that integers would hide shows in every result of its row, and in no other.
TEST(MatmulStored, NotANumberShows) {
  SerialExecutor serial;
  testing::for_each_target([&] {
    for (const DType dtype : kTypes) {
      for (const float bad : {testing::kNan, testing::kInfinity}) {
        for (const int64_t m : {2, 20}) {
          const StoredMatrix w(dtype, 20, 64);
          std::vector<float> x = random_floats(8, static_cast<size_t>(m * 64));
          x[64 + 37] = bad;
          const std::vector<float> y = multiply(serial, w, m, x);
          for (size_t i = 0; i < y.size(); ++i)
            EXPECT_EQ(std::isfinite(y[i]), i / 20 != 1) << dtype_info(dtype).name << " " << i << " " << y[i];
        }
      }
    }
  });
}

TEST(MatmulStored, BlocksOfZerosAndOfTinyNumbers) {
  SerialExecutor serial;
  testing::for_each_target([&] {
    for (const DType dtype : kTypes) {
      const StoredMatrix w(dtype, 20, 96);
      for (const int64_t m : {1, 20}) {
        std::vector<float> x(static_cast<size_t>(m * 96), 0.0f);
        for (const float y : multiply(serial, w, m, x)) ASSERT_EQ(y, 0.0f);
        for (size_t i = 32; i < 96; ++i) x[i] = 1e-41f;  // whose inverse is beyond floats
        for (const float y : multiply(serial, w, m, x)) ASSERT_NEAR(y, 0.0f, 1e-36f);
      }
    }
  });
}

TEST(MatmulStored, EpilogueCoversEveryElementOnce) {
  ThreadPool pool(2);
  for (const DType dtype : kTypes) {
    for (const int64_t m : {1, 60}) {
      const StoredMatrix w(dtype, 700, 64);
      const std::vector<float> x = random_floats(9, static_cast<size_t>(m * w.k));
      std::vector<std::atomic<int>> calls(static_cast<size_t>(m * w.n));
      multiply(pool, w, m, x, [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
        for (int64_t i = row; i < row + rows; ++i)
          for (int64_t j = column; j < column + columns; ++j) ++calls[static_cast<size_t>(i * w.n + j)];
      });
      for (const auto& n : calls) ASSERT_EQ(n, 1);
    }
  }
}

TEST(MatmulStored, TouchesNothingOutsideTheExecutor) {
  DryExecutor dry(4);
  for (const DType dtype : kTypes) {
    for (const int64_t m : {1, 100}) {
      Product product{.transpose_b = Transpose::kYes, .m = m, .n = 300, .k = 640, .lda = 640, .ldc = 300};
      product.stored = StoredRows(ConstView(reinterpret_cast<const std::byte*>(64), dtype, {300, 640}));
      matmul(dry, product, nullptr, [](int64_t, int64_t, int64_t, int64_t) { FAIL(); });
    }
  }
}

TEST(StoredRows, WideningGivesTheBitsOfTheReference) {
  testing::for_each_target([] {
    for (const DType dtype : kTypes) {
      const StoredMatrix w(dtype, 3, 160);
      for (int64_t r = 0; r < w.n; ++r) {
        std::vector<float> row(160);
        widen_row(dtype, w.k, w.rows().at(r, 0), row.data());
        testing::expect_same_bits(std::string(dtype_info(dtype).name), row,
                                  std::span(w.floats).subspan(static_cast<size_t>(r * w.k), 160));
      }
    }
  });
}

TEST(StoredRows, EmbeddingsAreRowsOfTheTable) {
  SerialExecutor serial;
  const std::vector<int32_t> tokens = {4, 0, 4, 2};
  const std::vector<float> places = random_floats(3, 2 * 64);
  for (const DType dtype : kTypes) {
    const StoredMatrix table(dtype, 5, 64);
    std::vector<float> y(4 * 64), expected;
    embedding_forward(serial, 4, 2, 64, tokens.data(), nullptr, table.rows(), places.data(), y.data());
    for (size_t n = 0; n < 4; ++n)
      for (size_t c = 0; c < 64; ++c)
        expected.push_back(table.floats[static_cast<size_t>(tokens[n]) * 64 + c] + places[n % 2 * 64 + c]);
    testing::expect_same_bits("embeddings", y, expected);
  }
}

}  // namespace
}  // namespace tril
