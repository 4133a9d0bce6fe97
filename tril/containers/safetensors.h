// safetensors: named arrays in one file. https://github.com/huggingface/safetensors (README, "Format").
//
//   u64 N | N bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {str:
//   str}} | data
//
// Reading checks everything before it is trusted: header size, JSON, offsets, holes, overlaps, dtype and byte
// counts, duplicate names. Errors are kData and name the file and the tensor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tril/base/files.h"
#include "tril/containers/streamed_array.h"
#include "tril/tensor/tensor.h"

namespace tril {

struct NamedArray {
  std::string name;
  std::string dtype;                 // as in the file: "F32", "I64", ...
  std::vector<int64_t> shape;        // any rank
  std::span<const std::byte> bytes;  // aligned for its dtype
  int64_t elements() const;
};

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const Path& path);

  const std::vector<NamedArray>& arrays() const { return arrays_; }  // in the order of their bytes
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const NamedArray* find(std::string_view name) const;  // null if absent
  const NamedArray& get(std::string_view name) const;   // throws kData naming file and tensor
  // An F32 array of this shape as a view; throws kData naming both shapes or dtypes.
  ConstView f32(std::string_view name, const Shape& shape) const { return view(name, shape, DType::kF32); }
  ConstView view(std::string_view name, const Shape& shape, DType dtype) const;  // likewise of any dtype
  // Throws kData if the file carries a checksum of its data and the data does not have it. Reads the whole
  // file.
  void check_checksum() const;
  const Path& path() const { return path_; }

 private:
  Path path_;
  MappedFile file_;
  std::vector<NamedArray> arrays_;
  std::map<std::string, size_t, std::less<>> index_;  // name -> place in arrays_
  std::vector<AlignedBytes> copies_;                  // of arrays that lie unaligned in the file
  std::map<std::string, std::string> metadata_;
};

// Writes atomically; leaves nothing half-written. F32, I32, I64, U8 ... per the views' dtypes; views must be
// contiguous and hold data, names be UTF-8 and unique (kUse otherwise). The largest element types come first,
// then by name, as the reference writer does. Metadata always gets "format": "pt", without which transformers
// refuses the file.
struct NamedView {
  std::string name;
  ConstView view;
};
// With `checksum` the metadata also gets "crc32": the CRC-32 of the data in hexadecimal, for
// check_checksum().
void write_safetensors(const Path& path, const std::vector<NamedView>& arrays,
                       std::map<std::string, std::string> metadata = {}, bool checksum = false);

// The same of arrays that are made as they are written; with `checksum` each is made twice.
void write_streamed_safetensors(const Path& path, const std::vector<StreamedArray>& arrays,
                                std::map<std::string, std::string> metadata = {}, bool checksum = false);

}  // namespace tril
