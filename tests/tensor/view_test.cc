#include "tril/tensor/view.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/support/expect_error.h"
#include "tril/tensor/tensor.h"

namespace tril {
namespace {

using testing::expect_error;

TEST(Shape, HoldsUpToFourDimensions) {
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape().to_string(), "()");
  const Shape s{2, 3, 5, 7};
  EXPECT_EQ(s.rank(), 4);
  EXPECT_EQ(s[0], 2);
  EXPECT_EQ(s[3], 7);
  EXPECT_EQ(s.elements(), 210);
  EXPECT_EQ(s.to_string(), "(2, 3, 5, 7)");
  EXPECT_EQ(fmt::format("{}", s), "(2, 3, 5, 7)");
  EXPECT_EQ((Shape{4, 0}).elements(), 0);
}

TEST(Shape, EqualityNeedsTheSameRank) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 0}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
}

TEST(Shape, ImpossibleOnesThrow) {
  expect_error(ErrorKind::kUse, {"shape (2, -1): negative dimension"}, [] { Shape{2, -1}; });
  expect_error(ErrorKind::kUse, {"shape: 5 dimensions, at most 4"}, [] { Shape{1, 1, 1, 1, 1}; });
  expect_error(ErrorKind::kUse, {"size overflow"}, [] {
    Shape({int64_t{1} << 32, int64_t{1} << 32}).elements();
  });
}

TEST(Shape, StridesAreRowMajor) {
  const auto strides = contiguous_strides({2, 3, 5});
  EXPECT_EQ(strides, (std::array<int64_t, 4>{15, 5, 1, 0}));
  EXPECT_EQ(contiguous_strides({}), (std::array<int64_t, 4>{}));
}

std::vector<float> counting(size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 0.0f);
  return x;
}

TEST(View, RefersToMemory) {
  std::vector<float> x = counting(6);
  const View view(x.data(), {2, 3});
  EXPECT_EQ(view.f32(), x.data());
  EXPECT_EQ(view.elements(), 6);
  EXPECT_TRUE(view.contiguous());
  EXPECT_TRUE(view);
  view.f32()[4] = -1;
  EXPECT_EQ(x[4], -1);
  const ConstView constant = view;
  EXPECT_EQ(constant.f32(), x.data());
  EXPECT_EQ(constant.strides, view.strides);
  EXPECT_FALSE(View());
}

TEST(View, RowsOfEveryRank) {
  std::vector<float> x = counting(120);
  for (const Shape& shape : {Shape{5}, Shape{5, 24}, Shape{5, 4, 6}, Shape{5, 2, 3, 4}}) {
    const View rows = View(x.data(), shape).rows(2, 4);
    const int64_t row = shape.elements() / 5;
    EXPECT_EQ(rows.f32(), x.data() + 2 * row) << shape.to_string();
    EXPECT_EQ(rows.shape.rank(), shape.rank());
    EXPECT_EQ(rows.shape[0], 2);
    for (int i = 1; i < shape.rank(); ++i) EXPECT_EQ(rows.shape[i], shape[i]);
    EXPECT_TRUE(rows.contiguous());
  }
  EXPECT_EQ(View(x.data(), {5, 24}).rows(5, 5).elements(), 0);
}

TEST(View, RowsOfAStridedViewKeepItsStrides) {
  std::vector<float> x = counting(40);
  View view(x.data(), {5, 3});
  view.strides[0] = 8;  // the first 3 of every 8
  EXPECT_FALSE(view.contiguous());
  const View rows = view.rows(2, 5);
  EXPECT_EQ(rows.f32()[0], 16);
  EXPECT_EQ(rows.strides[0], 8);
}

TEST(View, RowsOfOtherElementTypes) {
  std::vector<std::byte> bytes(1000);
  EXPECT_EQ(View(bytes.data(), DType::kI64, {5, 4}).rows(2, 3).data, bytes.data() + 64);
  EXPECT_EQ(View(bytes.data(), DType::kQ8_0, {5, 64}).rows(2, 3).data, bytes.data() + 2 * 2 * 34);
}

TEST(View, RowsOutsideThrow) {
  const View view(static_cast<float*>(nullptr), {5, 3});
  for (const auto& [begin, end] : {std::pair{-1, 2}, {3, 2}, {0, 6}})
    expect_error(ErrorKind::kUse, {fmt::format("rows [{}, {}) of a view (5, 3)", begin, end)},
                 [&, b = begin, e = end] { view.rows(b, e); });
  expect_error(ErrorKind::kUse, {"of a view ()"}, [] { View(nullptr, DType::kF32, {}).rows(0, 0); });
  EXPECT_EQ(view.rows(1, 3).data, nullptr);  // a view without memory stays one
}

