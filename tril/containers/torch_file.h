// What torch.save writes since PyTorch 1.6: a zip with the pickle <name>/data.pkl and beside it the storages
// <name>/data/<key>, raw. https://pytorch.org/docs/stable/notes/serialization.html
//
// The pickle is read as values and never run (containers/pickle.h). A tensor is a call of
// torch._utils._rebuild_tensor_v2 (or _v3) over a storage, a persistent id; sizes, offset and strides are
// checked against the bytes that are there.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tril/containers/pickle.h"
#include "tril/containers/streamed_array.h"
#include "tril/containers/zip.h"
#include "tril/tensor/view.h"

namespace tril {

struct TorchTensor {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<int64_t> strides;     // in elements; a transposed tensor is saved as a view
  const std::byte* data = nullptr;  // the first element; need not be aligned
};

class TorchFile {
 public:
  // Throws kData naming the file, and what to do, for files of PyTorch before 1.6, TorchScript, big-endian
  // machines, other zip files, and damage.
  explicit TorchFile(const Path& path);
  // The same of bytes that outlive this object.
  TorchFile(std::string_view bytes, const std::string& where);

  // By the first bytes: any zip, or a file of PyTorch before 1.6 (which the constructor refuses).
  static bool is(const Path& path);

  const PickleValue& root() const { return pickle_->root(); }
  const std::string& where() const { return zip_->where(); }
  int64_t storage_bytes() const { return storage_bytes_; }  // of all storages together
  void check_checksums() const { zip_->check_checksums(); }

  static bool is_tensor(const PickleValue& value);
  // Bool is u8. Throws kData naming the file and `name` for values that are no tensor, element types that
  // DType has not, more than four dimensions, and whatever does not lie within its storage.
  TorchTensor tensor(const PickleValue& value, std::string_view name) const;

 private:
  struct Storage {
    std::optional<DType> dtype;  // none: bytes
    int64_t elements = 0;
    std::string_view bytes;
  };
  void open();
  Storage storage(const PickleValue& value, std::string_view name) const;

  std::optional<ZipFile> zip_;
  std::optional<Pickle> pickle_;
  std::string folder_;  // "<name>/"
  int64_t storage_bytes_ = 0;
};

// Writes a file that torch.load reads, also with weights_only=True: dictionaries, numbers, texts and tensors
// of float32. Values come one after another, as PickleWriter takes them.
class TorchWriter {
 public:
  explicit TorchWriter(const Path& path) : zip_(path) {}
  PickleWriter& values() { return pickle_; }
  // Of type f32; read when the file is finished. Returns its number.
  size_t tensor(StreamedArray array);
  size_t integers(std::vector<int64_t> values);  // a vector of 64-bit integers
  void tensor_again(size_t number);              // another value that is the same memory, as tied weights are
  void finish();

 private:
  struct Storage {
    const char* type;
    Shape shape;  // of the tensor that is all of it
    std::function<void(ZipWriter::Take)> pieces;
  };
  size_t add(Storage storage);

  ZipWriter zip_;
  PickleWriter pickle_;
  std::vector<Storage> storages_;
};

}  // namespace tril
