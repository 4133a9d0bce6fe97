#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/function_ref.h"
#include "tril/base/printable.h"
#include "tril/containers/checksum.h"
#include "tril/containers/json.h"
#include "tril/containers/safetensors.h"
#include "tril/containers/safetensors_header.h"

namespace tril {
namespace {

// JSON text of a string; nlohmann-json refuses what is not UTF-8.
std::string quoted(const Path& path, const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    fail(ErrorKind::kUse, "{}: cannot write the name \"{}\": it is not UTF-8; rename it",
         printable(path.native(), 4096), printable(text));
  }
}

std::string dtype_name(const Path& path, const NamedView& array) {
  const DTypeInfo& info = dtype_info(array.view.dtype);
  check_use(info.block_elements == 1,
            "{}: tensor \"{}\": safetensors cannot hold {}; write f32, or another format",
            printable(path.native(), 4096), printable(array.name), info.name);
  return safetensors_dtype_name(array.view.dtype);
}

Shape shape_of(const NamedView& a) {
  return a.transposed ? Shape{a.view.shape[1], a.view.shape[0]} : a.view.shape;
}

// take(bytes), piece after piece.
void for_each_piece(const NamedView& a, FunctionRef<void(std::span<const std::byte>)> take) {
  if (!a.transposed) {
    take({a.view.data, static_cast<size_t>(dtype_bytes(a.view.dtype, a.view.elements()))});
    return;
  }
  constexpr int64_t kRows = 64;
  const int64_t rows = a.view.shape[1], columns = a.view.shape[0];  // of what is written
  std::vector<float> piece(static_cast<size_t>(kRows * columns));
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    const int64_t count = std::min(kRows, rows - begin);
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t r = 0; r < count; ++r)
        piece[static_cast<size_t>(r * columns + c)] = a.view.f32()[c * rows + begin + r];
    take(std::as_bytes(std::span(piece).first(static_cast<size_t>(count * columns))));
  }
}

void check_writable(const Path& path, const std::vector<const NamedView*>& sorted) {
  std::vector<std::string_view> names;
  for (const NamedView* a : sorted) {
    check_use(a->name != "__metadata__", "{}: a tensor cannot be named \"__metadata__\"; rename it",
              printable(path.native(), 4096));
    check_use(a->view.contiguous(), "{}: tensor \"{}\": the view {} is strided; copy it first",
              printable(path.native(), 4096), printable(a->name), a->view.shape);
    check_use(!a->transposed || (a->view.dtype == DType::kF32 && a->view.shape.rank() == 2),
              "{}: tensor \"{}\": only an F32 matrix can be written transposed, not {}",
              printable(path.native(), 4096), printable(a->name), a->view.shape);
    check_use(a->view.data != nullptr || a->view.elements() == 0, "{}: tensor \"{}\": the view has no data",
              printable(path.native(), 4096), printable(a->name));
    names.push_back(a->name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  check_use(twice == names.end(), "{}: two tensors are named \"{}\"; rename one",
            printable(path.native(), 4096), printable(twice == names.end() ? "" : *twice));
}

std::string header_text(const Path& path, const std::vector<const NamedView*>& sorted,
                        const std::map<std::string, std::string>& metadata) {
  std::string header = "{\"__metadata__\":{";
  for (const auto& [key, value] : metadata)
    header += fmt::format("{}:{},", quoted(path, key), quoted(path, value));
  header.back() = '}';
  int64_t offset = 0;
  for (const NamedView* a : sorted) {
    const Shape sizes = shape_of(*a);
    std::string shape;
    for (int i = 0; i < sizes.rank(); ++i) shape += fmt::format("{}{}", i ? "," : "", sizes[i]);
    const int64_t end = checked_add(offset, dtype_bytes(a->view.dtype, a->view.elements()));
    header += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          quoted(path, a->name), dtype_name(path, *a), shape, offset, end);
    offset = end;
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
  return header;
}

}  // namespace

void write_safetensors(const Path& path, const std::vector<NamedView>& arrays,
                       std::map<std::string, std::string> metadata, bool checksum) {
  metadata["format"] = "pt";
  std::vector<const NamedView*> sorted;
  for (const NamedView& a : arrays) sorted.push_back(&a);
  const auto element_bytes = [](const NamedView* a) { return dtype_info(a->view.dtype).block_bytes; };
  std::sort(sorted.begin(), sorted.end(), [&](const NamedView* a, const NamedView* b) {
    if (element_bytes(a) != element_bytes(b)) return element_bytes(a) > element_bytes(b);
    return a->name < b->name;
  });
  check_writable(path, sorted);
  if (checksum) {
    uint32_t crc = 0;
    for (const NamedView* a : sorted)
      for_each_piece(*a, [&](std::span<const std::byte> bytes) { crc = crc32(bytes, crc); });
    metadata["crc32"] = fmt::format("{:08x}", crc);
  }
  const std::string header = header_text(path, sorted, metadata);
  check_use(header.size() <= 100'000'000,
            "{}: the names need {} bytes, above the format's 100000000; write fewer",
            printable(path.native(), 4096), header.size());
  AtomicFile file(path);
  const uint64_t size = header.size();
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(header);
  for (const NamedView* a : sorted)
    for_each_piece(*a, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace tril
