// The arrays of a model as its files have them: nothing is copied, and a value becomes a float when it is
// read.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tril/base/files.h"
#include "tril/tensor/view.h"

namespace tril {

class GgufFile;
class SafetensorsFile;

// One array of a model file: a view of the file's bytes, whatever the file. Its reader has checked that they
// lie within the file; they need not be aligned.
struct StoredArray {
  std::string name;
  Shape shape;  // row-major
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;
  std::vector<int64_t> strides = {};  // in elements, 0 and above; empty: contiguous
};

// The arrays of one model, possibly of several files; keeps the files mapped as long as it lives.
struct StoredArrays {
  std::string where;  // names the file or folder in messages, printable
  std::vector<StoredArray> arrays;
  std::vector<std::shared_ptr<const void>> owners;
};

// count elements from `first` (in row-major order of the shape) as floats. With blocks both are multiples of
// 32. Throws kUse beyond the array, kData naming it for types that hold no floats.
void read_f32(const StoredArray& array, int64_t first, int64_t count, float* out);

// The arrays of a file. Throw kData naming array and type for types that DType has not, or more than four
// dimensions.
StoredArrays stored_arrays(std::shared_ptr<const SafetensorsFile> file);
StoredArrays stored_arrays(std::shared_ptr<const GgufFile> file);

// The shards that an index names: model.safetensors.index.json, whose "weight_map" says which file beside it
// has which array. Throws kData for names that leave the folder, arrays that are missing or twice there.
StoredArrays stored_arrays_of_index(const Path& index);

}  // namespace tril
