#include "tril/nn/parameter.h"

#include <algorithm>
#include <cstring>

#include "tril/base/random.h"

namespace tril {

Parameters::Parameters(FunctionRef<void(ParameterVisitor)> visit_all, Memory memory) {
  visit_all([&](const ParameterInfo& info, Weight& weight) {
    items_.push_back({info, &weight});
    count_ = checked_add(count_, info.shape.elements());
    values_.allocate(info.shape);
  });
  if (memory != Memory::kDry) values_ = Arena(values_.peak());
  const bool with_gradients = memory != Memory::kValues;
  if (memory == Memory::kValuesAndGradients) gradients_ = Arena(values_.capacity());
  if (memory == Memory::kDry) values_ = Arena::dry();
  for (Item& item : items_) {
    item.weight->value = values_.allocate(item.info.shape);
    item.weight->gradient = with_gradients ? gradients_.allocate(item.info.shape) : View();
  }
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
