#include "tril/tensor/view.h"

#include <algorithm>

namespace tril {

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  check_use(dims.size() <= kMaxRank, "shape: {} dimensions, at most {} are possible", dims.size(), kMaxRank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
  for (const int64_t d : dims) check_use(d >= 0, "shape {}: negative dimension", *this);
}

int64_t Shape::elements() const {
  int64_t n = 1;
  for (int i = 0; i < rank_; ++i) n = checked_multiply(n, (*this)[i]);
  return n;
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(dims_.begin(), dims_.begin() + rank_, other.dims_.begin());
}

std::string Shape::to_string() const {
  std::string s = "(";
  for (int i = 0; i < rank_; ++i) s += fmt::format("{}{}", i ? ", " : "", (*this)[i]);
  return s + ")";
}

std::array<int64_t, Shape::kMaxRank> contiguous_strides(const Shape& shape) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = step;
    step = checked_multiply(step, shape[i]);
  }
  return strides;
}

template <bool kConst>
BasicView<kConst> BasicView<kConst>::rows(int64_t begin, int64_t end) const {
  check_use(shape.rank() >= 1 && 0 <= begin && begin <= end && end <= shape[0], "rows [{}, {}) of a view {}",
            begin, end, shape);
  BasicView out = *this;
  const int64_t n = end - begin;
  switch (shape.rank()) {
    case 1:
      out.shape = Shape{n};
      break;
    case 2:
      out.shape = Shape{n, shape[1]};
      break;
    case 3:
      out.shape = Shape{n, shape[1], shape[2]};
      break;
    default:
      out.shape = Shape{n, shape[1], shape[2], shape[3]};
      break;
  }
  if (data != nullptr) out.data = data + dtype_bytes(dtype, begin * strides[0]);
  return out;
}

template struct BasicView<false>;
template struct BasicView<true>;

void check_shape(const ConstView& view, const Shape& expected, std::string_view what) {
  check_use(view.shape == expected, "{}: shape {} where {} is expected", what, view.shape, expected);
  check_use(view.dtype == DType::kF32, "{}: dtype {} where f32 is expected", what,
            dtype_info(view.dtype).name);
  check_use(view.contiguous(), "{}: the view {} is strided; a contiguous one is expected", what, view.shape);
}

}  // namespace tril