TEST(View, Reshape) {
  std::vector<float> x = counting(12);
  const View view = View(x.data(), {3, 4}).reshape({2, 1, 6});
  EXPECT_EQ(view.shape, (Shape{2, 1, 6}));
  EXPECT_EQ(view.f32(), x.data());
  EXPECT_EQ(view.strides[0], 6);
  expect_error(ErrorKind::kUse, {"reshape: (2, 1, 6) -> (5) changes the number"}, [&] { view.reshape({5}); });
  View strided(x.data(), {2, 3});
  strided.strides[0] = 6;
  expect_error(ErrorKind::kUse, {"reshape: (2, 3) -> (6)", "strided"}, [&] { strided.reshape({6}); });
}

TEST(View, TheWrongElementTypeThrows) {
  std::vector<std::byte> bytes(64);
  const View view(bytes.data(), DType::kBF16, {4});
  expect_error(ErrorKind::kUse, {"view (4): dtype is bf16, f32 is needed"}, [&] { view.f32(); });
  expect_error(ErrorKind::kUse, {"view (4): dtype is bf16, i32 is needed"}, [&] { view.i32(); });
  EXPECT_EQ(static_cast<void*>(View(bytes.data(), DType::kI32, {4}).i32()), bytes.data());
}

TEST(View, CheckShape) {
  std::vector<float> x(12);
  View view(x.data(), {3, 4});
  check_shape(view, {3, 4}, "x");
  expect_error(ErrorKind::kUse, {"x: shape (3, 4) where (4, 3) is expected"}, [&] {
    check_shape(view, {4, 3}, "x");
  });
  view.strides[0] = 5;
  expect_error(ErrorKind::kUse, {"x: the view (3, 4) is strided"}, [&] { check_shape(view, {3, 4}, "x"); });
  view.dtype = DType::kF16;
  expect_error(ErrorKind::kUse, {"x: dtype f16 where f32"}, [&] { check_shape(view, {3, 4}, "x"); });
}

TEST(DType, NamesAndBytes) {
  using D = DType;
  const std::vector<std::tuple<D, std::string_view, int64_t>> of64 = {
      {D::kF32, "f32", 256}, {D::kF64, "f64", 512}, {D::kF16, "f16", 128},  {D::kBF16, "bf16", 128},
      {D::kI8, "i8", 64},    {D::kU8, "u8", 64},    {D::kI16, "i16", 128},  {D::kU16, "u16", 128},
      {D::kI32, "i32", 256}, {D::kI64, "i64", 512}, {D::kQ8_0, "q8_0", 68}, {D::kQ4_0, "q4_0", 36},
      {D::kQ4_1, "q4_1", 40}};
  for (const auto& [dtype, name, bytes] : of64) {
    EXPECT_EQ(dtype_info(dtype).name, name);
    EXPECT_EQ(dtype_bytes(dtype, 64), bytes) << name;
    EXPECT_EQ(dtype_bytes(dtype, 0), 0) << name;
  }
  expect_error(ErrorKind::kUse, {"dtype q8_0: 33 elements are not a whole number of blocks of 32"},
               [] { dtype_bytes(D::kQ8_0, 33); });
  expect_error(ErrorKind::kUse, {"size overflow"}, [] { dtype_bytes(D::kF64, int64_t{1} << 60); });
  expect_error(ErrorKind::kUse, {"dtype f32: -1 elements"}, [] { dtype_bytes(D::kF32, -1); });
}

TEST(Tensor, OwnsZeroedAlignedMemory) {
  Tensor t({3, 5});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.f32()) % 64, 0u);
  for (int64_t i = 0; i < t.elements(); ++i) EXPECT_EQ(t.f32()[i], 0.0f);
  t.f32()[14] = 2;
  const float* const before = t.f32();
  const Tensor moved = std::move(t);
  EXPECT_EQ(moved.f32(), before);
  EXPECT_EQ(moved.f32()[14], 2);
  EXPECT_EQ(moved.shape(), (Shape{3, 5}));
  EXPECT_EQ(Tensor({0, 5}).elements(), 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they end the process instead
TEST(Tensor, ImpossibleMemoryThrows) {
  expect_error(ErrorKind::kUse, {"memory: 4611686018427387904 bytes could not be allocated; use a smaller"},
               [] { Tensor(Shape{int64_t{1} << 60}); });
}
#endif

}  // namespace
}  // namespace tril
