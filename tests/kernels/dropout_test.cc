#include "tril/kernels/dropout.h"

#include <gtest/gtest.h>

#include "tests/reference/dropout.h"
#include "tests/support/kernel_test.h"

namespace tril {
namespace {

using testing::expect_same_bits;
using testing::for_each_target;
using testing::Guarded;
using testing::kInfinity;
using testing::kNan;
using testing::random_floats;

// Seed, name and substream of a stream, and the mask of the same words.
struct Stream {
  uint64_t seed = 42;
  uint64_t substream = 0x123456789ABCDEF0;
  RandomStream words() const { return {seed, "site", substream}; }
  DropoutMask mask(float p) const { return {p, stream_key(seed, "site"), substream}; }
};

TEST(Dropout, OddLengthsAndAlignments) {
  for_each_target([] {
    SerialExecutor serial;
    const Stream stream;
    for (size_t count = 2; count <= 70; ++count) {
      const std::vector<float> x = random_floats(count, count);
      Guarded in(x, count % 5), out(count, count % 3);
      dropout(serial, stream.mask(0.3f), static_cast<int64_t>(count), in.data(), out.data());
      expect_same_bits(std::to_string(count), out.span(), reference::dropout(stream.words(), 0.3f, x));
      out.expect_intact("y");
      in.expect_intact("x");
      if (HasFatalFailure()) return;
    }
  });
}

// The word of every element, also beyond 2^34 where the block number needs more than 32 bits.
TEST(Dropout, RowsAnywhereInTheArray) {
  for_each_target([] {
    const Stream stream;
    const RandomStream words = stream.words();
    for (const uint64_t base :
         {uint64_t{0}, uint64_t{1} << 34, (uint64_t{1} << 34) - 30, uint64_t{1} << 50}) {
      for (uint64_t offset = 0; offset < 9; ++offset) {
        const std::vector<float> x(67, 1.0f);
        Guarded y(67);
        dropout_row(stream.mask(0.5f), static_cast<int64_t>(base + offset), 67, x.data(), y.data());
        for (size_t i = 0; i < 67; ++i)
          ASSERT_EQ(y.span()[i], reference::dropped(words, base + offset + i, 0.5f) ? 0.0f : 2.0f)
              << base << " " << i;
        y.expect_intact("y");
      }
    }
  });
}

TEST(Dropout, SameBitsOnAnyNumberOfThreadsAndInPieces) {
  const Stream stream;
  const std::vector<float> x = random_floats(1, 70001);
  const std::vector<float> expected = reference::dropout(stream.words(), 0.1f, x);
  testing::expect_same_for_any_threads("dropout", [&](Executor& executor) {
    std::vector<float> y = x;
    dropout(executor, stream.mask(0.1f), 70001, y.data(), y.data());  // in place
    expect_same_bits("reference", y, expected);
    return y;
  });
  std::vector<float> pieces(x.size());
  for (size_t first = 0, size = 1; first < x.size(); first += size, size = size % 97 + 5) {
    const size_t count = std::min(size, x.size() - first);
    dropout_row(stream.mask(0.1f), static_cast<int64_t>(first), static_cast<int64_t>(count), &x[first],
                &pieces[first]);
  }
  expect_same_bits("pieces", pieces, expected);
}

TEST(Dropout, KeepsTheMeanAndTheShare) {
  for_each_target([] {
    SerialExecutor serial;
    constexpr size_t kCount = 400000;
    for (const float p : {0.1f, 0.5f, 0.9f}) {
      std::vector<float> y(kCount, 1.0f);
      dropout(serial, Stream{}.mask(p), kCount, y.data(), y.data());
      double sum = 0, kept = 0;
      for (const float v : y) sum += v, kept += v != 0;
      const double sigma = std::sqrt(p * (1 - p) / kCount);
      EXPECT_NEAR(kept / kCount, 1 - p, 4 * sigma);
      EXPECT_NEAR(sum / kCount, 1, 4 * sigma / (1 - p));
    }
  });
}

TEST(Dropout, DependsOnKeyAndSubstream) {
  SerialExecutor serial;
  const std::vector<float> x(256, 1.0f);
  std::vector<float> a(256), b(256), c(256);
  dropout(serial, Stream{1, 5}.mask(0.5f), 256, x.data(), a.data());
  dropout(serial, Stream{1, 6}.mask(0.5f), 256, x.data(), b.data());
  dropout(serial, Stream{2, 5}.mask(0.5f), 256, x.data(), c.data());
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
  dropout(serial, Stream{1, 5}.mask(0.5f), 256, x.data(), b.data());
  expect_same_bits("the same call", a, b);
}

// Where p * 2^32 is not whole: word w is dropped for p = (w + 1/2) / 2^32 and kept for p = w / 2^32.
TEST(Dropout, ThresholdIsExact) {
  for_each_target([] {
    const Stream stream;
    uint64_t i = 0;
    while (stream.words().bits(i) >= 1 << 22) ++i;
    const float w = static_cast<float>(stream.words().bits(i)), one = 1;
    float y = kNan;
    dropout_row(stream.mask((w + 0.5f) * 0x1p-32f), static_cast<int64_t>(i), 1, &one, &y);
    EXPECT_EQ(y, 0.0f);
    dropout_row(stream.mask(w * 0x1p-32f), static_cast<int64_t>(i), 1, &one, &y);
    EXPECT_GE(y, 1.0f);
  });
}

TEST(Dropout, ProbabilitiesAtTheEnds) {
  for_each_target([] {
    SerialExecutor serial;
    const std::vector<float> x = random_floats(1, 1001);
    std::vector<float> y(1001);
    dropout(serial, Stream{}.mask(0), 1001, x.data(), y.data());
    expect_same_bits("nothing dropped", y, x);
    dropout(serial, Stream{}.mask(1e-12f), 1001, x.data(), y.data());
    expect_same_bits("almost nothing dropped", y, x);
    std::fill(y.begin(), y.end(), 1.0f);
    dropout(serial, Stream{}.mask(0x1.fffffep-1f), 1001, y.data(), y.data());
    testing::expect_all_zero("almost everything dropped", y);
  });
}

TEST(Dropout, SpecialValues) {
  for_each_target([] {
    SerialExecutor serial;
    const Stream stream;
    for (const float special : {kNan, kInfinity, -0.0f, 1e-40f}) {
      std::vector<float> y(67, special);
      dropout(serial, stream.mask(0.5f), 67, y.data(), y.data());
      for (size_t i = 0; i < 67; ++i) {
        if (reference::dropped(stream.words(), i, 0.5f)) {
          EXPECT_EQ(std::bit_cast<uint32_t>(y[i]), 0u);
        } else if (std::isnan(special)) {
          EXPECT_TRUE(std::isnan(y[i]));
        } else {
          EXPECT_EQ(y[i], 2 * special);
        }
      }
    }
  });
}

TEST(Dropout, DryExecutorTouchesNothing) {
  DryExecutor dry(2);
  dropout(dry, Stream{}.mask(0.5f), 100000, nullptr, nullptr);
}

}  // namespace
}  // namespace tril
