// View: a shape, strides and a dtype over memory that somebody else owns.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>

#include "tril/tensor/dtype.h"

namespace tril {

// Up to four dimensions, outermost first.
class Shape {
 public:
  static constexpr int kMaxRank = 4;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);  // NOLINT: {B, T, C} reads best; throws kUse on negatives
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  int64_t elements() const;  // checked product; 1 for rank 0
  bool operator==(const Shape& other) const;
  std::string to_string() const;  // "(2, 10, 64)"

 private:
  int rank_ = 0;
  std::array<int64_t, kMaxRank> dims_{};
};

// Row-major strides in elements.
std::array<int64_t, Shape::kMaxRank> contiguous_strides(const Shape& shape);

}  // namespace tril

// So that checks can be given a Shape, which is turned into text on failure only.
template <>
struct fmt::formatter<tril::Shape> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const tril::Shape& shape, Context& context) const {
    return fmt::formatter<std::string_view>::format(shape.to_string(), context);
  }
};

namespace tril {

template <bool kConst>
struct BasicView {
  using Byte = std::conditional_t<kConst, const std::byte, std::byte>;
  template <class T>
  using Ptr = std::conditional_t<kConst, const T*, T*>;

  Byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  std::array<int64_t, Shape::kMaxRank> strides{};  // in elements

  BasicView() = default;
  BasicView(Byte* data_, DType dtype_, const Shape& shape_)
      : data(data_), dtype(dtype_), shape(shape_), strides(contiguous_strides(shape_)) {}
  BasicView(Ptr<float> data_, const Shape& shape_)
      : BasicView(reinterpret_cast<Byte*>(data_), DType::kF32, shape_) {}
  // A View is usable wherever a ConstView is asked for.
  BasicView(const BasicView<false>& other)  // NOLINT: implicit by design
      requires kConst : data(other.data),
                        dtype(other.dtype),
                        shape(other.shape),
                        strides(other.strides) {}
  BasicView(const BasicView&) = default;
  BasicView& operator=(const BasicView&) = default;

  int64_t elements() const { return shape.elements(); }
  bool contiguous() const { return strides == contiguous_strides(shape); }
  explicit operator bool() const { return data != nullptr; }

  // The elements as floats; throws kUse if the dtype is another.
  Ptr<float> f32() const {
    check_use(dtype == DType::kF32, "view {}: dtype is {}, f32 is needed here", shape,
              dtype_info(dtype).name);
    return reinterpret_cast<Ptr<float>>(data);
  }
  Ptr<int32_t> i32() const {
    check_use(dtype == DType::kI32, "view {}: dtype is {}, i32 is needed here", shape,
              dtype_info(dtype).name);
    return reinterpret_cast<Ptr<int32_t>>(data);
  }

  // The same memory in another shape with as many elements (contiguous views only).
  BasicView reshape(const Shape& other) const {
    check_use(contiguous() && other.elements() == elements(),
              "reshape: {} -> {} changes the number of elements or the view is strided", shape, other);
    return BasicView(data, dtype, other);
  }
  // Rows [begin, end) of the outermost dimension.
  BasicView rows(int64_t begin, int64_t end) const;
};

using View = BasicView<false>;
using ConstView = BasicView<true>;

// Throws kUse with `what` and both shapes unless the view has this shape, is contiguous and f32.
void check_shape(const ConstView& view, const Shape& expected, std::string_view what);

}  // namespace tril
