#include <algorithm>

#include "tril/base/error.h"
#include "tril/containers/torch_file.h"

namespace tril {

std::string TorchWriter::storage_key(const ConstView& view) {
  const auto same = [&](const ConstView& other) {
    return other.data == view.data && other.elements() == view.elements();
  };
  const auto at = std::find_if(storages_.begin(), storages_.end(), same);
  const auto index = at - storages_.begin();
  if (at == storages_.end()) storages_.push_back(view);
  return fmt::format("{}", index);
}

// torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)
void TorchWriter::tensor(const ConstView& view) {
  check_use(view.data != nullptr && view.dtype == DType::kF32 && view.contiguous(),
            "a tensor {} to be written is not contiguous f32 with data", view.shape);
  const auto tuple = [&](const auto& numbers) {
    pickle_.begin_tuple();
    for (int i = 0; i < view.shape.rank(); ++i) pickle_.integer(numbers[static_cast<size_t>(i)]);
    pickle_.end_tuple();
  };
  std::array<int64_t, Shape::kMaxRank> sizes{};
  for (int i = 0; i < view.shape.rank(); ++i) sizes[static_cast<size_t>(i)] = view.shape[i];
  pickle_.global("torch._utils", "_rebuild_tensor_v2");
  pickle_.begin_tuple();
  pickle_.begin_tuple();
  pickle_.text("storage");
  pickle_.global("torch", "FloatStorage");
  pickle_.text(storage_key(view));
  pickle_.text("cpu");
  pickle_.integer(view.elements());
  pickle_.end_tuple();
  pickle_.persistent();
  pickle_.integer(0);
  tuple(sizes);
  tuple(view.strides);
  pickle_.flag(false);
  pickle_.global("collections", "OrderedDict");
  pickle_.empty_tuple();
  pickle_.call();
  pickle_.end_tuple();
  pickle_.call();
}

void TorchWriter::finish() {
  const std::string folder = "archive/";
  zip_.add(folder + "data.pkl", pickle_.finish());
  zip_.add(folder + "byteorder", "little");
  for (size_t i = 0; i < storages_.size(); ++i) {
    const ConstView& view = storages_[i];
    zip_.add(fmt::format("{}data/{}", folder, i),
             {view.data, static_cast<size_t>(dtype_bytes(view.dtype, view.elements()))});
  }
  zip_.add(folder + "version", "3\n");
  zip_.finish();
}

}  // namespace tril
