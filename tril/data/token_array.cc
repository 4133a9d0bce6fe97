#include "tril/data/token_array.h"

#include <cstring>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/containers/mapped_integers.h"

namespace tril {
namespace {

constexpr int64_t kHeaderBytes = 1024;  // of llm.c

std::unique_ptr<IntegerArray> open_bin(const Path& path) {
  MappedFile file(path);
  const std::string name = printable(path.string());
  const int64_t size = std::ssize(file.bytes());
  int32_t header[3] = {};
  if (size > 0)  // else there is no address to copy from
    std::memcpy(header, file.bytes().data(), static_cast<size_t>(std::min<int64_t>(size, sizeof header)));
  const int width = header[0] == 20240520 ? 2 : header[0] == 20240801 ? 4 : 0;
  if (width == 0) {
    check_data(
        size % 2 == 0,
        "{}: {} bytes are no whole number of 16-bit tokens (nanoGPT), and there is no header of llm.c; the "
        "file is cut or something else",
        name, size);
    return std::make_unique<MappedIntegers>(std::move(file), 0, size / 2, IntegerType{2, false});
  }
  check_data(header[1] == (width == 2 ? 1 : 7),
             "{}: version {} of llm.c's shards of {}-bit tokens is not known", name, header[1], 8 * width);
  check_data(header[2] >= 0 && size == kHeaderBytes + int64_t{header[2]} * width,
             "{}: {} bytes, but the header tells of {} tokens of {} bytes: cut or damaged", name, size,
             header[2], width);
  return std::make_unique<MappedIntegers>(std::move(file), kHeaderBytes, header[2],
                                          IntegerType{width, false});
}

std::unique_ptr<IntegerArray> open_array(const Path& path, SourceFormat format) {
  if (format == SourceFormat::kNumPy) return open_npy(path);
  if (format == SourceFormat::kHdf5) return open_hdf5(path, "tokens");
  check_use(format == SourceFormat::kTokenBin, "{}: not a file of token ids", printable(path.string()));
  return open_bin(path);
}

}  // namespace

TokenArray::TokenArray(const Path& path, SourceFormat format) : array_(open_array(path, format)) {}

}  // namespace tril
