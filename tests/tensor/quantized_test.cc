#include "tril/tensor/quantized.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/expect_error.h"
#include "tril/base/random.h"

namespace tril {
namespace {

using testing::expect_error;

TEST(Quantized, EveryF16ComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float x = float_of_f16(static_cast<uint16_t>(bits));
    const bool nan = (bits & 0x7C00) == 0x7C00 && (bits & 0x3FF) != 0;
    ASSERT_EQ(std::isnan(x), nan) << bits;
    if (!nan) {
      ASSERT_EQ(f16_of_float(x), bits) << x;
    }
  }
  EXPECT_EQ(float_of_f16(0x3C00), 1.0f);
  EXPECT_EQ(float_of_f16(0xC000), -2.0f);
  EXPECT_EQ(float_of_f16(0x7BFF), 65504.0f);
  EXPECT_EQ(float_of_f16(0x0001), 0x1p-24f);
  EXPECT_TRUE(std::isnan(float_of_f16(f16_of_float(std::numeric_limits<float>::quiet_NaN()))));
}

// Halfway between two neighbours the even one, else the nearer one: by exact arithmetic in double.
TEST(Quantized, F16IsTheNearest) {
  for (uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const float low = float_of_f16(bits), high = float_of_f16(static_cast<uint16_t>(bits + 1));
    const auto middle = static_cast<float>((double{low} + double{high}) / 2);
    ASSERT_EQ(f16_of_float(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(f16_of_float(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(f16_of_float(-std::nextafter(middle, 1e9f)), (bits + 1) | 0x8000);
  }
  EXPECT_EQ(f16_of_float(65519), 0x7BFF);
  EXPECT_EQ(f16_of_float(65520), 0x7C00);
  EXPECT_EQ(f16_of_float(1e30f), 0x7C00);
}

// CRC-32 of zlib's polynomial, bit by bit.
uint32_t crc(const void* data, size_t size) {
  const auto* const bytes = static_cast<const unsigned char*>(data);
  uint32_t c = ~0u;
  for (size_t i = 0; i < size; ++i) {
    c ^= bytes[i];
    for (int k = 0; k < 8; ++k) c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0);
  }
  return ~c;
}

// Bytes and values as the numpy functions of the package gguf (0.19.0) give them for these numbers, which
// follow ggml's reference bit by bit.
TEST(Quantized, BytesAreGgmls) {
  std::vector<float> x(64 * 32);
  for (int i = 0; i < 64 * 32; ++i)
    x[static_cast<size_t>(i)] = std::ldexp(static_cast<float>(i * 7919 % 1009 - 504) / 64, -(i / 32 % 20));
  std::fill_n(x.begin() + 3 * 32, 32, 0.0f);
  std::fill_n(x.begin() + 4 * 32, 32, 0.3f);
  struct Expected {
    DType dtype;
    uint32_t bytes, values;
  };
  const Expected all[] = {{DType::kF16, 0xb598ec80, 0x07b6d6c5},
                          {DType::kBF16, 0xb1115f19, 0xa41e0e66},
                          {DType::kQ8_0, 0xf9787c66, 0x1cf62fae},
                          {DType::kQ4_0, 0x06f2ec82, 0x17ebffe6},
                          {DType::kQ4_1, 0x321c917c, 0x661a6065}};
  for (const Expected& e : all) {
    SCOPED_TRACE(dtype_info(e.dtype).name);
    std::vector<std::byte> bytes(static_cast<size_t>(dtype_bytes(e.dtype, 64 * 32)));
    quantize_row(e.dtype, 64 * 32, x.data(), bytes.data());
    EXPECT_EQ(crc(bytes.data(), bytes.size()), e.bytes);
    std::vector<float> back(x.size());
    dequantize_row(e.dtype, 64 * 32, bytes.data(), back.data());
    EXPECT_EQ(crc(back.data(), 4 * back.size()), e.values);
    // From where no float could stand.
    std::vector<std::byte> shifted(bytes.size() + 1);
    std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
    dequantize_row(e.dtype, 64 * 32, shifted.data() + 1, back.data());
    EXPECT_EQ(crc(back.data(), 4 * back.size()), e.values);
  }
}

TEST(Quantized, WideTypesKeepFloats) {
  const float x[] = {1.5f, -0.0f, 1e-40f, 3e38f, std::numeric_limits<float>::infinity()};
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    std::byte bytes[5 * 8];
    float back[5];
    quantize_row(dtype, 5, x, bytes);
    dequantize_row(dtype, 5, bytes, back);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(x[i]));
  }
}

TEST(Quantized, WhatDoesNotFitIsSaid) {
  std::vector<float> x(32, 1.0f);
  std::byte bytes[64];
  x[7] = 1e7f;
  expect_error(ErrorKind::kNumerics, {"f16", "10000000"},
               [&] { quantize_row(DType::kF16, 32, x.data(), bytes); });
  expect_error(ErrorKind::kNumerics, {"q8_0", "65504"},
               [&] { quantize_row(DType::kQ8_0, 32, x.data(), bytes); });
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    x[7] = bad;
    for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1})
      expect_error(ErrorKind::kNumerics, {dtype_info(dtype).name, "NaN"},
                   [&] { quantize_row(dtype, 32, x.data(), bytes); });
  }
  x[7] = 1;
  expect_error(ErrorKind::kUse, {"q4_0", "31"}, [&] { quantize_row(DType::kQ4_0, 31, x.data(), bytes); });
  expect_error(ErrorKind::kUse, {"i32"}, [&] { quantize_row(DType::kI32, 4, x.data(), bytes); });
  expect_error(ErrorKind::kUse, {"u8"}, [&] { dequantize_row(DType::kU8, 4, bytes, x.data()); });
}

}  // namespace
}  // namespace tril
