#include "tril/tensor/quantized.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tril {
namespace {

constexpr int64_t kBlock = 32;

template <class T>
T load(const std::byte* x) {
  T value;
  std::memcpy(&value, x, sizeof value);
  return value;
}

template <class T>
void store(T value, std::byte* y) {
  std::memcpy(y, &value, sizeof value);
}

float load_f16(const std::byte* x) { return float_of_f16(load<uint16_t>(x)); }

void store_f16(float value, std::string_view type, std::byte* y) {
  const uint16_t bits = f16_of_float(value);
  if ((bits & 0x7C00) == 0x7C00) [[unlikely]]
    fail(ErrorKind::kNumerics, "{} cannot hold {}, beyond the 65504 of an f16; write bf16 or f32", type,
         value);
  store(bits, y);
}

[[noreturn]] void not_finite(std::string_view type) {
  fail(ErrorKind::kNumerics, "{} cannot hold NaN or infinity; the weights are damaged", type);
}

// 0 where there is none, or it is no float: all numbers of such a block are 0 too.
float inverse_of(float d) { return d != 0 && std::isfinite(1 / d) ? 1 / d : 0; }

// Number j of 32 in 16 bytes, as a nibble.
int nibble(const std::byte* q, int64_t j) {
  const int both = std::to_integer<int>(q[j % 16]);
  return j < 16 ? both & 15 : both >> 4;
}

void store_nibbles(const int* q, std::byte* y) {
  for (int j = 0; j < 16; ++j) y[j] = static_cast<std::byte>(q[j] | q[j + 16] << 4);
}

void encode_q8_0(const float* x, std::byte* y) {
  float largest = 0;
  for (int64_t i = 0; i < kBlock; ++i) {
    if (!std::isfinite(x[i])) not_finite("q8_0");
    largest = std::max(largest, std::fabs(x[i]));
  }
  const float d = largest / 127, inverse = inverse_of(d);
  store_f16(d, "q8_0", y);
  for (int64_t i = 0; i < kBlock; ++i)
    y[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(x[i] * inverse)));
}

void encode_q4_0(const float* x, std::byte* y) {
  float largest = 0;  // by magnitude, with its sign
  for (int64_t i = 0; i < kBlock; ++i) {
    if (!std::isfinite(x[i])) not_finite("q4_0");
    if (std::fabs(x[i]) > std::fabs(largest)) largest = x[i];
  }
  const float d = largest / -8, inverse = inverse_of(d);
  store_f16(d, "q4_0", y);
  int q[kBlock];
  for (int64_t i = 0; i < kBlock; ++i)
    q[i] = static_cast<int>(std::clamp(x[i] * inverse + 8.5f, 0.0f, 15.0f));
  store_nibbles(q, y + 2);
}

void encode_q4_1(const float* x, std::byte* y) {
  float low = x[0], high = x[0];
  for (int64_t i = 0; i < kBlock; ++i) {
    if (!std::isfinite(x[i])) not_finite("q4_1");
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  const float d = (high - low) / 15, inverse = inverse_of(d);
  store_f16(d, "q4_1", y);
  store_f16(low, "q4_1", y + 2);
  int q[kBlock];
  for (int64_t i = 0; i < kBlock; ++i)
    q[i] = static_cast<int>(std::clamp((x[i] - low) * inverse + 0.5f, 0.0f, 15.0f));
  store_nibbles(q, y + 4);
}

// Calls body(first element, bytes) for each block.
template <class Byte, class Body>
void for_each_block(DType dtype, int64_t count, Byte* bytes, Body&& body) {
  dtype_bytes(dtype, count);  // throws unless the blocks are whole
  const int64_t size = dtype_info(dtype).block_bytes;
  for (int64_t b = 0; b < count / kBlock; ++b) body(b * kBlock, bytes + b * size);
}

[[noreturn]] void no_floats(DType dtype) {
  fail(ErrorKind::kUse, "{} does not hold floats; use f32, f16, bf16, q8_0, q4_0 or q4_1",
       dtype_info(dtype).name);
}

}  // namespace

