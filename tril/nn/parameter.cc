#include "tril/nn/parameter.h"

#include <algorithm>
#include <cstring>

#include "tril/base/random.h"
#include "tril/kernels/stored_rows.h"
#include "tril/tensor/quantized.h"

namespace tril {
namespace {

// `to` = `from` in its own type, a row at a time through floats.
void convert_rows(Executor& executor, const ConstView& from, const View& to) {
  if (from.dtype == to.dtype) {
    const int64_t bytes = dtype_bytes(from.dtype, from.elements());
    parallel_for(executor, bytes, int64_t{1} << 20, [&](int64_t begin, int64_t end, int) {
      std::memcpy(to.data + begin, from.data + begin, static_cast<size_t>(end - begin));
    });
    return;
  }
  const int64_t rows = from.shape[0], columns = from.elements() / rows;
  const int64_t from_stride = dtype_bytes(from.dtype, columns), to_stride = dtype_bytes(to.dtype, columns);
  parallel_for(executor, rows, 64, [&](int64_t begin, int64_t end, int) {
    std::vector<float> row(static_cast<size_t>(columns));
    for (int64_t r = begin; r < end; ++r) {
      widen_row(from.dtype, columns, from.data + r * from_stride, row.data());
      quantize_row(to.dtype, columns, row.data(), to.data + r * to_stride);
    }
  });
}

}  // namespace

Parameters::Parameters(FunctionRef<void(ParameterVisitor)> visit_all, Memory memory) {
  visit_all([&](const ParameterInfo& info, Weight& weight) {
    items_.push_back({info, &weight});
    count_ = checked_add(count_, info.shape.elements());
    values_.allocate(info.shape);
  });
  if (memory == Memory::kUnbound) {
    values_ = Arena::dry();
    return;
  }
  if (memory != Memory::kDry) values_ = Arena(values_.peak());
  const bool with_gradients = memory != Memory::kValues;
  if (memory == Memory::kValuesAndGradients) gradients_ = Arena(values_.capacity());
  if (memory == Memory::kDry) values_ = Arena::dry();
  for (Item& item : items_) {
    item.weight->value = values_.allocate(item.info.shape);
    item.weight->gradient = with_gradients ? gradients_.allocate(item.info.shape) : View();
  }
}

int64_t Parameters::bytes() const {
  if (values_.used() > 0) return values_.used();
  int64_t bytes = 0;
  for (const Item& item : items_) {
    const View& value = item.weight->value;
    bytes = checked_add(bytes, dtype_bytes(value.dtype, value.elements()));
  }
  return bytes;
}

void Parameters::bind(const Item& item, const ConstView& value) {
  const ParameterInfo& info = item.info;
  check_use(value.shape == info.shape && value.contiguous(),
            "parameter {}: a value of shape {} where {} is needed", info.name, value.shape, info.shape);
  check_use(value.dtype == DType::kF32 || (info.product && multiplies(value.dtype)),
            "parameter {}: a value of type {}, which {} here; convert it to f32", info.name,
            dtype_info(value.dtype).name, info.product ? "does not multiply" : "has no use");
  item.weight->value = View(const_cast<std::byte*>(value.data), value.dtype, value.shape);
  item.weight->gradient = View();
}

void Parameters::adopt(const Item& item, const ConstView& value, AlignedBytes memory) {
  bind(item, value);
  adopted_.push_back(std::move(memory));
}

void Parameters::convert(DType dtype, Executor& executor) {
  check_use(multiplies(dtype),
            "parameters: weights of type {} do not multiply; use f32, f16, bf16, q8_0, q4_0 or q4_1",
            dtype_info(dtype).name);
  const auto stored_type = [&](const Item& item) {
    const ConstView& value = item.weight->value;
    check_use(!item.weight->gradient, "parameters: training needs weights of f32, not {}",
              dtype_info(dtype).name);
    if (!item.info.product) return DType::kF32;
    const bool whole = value.shape[1] % dtype_info(dtype).block_elements == 0;
    return whole ? dtype : value.dtype;
  };
  const auto allocate = [&](Arena& arena) {
    std::vector<View> views;
    for (const Item& item : items_) views.push_back(arena.allocate(item.info.shape, stored_type(item)));
    return views;
  };
  Arena dry = Arena::dry();
  allocate(dry);
  Arena arena(dry.peak());
  const std::vector<View> views = allocate(arena);
  for (size_t i = 0; i < items_.size(); ++i) {
    try {
      convert_rows(executor, items_[i].weight->value, views[i]);
    } catch (const Error& error) {
      fail(error.kind(), "parameter {}: {}", items_[i].info.name, error.what());
    }
  }
  for (size_t i = 0; i < items_.size(); ++i) items_[i].weight->value = views[i];
  values_ = std::move(arena);
  adopted_.clear();
}

void Parameters::initialize(uint64_t seed) {
  SerialExecutor executor;
  initialize(seed, executor);
}

void Parameters::initialize(uint64_t seed, Executor& executor) {
  for (const Item& item : items_) {
    float* const values = item.weight->value.f32();
    const RandomStream random(seed, "init/" + item.info.name);
    const double mean = item.info.init_value, std_dev = item.info.init_std;
    parallel_for(executor, item.weight->value.elements(), 4096, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        values[i] = static_cast<float>(
            std_dev == 0 ? mean : mean + std_dev * random.normal(static_cast<uint64_t>(i)));
      }
    });
  }
}

void Parameters::zero_gradients() {
  for (const Item& item : items_) {
    const View& gradient = item.weight->gradient;
    if (gradient)
      std::memset(gradient.data, 0, static_cast<size_t>(dtype_bytes(gradient.dtype, gradient.elements())));
  }
}

Weight& Parameters::find(std::string_view name) const {
  const auto it =
      std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.info.name == name; });
  check_use(it != items_.end(), "parameters: there is none named '{}'", name);
  return *it->weight;
}

}  // namespace tril
