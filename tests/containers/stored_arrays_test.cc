#include "tril/containers/stored_arrays.h"

#include <gtest/gtest.h>

#include "tests/containers/safetensors_bytes.h"
#include "tests/support/compare.h"
#include "tests/support/expect_error.h"
#include "tests/support/round_to.h"
#include "tests/support/temporary_directory.h"
#include "tril/containers/gguf.h"
#include "tril/containers/safetensors.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::TemporaryDirectory;

TEST(StoredArrays, StridesAreFollowed) {
  // The transpose of (3, 2), and every second column of (2, 6).
  float x[12];
  for (int i = 0; i < 12; ++i) x[i] = static_cast<float>(i);
  StoredArray array{
      .name = "x", .shape = {2, 3}, .data = reinterpret_cast<const std::byte*>(x), .strides = {1, 2}};
  float out[6];
  read_f32(array, 0, 6, out);
  EXPECT_EQ(std::vector<float>(out, out + 6), (std::vector<float>{0, 2, 4, 1, 3, 5}));
  read_f32(array, 2, 3, out);
  EXPECT_EQ(std::vector<float>(out, out + 3), (std::vector<float>{4, 1, 3}));
  array.strides = {6, 2};
  read_f32(array, 0, 6, out);
  EXPECT_EQ(std::vector<float>(out, out + 6), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  array.strides = {};
  read_f32(array, 1, 4, out);
  EXPECT_EQ(std::vector<float>(out, out + 4), (std::vector<float>{1, 2, 3, 4}));
  expect_error(ErrorKind::kUse, {"x", "4 to 7 of 6"}, [&] { read_f32(array, 4, 3, out); });
  expect_error(ErrorKind::kUse, {"x"}, [&] { read_f32(array, -1, 1, out); });
  array.dtype = DType::kI32;
  expect_error(ErrorKind::kData, {"\"x\"", "i32", "floats"}, [&] { read_f32(array, 0, 1, out); });
}

TEST(StoredArrays, OfSafetensors) {
  const TemporaryDirectory dir;
  Tensor a({2, 3}), mask({1, 1, 2, 2}, DType::kU8);
  for (int i = 0; i < 6; ++i) a.f32()[i] = static_cast<float>(i);
  write_safetensors(dir / "f", {{"a", a}, {"mask", mask}});
  const StoredArrays arrays = stored_arrays(std::make_shared<const SafetensorsFile>(dir / "f"));
  ASSERT_EQ(arrays.arrays.size(), 2u);  // the file is closed here, but stays mapped
  EXPECT_EQ(arrays.arrays[0].shape, (Shape{2, 3}));
  EXPECT_EQ(arrays.arrays[1].dtype, DType::kU8);
  float out[6];
  read_f32(arrays.arrays[0], 0, 6, out);
  EXPECT_EQ(out[5], 5);
  const auto refused = [&](const std::string& header, std::initializer_list<std::string_view> parts) {
    testing::write_bytes(dir / "g", testing::safetensors_bytes(header, std::string(8, '\0')));
    expect_error(ErrorKind::kData, parts,
                 [&] { stored_arrays(std::make_shared<const SafetensorsFile>(dir / "g")); });
  };
  refused(R"({"q": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}})", {"\"q\"", "F8_E4M3"});
  refused(R"({"q": {"dtype": "U8", "shape": [2,1,2,1,2], "data_offsets": [0, 8]}})",
          {"\"q\"", "5 dimensions"});
}

// 53 divides the length of no row, so that the rows differ.
float number(int64_t i) { return static_cast<float>(i % 53) - 20; }

std::vector<StreamedArray> three_tensors() {
  const auto rows = [](int64_t columns) {
    return [=](int64_t first, int64_t count, float* out) {
      for (int64_t i = 0; i < count * columns; ++i) out[i] = number(first * columns + i);
    };
  };
  return {{"vector", DType::kF32, {3}, rows(1)},
          {"blocks", DType::kQ8_0, {5, 64}, rows(64)},
          {"halves", DType::kF16, {700, 500}, rows(500)}};  // in more than one piece
}

TEST(StoredArrays, OfGgufWrittenInPieces) {
  const TemporaryDirectory dir;
  GgufHeader header;
  header.add("general.architecture", std::string_view("none"));
  write_gguf(dir / "f", header, three_tensors());
  EXPECT_EQ(std::filesystem::file_size(dir / "f") % kGgufAlignment, 0u);
  const StoredArrays arrays = stored_arrays(std::make_shared<const GgufFile>(dir / "f"));
  ASSERT_EQ(arrays.arrays.size(), 3u);
  for (const StoredArray& array : arrays.arrays) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data) % kGgufAlignment, 0u) << array.name;
    std::vector<float> out(static_cast<size_t>(array.shape.elements()));
    read_f32(array, 0, array.shape.elements(), out.data());
    std::vector<float> expected;
    for (int64_t i = 0; i < array.shape.elements(); ++i) expected.push_back(number(i));
    testing::round_to(array.dtype, expected);
    testing::expect_same_bits(array.name, out, expected);
    if (array.dtype == DType::kQ8_0) {  // from the middle, in whole blocks
      float part[32];
      read_f32(array, 96, 32, part);
      EXPECT_EQ(part[5], out[101]);
    }
  }
  GgufHeader same;
  auto tensors = three_tensors();
  tensors[0].name = std::string(64, 'x');
  expect_error(ErrorKind::kUse, {"63 bytes"}, [&] { write_gguf(dir / "g", same, tensors); });
  EXPECT_FALSE(std::filesystem::exists(dir / "g"));
}

TEST(StoredArrays, TypesOfGgufThatAreNotRead) {
  const TemporaryDirectory dir;
  write_gguf(dir / "f", {}, three_tensors());
  std::string bytes = read_text_file(dir / "f");
  const size_t at = bytes.find("vector") + 6 + 4 + 8;  // name, dimensions, size
  const auto change = [&](char type, std::string_view name) {
    bytes[at] = type;
    write_file_atomic(dir / "f", bytes);
    expect_error(ErrorKind::kData, {"\"vector\"", name, "q8_0, q4_0 and q4_1"},
                 [&] { stored_arrays(std::make_shared<const GgufFile>(dir / "f")); });
  };
  change(24, "i8");
  change(99, "type 99");
}

}  // namespace
}  // namespace tril
