// Files of token ids that other programs wrote: nanoGPT's and llm.c's .bin, NumPy's .npy, HDF5's `tokens`.
#pragma once

#include <memory>
#include <span>

#include "tril/containers/integer_array.h"
#include "tril/data/sources.h"

namespace tril {

// Ids are whatever the file says.
class TokenArray {
 public:
  // kTokenBin: with llm.c's header (1024 bytes, 32-bit fields: magic 20240520, version 1 and 16-bit tokens,
  // or 20240801, version 7 and 32-bit ones; then the number of tokens), else nanoGPT's (16-bit tokens, no
  // header). kHdf5: the data set `tokens`. Throws kData naming the file and what is wrong with it.
  TokenArray(const Path& path, SourceFormat format);

  int64_t size() const { return array_->size(); }
  int64_t item_bytes() const { return array_->type().bytes; }
  void read(int64_t begin, std::span<int64_t> out) { array_->read(begin, out); }

 private:
  std::unique_ptr<IntegerArray> array_;
};

}  // namespace tril
