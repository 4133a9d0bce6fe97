// Whole numbers in a file, as one long row: NumPy's .npy, and data sets of HDF5.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "tril/base/files.h"

namespace tril {

// How the numbers of an array are stored: little-endian.
struct IntegerType {
  int bytes = 4;  // 1, 2, 4 or 8
  bool is_signed = true;
};
// The number at `at`; unsigned 64-bit numbers beyond 2^63 - 1 become negative.
int64_t read_integer(const std::byte* at, IntegerType type);

class IntegerArray {
 public:
  virtual ~IntegerArray() = default;
  virtual int64_t size() const = 0;
  virtual IntegerType type() const = 0;
  // Numbers [begin, begin + out.size()), which must lie within the array. Throws kData naming the file where
  // it is damaged.
  virtual void read(int64_t begin, std::span<int64_t> out) = 0;
};

// NumPy's format, versions 1 to 3 (numpy.lib.format): integers, little-endian, in C order; of several
// dimensions the rows follow one another. Throws kData naming what else it finds.
std::unique_ptr<IntegerArray> open_npy(const Path& path);
// The header of a .npy of one dimension.
std::string format_npy_header(IntegerType type, int64_t size);

// A data set of integers in the root group of an HDF5 file (HDF5 File Format Specification, version 1.0 of
// the superblock's data): superblock version 0, groups as symbol tables, object headers of version 1,
// contiguous or chunked by a version 1 B-tree, chunks plain or by deflate. Throws kData naming what else it
// finds.
std::unique_ptr<IntegerArray> open_hdf5(const Path& path, std::string_view data_set);

}  // namespace tril
