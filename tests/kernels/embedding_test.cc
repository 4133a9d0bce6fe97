#include "tril/kernels/embedding.h"

#include <gtest/gtest.h>

#include "tests/reference/embedding.h"
#include "tests/support/kernel_test.h"

namespace tril {
namespace {

using testing::convert;
using testing::expect_same_bits;
using testing::for_each_target;
using testing::Guarded;
using testing::random_floats;

struct Case {
  size_t rows, time, channels, vocabulary;
};

std::vector<int32_t> random_indices(uint64_t seed, size_t count, size_t below) {
  const RandomStream random(seed, "indices");
  std::vector<int32_t> out;
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>(random.below(i, below)));
  return out;
}

void embedding_forward_of(Executor& executor, const Case& k, const int32_t* tokens, const int32_t* positions,
                          float* table, float* position_table, float* y) {
  embedding_forward(executor, static_cast<int64_t>(k.rows), static_cast<int64_t>(k.time),
                    static_cast<int64_t>(k.channels), tokens, positions,
                    StoredRows(ConstView(table, {1, static_cast<int64_t>(k.channels)})), position_table, y);
}

void embedding_backward_of(Executor& executor, const Case& k, const int32_t* indices, float* dy,
                           float* dtable) {
  embedding_backward(executor, static_cast<int64_t>(k.rows), static_cast<int64_t>(k.time),
                     static_cast<int64_t>(k.channels), indices, dy, dtable);
}

// Additions in the same order as the plain loops: the same bits.
void expect_right(Executor& executor, const Case& k) {
  SCOPED_TRACE(std::to_string(k.rows) + " rows of " + std::to_string(k.channels));
  const auto tokens = random_indices(1, k.rows, k.vocabulary), positions = random_indices(2, k.rows, k.time);
  const auto table = random_floats(3, k.vocabulary * k.channels),
             places = random_floats(4, k.time * k.channels);
  const auto dy = random_floats(5, k.rows * k.channels);
  Guarded table_in(table, 1), places_in(places, 2), dy_in(dy, 3);
  for (const int32_t* p : {positions.data(), static_cast<const int32_t*>(nullptr)}) {
    Guarded y(k.rows * k.channels, 1), bare(k.rows * k.channels, 2), dplaces(places, 3);
    embedding_forward_of(executor, k, tokens.data(), p, table_in.data(), places_in.data(), y.data());
    expect_same_bits(
        "y", y.span(),
        reference::embedding_forward(k.rows, k.time, k.channels, tokens.data(), p, table, places));
    embedding_forward_of(executor, k, tokens.data(), p, table_in.data(), nullptr, bare.data());
    expect_same_bits("y without positions", bare.span(),
                     reference::embedding_forward(k.rows, k.time, k.channels, tokens.data(), p, table, {}));
    embedding_backward_of(executor, k, p, dy_in.data(), dplaces.data());
    std::vector<float> expected = places;
    reference::embedding_backward(k.rows, k.time, k.channels, p, dy, expected);
    expect_same_bits("dposition_table", dplaces.span(), expected);
    for (const Guarded* g : {&y, &bare, &dplaces}) g->expect_intact("embedding");
  }
  Guarded dtable(table, 5);
  embedding_backward_of(executor, k, tokens.data(), dy_in.data(), dtable.data());
  std::vector<float> expected = table;
  reference::embedding_backward(k.rows, k.time, k.channels, tokens.data(), dy, expected);
  expect_same_bits("dtoken_table", dtable.span(), expected);
  dtable.expect_intact("dtoken_table");
}

TEST(EmbeddingReference, GradientIsTheComplexStep) {
  using Complex = std::complex<double>;
  const auto tokens = random_indices(1, 7, 4);
  const auto dy = convert<double>(random_floats(1, 21)), table = convert<double>(random_floats(2, 12));
  std::vector<double> dtable(12);
  reference::embedding_backward(7, 3, 3, tokens.data(), dy, dtable);
  testing::expect_complex_step(
      "dtable",
      [&](const std::vector<Complex>& z) {
        Complex sum = 0;
        const auto y = reference::embedding_forward(7, 3, 3, tokens.data(), nullptr, z, {});
        for (size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
        return sum;
      },
      table, dtable);
}

TEST(Embedding, OddSizes) {
  for_each_target([] {
    SerialExecutor serial;
    for (size_t c = 1; c <= 70; ++c) {
      expect_right(serial, {11 + c % 3, 1 + c % 5, c, 5});
      if (HasFatalFailure()) return;
    }
  });
}

TEST(Embedding, LargerSizesOnAnyNumberOfThreads) {
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    for (const Case& k : {Case{512, 100, 333, 50}, Case{3000, 64, 16, 9}, Case{1030, 257, 64, 1000}})
      expect_right(pool, k);
  }
}

TEST(Embedding, DryExecutorTouchesNothing) {
  DryExecutor dry(2);
  embedding_forward(dry, 1000, 100, 64, nullptr, nullptr, StoredRows(), nullptr, nullptr);
  embedding_backward(dry, 1000, 100, 64, nullptr, nullptr, nullptr);
  const int32_t token = 0;
  embedding_backward(dry, 1000, 100, 64, &token, nullptr, nullptr);
}

}  // namespace
}  // namespace tril
