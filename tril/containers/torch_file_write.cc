#include "tril/base/error.h"
#include "tril/containers/torch_file.h"

namespace tril {

size_t TorchWriter::tensor(StreamedArray array) {
  check_use(array.dtype == DType::kF32, "tensor {} is {}; PyTorch's files are written as f32", array.name,
            dtype_info(array.dtype).name);
  const Shape shape = array.shape;
  return add({"FloatStorage", shape,
              [array = std::move(array)](ZipWriter::Take take) { for_each_piece(array, take); }});
}

size_t TorchWriter::integers(std::vector<int64_t> values) {
  const Shape shape = {std::ssize(values)};
  return add({"LongStorage", shape, [values = std::move(values)](ZipWriter::Take take) {
                take(std::as_bytes(std::span(values)));
              }});
}

size_t TorchWriter::add(Storage storage) {
  storages_.push_back(std::move(storage));
  tensor_again(storages_.size() - 1);
  return storages_.size() - 1;
}

// torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)
void TorchWriter::tensor_again(size_t number) {
  const Shape& shape = storages_.at(number).shape;
  const auto strides = contiguous_strides(shape);
  const auto tuple = [&](auto&& dimension) {
    pickle_.begin_tuple();
    for (int i = 0; i < shape.rank(); ++i) pickle_.integer(dimension(i));
    pickle_.end_tuple();
  };
  pickle_.global("torch._utils", "_rebuild_tensor_v2");
  pickle_.begin_tuple();
  pickle_.begin_tuple();
  pickle_.text("storage");
  pickle_.global("torch", storages_[number].type);
  pickle_.text(fmt::format("{}", number));
  pickle_.text("cpu");
  pickle_.integer(shape.elements());
  pickle_.end_tuple();
  pickle_.persistent();
  pickle_.integer(0);
  tuple([&](int i) { return shape[i]; });
  tuple([&](int i) { return strides[static_cast<size_t>(i)]; });
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
  for (size_t i = 0; i < storages_.size(); ++i)
    zip_.add(fmt::format("{}data/{}", folder, i), storages_[i].pieces);
  zip_.add(folder + "version", "3\n");
  zip_.finish();
}

}  // namespace tril