float float_of_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7FFFu;
  if (magnitude >= 0x7C00) return std::bit_cast<float>(sign | 0x7F800000u | (magnitude & 0x3FF) << 13);
  if (magnitude >= 0x400) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  const float denormal = static_cast<float>(magnitude) * 0x1p-24f;
  return sign != 0 ? -denormal : denormal;
}

uint16_t f16_of_float(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
  if (magnitude >= 0x47800000u) return sign | 0x7C00;  // 65536 and above
  if (magnitude < 0x38800000u) {                       // below 2^-14: in steps of 2^-24
    // Adding 1/2 leaves a float whose last bit is 2^-24: the sum rounds as wanted.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3F000000u));
  }
  const uint32_t rounded = magnitude - (112u << 23) + 0xFFF + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

float float_of_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t bf16_of_float(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

bool holds_floats(DType dtype) { return dtype <= DType::kBF16 || dtype >= DType::kQ8_0; }

void dequantize_row(DType dtype, int64_t count, const std::byte* x, float* y) {
  switch (dtype) {
    case DType::kF32:
      std::memcpy(y, x, static_cast<size_t>(dtype_bytes(dtype, count)));
      return;
    case DType::kF64:
      for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(load<double>(x + 8 * i));
      return;
    case DType::kF16:
      for (int64_t i = 0; i < count; ++i) y[i] = load_f16(x + 2 * i);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < count; ++i) y[i] = float_of_bf16(load<uint16_t>(x + 2 * i));
      return;
    case DType::kQ8_0:
      for_each_block(dtype, count, x, [&](int64_t at, const std::byte* block) {
        const float d = load_f16(block);
        for (int64_t j = 0; j < kBlock; ++j) y[at + j] = d * static_cast<float>(load<int8_t>(block + 2 + j));
      });
      return;
    case DType::kQ4_0:
      for_each_block(dtype, count, x, [&](int64_t at, const std::byte* block) {
        const float d = load_f16(block);
        for (int64_t j = 0; j < kBlock; ++j) y[at + j] = d * static_cast<float>(nibble(block + 2, j) - 8);
      });
      return;
    case DType::kQ4_1:
      for_each_block(dtype, count, x, [&](int64_t at, const std::byte* block) {
        const float d = load_f16(block), m = load_f16(block + 2);
        for (int64_t j = 0; j < kBlock; ++j) y[at + j] = d * static_cast<float>(nibble(block + 4, j)) + m;
      });
      return;
    default:
      no_floats(dtype);
  }
}

void quantize_row(DType dtype, int64_t count, const float* x, std::byte* y) {
  switch (dtype) {
    case DType::kF32:
      std::memcpy(y, x, static_cast<size_t>(dtype_bytes(dtype, count)));
      return;
    case DType::kF64:
      for (int64_t i = 0; i < count; ++i) store(static_cast<double>(x[i]), y + 8 * i);
      return;
    case DType::kF16:
      for (int64_t i = 0; i < count; ++i) {
        if (std::isfinite(x[i])) {
          store_f16(x[i], "f16", y + 2 * i);
        } else {
          store(f16_of_float(x[i]), y + 2 * i);
        }
      }
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < count; ++i) store(bf16_of_float(x[i]), y + 2 * i);
      return;
    case DType::kQ8_0:
      for_each_block(dtype, count, y, [&](int64_t at, std::byte* block) { encode_q8_0(x + at, block); });
      return;
    case DType::kQ4_0:
      for_each_block(dtype, count, y, [&](int64_t at, std::byte* block) { encode_q4_0(x + at, block); });
      return;
    case DType::kQ4_1:
      for_each_block(dtype, count, y, [&](int64_t at, std::byte* block) { encode_q4_1(x + at, block); });
      return;
    default:
      no_floats(dtype);
  }
}

}  // namespace tril
