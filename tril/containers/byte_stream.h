// The bytes of a file, a pipe or standard input, one piece after another. gzip (RFC 1952, also several
// members) and zstd (RFC 8878, also several frames) are known by their first bytes and decompressed on the
// way.
#pragma once

#include <memory>
#include <span>

#include "tril/base/files.h"

namespace tril {

class ByteStream {
 public:
  // "-" is standard input. Throws kData as InputFile does.
  explicit ByteStream(const Path& path);
  ~ByteStream();
  ByteStream(ByteStream&&) noexcept;
  ByteStream& operator=(ByteStream&&) noexcept;

  // Fills the buffer; less only at the end. Throws kData naming the file: compressed data that are damaged,
  // cut, or want more than 128 MiB of memory.
  size_t read(std::span<char> buffer);
  // Goes on at this byte of what read() gives, counted from the begin; before the first read. Compressed
  // bytes on the way are decompressed. Throws kData beyond the end.
  void skip(int64_t bytes);

  int64_t file_size() const;      // of a regular file, else -1
  int64_t file_position() const;  // bytes of the file that were read so far

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tril
