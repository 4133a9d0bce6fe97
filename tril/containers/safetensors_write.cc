#include <algorithm>
#include <functional>

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

std::string dtype_name(const Path& path, std::string_view name, DType dtype) {
  const DTypeInfo& info = dtype_info(dtype);
  check_use(info.block_elements == 1,
            "{}: tensor \"{}\": safetensors cannot hold {}; write f32, or another format",
            printable(path.native(), 4096), printable(name), info.name);
  return safetensors_dtype_name(dtype);
}

// An array of either kind.
struct Entry {
  std::string_view name;
  DType dtype;
  Shape shape;
  std::function<void(FunctionRef<void(std::span<const std::byte>)>)> pieces;
};

void check_names(const Path& path, const std::vector<Entry>& sorted) {
  std::vector<std::string_view> names;
  for (const Entry& entry : sorted) {
    check_use(entry.name != "__metadata__", "{}: a tensor cannot be named \"__metadata__\"; rename it",
              printable(path.native(), 4096));
    names.push_back(entry.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  check_use(twice == names.end(), "{}: two tensors are named \"{}\"; rename one",
            printable(path.native(), 4096), printable(twice == names.end() ? "" : *twice));
}

std::string header_text(const Path& path, const std::vector<Entry>& sorted,
                        const std::map<std::string, std::string>& metadata) {
  std::string header = "{\"__metadata__\":{";
  for (const auto& [key, value] : metadata)
    header += fmt::format("{}:{},", quoted(path, key), quoted(path, value));
  header.back() = '}';
  int64_t offset = 0;
  for (const Entry& entry : sorted) {
    const Shape& sizes = entry.shape;
    std::string shape;
    for (int i = 0; i < sizes.rank(); ++i) shape += fmt::format("{}{}", i ? "," : "", sizes[i]);
    const int64_t end = checked_add(offset, dtype_bytes(entry.dtype, sizes.elements()));
    header += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          quoted(path, std::string(entry.name)), dtype_name(path, entry.name, entry.dtype),
                          shape, offset, end);
    offset = end;
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
  return header;
}

void write(const Path& path, std::vector<Entry> entries, std::map<std::string, std::string> metadata,
           bool checksum) {
  metadata["format"] = "pt";
  const auto element_bytes = [](const Entry& entry) { return dtype_info(entry.dtype).block_bytes; };
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    if (element_bytes(a) != element_bytes(b)) return element_bytes(a) > element_bytes(b);
    return a.name < b.name;
  });
  check_names(path, entries);
  for (const Entry& entry : entries) dtype_name(path, entry.name, entry.dtype);  // throws for blocks
  if (checksum) {
    uint32_t crc = 0;
    for (const Entry& entry : entries)
      entry.pieces([&](std::span<const std::byte> bytes) { crc = crc32(bytes, crc); });
    metadata["crc32"] = fmt::format("{:08x}", crc);
  }
  const std::string header = header_text(path, entries, metadata);
  check_use(header.size() <= 100'000'000,
            "{}: the names need {} bytes, above the format's 100000000; write fewer",
            printable(path.native(), 4096), header.size());
  AtomicFile file(path);
  const uint64_t size = header.size();
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(header);
  for (const Entry& entry : entries)
    entry.pieces([&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace

void write_safetensors(const Path& path, const std::vector<NamedView>& arrays,
                       std::map<std::string, std::string> metadata, bool checksum) {
  std::vector<Entry> entries;
  for (const NamedView& a : arrays) {
    check_use(a.view.contiguous(), "{}: tensor \"{}\": the view {} is strided; copy it first",
              printable(path.native(), 4096), printable(a.name), a.view.shape);
    check_use(a.view.data != nullptr || a.view.elements() == 0, "{}: tensor \"{}\": the view has no data",
              printable(path.native(), 4096), printable(a.name));
    const std::span bytes(a.view.data, static_cast<size_t>(dtype_bytes(a.view.dtype, a.view.elements())));
    entries.push_back({a.name, a.view.dtype, a.view.shape, [bytes](auto take) { take(bytes); }});
  }
  write(path, std::move(entries), std::move(metadata), checksum);
}

void write_streamed_safetensors(const Path& path, const std::vector<StreamedArray>& arrays,
                                std::map<std::string, std::string> metadata, bool checksum) {
  std::vector<Entry> entries;
  for (const StreamedArray& a : arrays) {
    entries.push_back({a.name, a.dtype, a.shape, [&a](auto take) { for_each_piece(a, take); }});
  }
  write(path, std::move(entries), std::move(metadata), checksum);
}

}  // namespace tril
