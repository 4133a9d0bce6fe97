#include "tril/containers/safetensors.h"

#include <algorithm>
#include <cstring>

#include "tril/base/bytes.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/containers/checksum.h"
#include "tril/containers/safetensors_header.h"

namespace tril {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // the reference implementation's

std::string name_of(const Path& path) { return printable(path.native(), 4096); }

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format(
      "({})", fmt::join(shape.begin(), shape.begin() + std::min<ptrdiff_t>(std::ssize(shape), 16), ", "));
}

// Other files that people give by mistake, told by their first bytes. Asked only when the header's size makes
// no sense; the usual header is padded to a multiple of 8, which no '<' or '{' is.
void check_not_another_format(const Path& path, std::string_view file) {
  static constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"version https://git-lfs", "a Git LFS pointer, not the file itself; fetch it with: git lfs pull"},
      {"GGUF", "a GGUF file, not safetensors; give a .safetensors file"},
      {"PK\x03\x04", "a zip or PyTorch file, not safetensors; give a .safetensors file"},
      {"\x89HDF", "an HDF5 file, not safetensors; give a .safetensors file"},
      {"<", "a web page, not safetensors; download the file itself"},
      {"{", "JSON text, not safetensors; give a .safetensors file"}};
  for (const auto& [start, what] : kOthers)
    check_data(!file.starts_with(start), "{}: this is {}", name_of(path), what);
}

// The JSON text of the header; what follows it is the data.
std::string_view header_of(const Path& path, std::string_view file) {
  if (file.size() < sizeof(uint64_t)) {
    check_not_another_format(path, file);
    fail(ErrorKind::kData,
         "{}: {} bytes are too few for a safetensors file; the file is damaged: get it again", name_of(path),
         file.size());
  }
  const auto size = number_at<uint64_t>(file, 0);
  const std::string_view rest = file.substr(sizeof(size));
  if (size > rest.size() || size > kMaxHeader) {
    check_not_another_format(path, file);
    check_data(
        size <= rest.size(),
        "{}: the header should have {} bytes, but only {} follow; the file is cut off or no safetensors "
        "file: get it again",
        name_of(path), size, rest.size());
    fail(ErrorKind::kData, "{}: the header has {} bytes, above the format's limit of {}; get the file again",
         name_of(path), size, kMaxHeader);
  }
  check_data(
      size > 0 && rest[0] == '{',
      "{}: the header does not begin with '{{'; the file is damaged or no safetensors file: get it again",
      name_of(path));
  return rest.substr(0, static_cast<size_t>(size));
}

// Bytes of the tensor by its shape and dtype.
int64_t expected_bytes(const Path& path, const SafetensorsEntry& e) {
  const int64_t bits = safetensors_dtype_bits(e.dtype);
  check_data(bits != 0, "{}: tensor \"{}\": the dtype \"{}\" is unknown; save the tensor as F32",
             name_of(path), printable(e.name), printable(e.dtype, 40));
  int64_t total = bits;
  bool overflow = false;
  for (const int64_t d : e.shape) overflow |= __builtin_mul_overflow(total, d, &total);
  check_data(!overflow,
             "{}: tensor \"{}\": the shape {} is impossibly large; the file is damaged: get it again",
             name_of(path), printable(e.name), shape_text(e.shape));
  check_data(total % 8 == 0,
             "{}: tensor \"{}\": {} elements of {} are not whole bytes; save the tensor again", name_of(path),
             printable(e.name), total / bits, e.dtype);
  return total / 8;
}

// Each entry fits its shape, and together they cover the data exactly. Sorts them by place.
void check_places(const Path& path, std::vector<SafetensorsEntry>& entries, int64_t data_size) {
  for (const SafetensorsEntry& e : entries) {
    const auto [begin, end] = e.offsets;
    const int64_t bytes = expected_bytes(path, e);
    check_data(
        begin <= end && end - begin == bytes,
        "{}: tensor \"{}\": data_offsets [{}, {}] do not fit the {} bytes of {} {}; the file is damaged: "
        "get it again",
        name_of(path), printable(e.name), begin, end, bytes, e.dtype, shape_text(e.shape));
    check_data(
        end <= data_size,
        "{}: tensor \"{}\": data_offsets [{}, {}] lie beyond the {} bytes of data; the file is cut off: get "
        "it again",
        name_of(path), printable(e.name), begin, end, data_size);
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.offsets < b.offsets; });
  int64_t covered = 0;
  for (const SafetensorsEntry& e : entries) {
    const int64_t begin = e.offsets[0];
    check_data(begin >= covered,
               "{}: tensor \"{}\" overlaps another by {} bytes; the file is damaged: get it again",
               name_of(path), printable(e.name), covered - begin);
    check_data(begin <= covered,
               "{}: {} bytes before tensor \"{}\" belong to no tensor; the file is damaged: get "
               "it again",
               name_of(path), begin - covered, printable(e.name));
    covered = e.offsets[1];
  }
  check_data(covered == data_size,
             "{}: {} bytes at the end belong to no tensor; the file is damaged: get it again", name_of(path),
             data_size - covered);
}

// Casting an unaligned pointer to float* is undefined, and other writers do not always align.
size_t alignment_of(std::string_view dtype) {
  return static_cast<size_t>(std::max<int64_t>(safetensors_dtype_bits(dtype) / 8, 1));
}

}  // namespace

int64_t NamedArray::elements() const {
  int64_t n = 1;
  for (const int64_t d : shape) n = checked_multiply(n, d);
  return n;
}

SafetensorsFile::SafetensorsFile(const Path& path) : path_(path), file_(path) {
  const std::string_view json = header_of(path, file_.text());
  std::vector<SafetensorsEntry> entries;
  {
    SafetensorsHeader header = parse_safetensors_header(path, json);
    entries = std::move(header.entries);
    metadata_ = std::move(header.metadata);
  }
  const auto data = file_.bytes().subspan(sizeof(uint64_t) + json.size());
  check_places(path, entries, std::ssize(data));
  arrays_.reserve(entries.size());
  for (SafetensorsEntry& e : entries) {
    const auto size = static_cast<size_t>(e.offsets[1] - e.offsets[0]);
    auto bytes = data.subspan(static_cast<size_t>(e.offsets[0]), size);
    if (reinterpret_cast<uintptr_t>(bytes.data()) % alignment_of(e.dtype) != 0) {
      copies_.push_back(allocate_aligned(static_cast<int64_t>(size)));
      if (size > 0) std::memcpy(copies_.back().get(), bytes.data(), size);
      bytes = {copies_.back().get(), size};
    }
    index_.emplace(e.name, arrays_.size());
    arrays_.push_back({std::move(e.name), std::move(e.dtype), std::move(e.shape), bytes});
  }
}

void SafetensorsFile::check_checksum() const {
  const auto written = metadata_.find("crc32");
  if (written == metadata_.end()) return;
  const auto data = file_.bytes().subspan(sizeof(uint64_t) + header_of(path_, file_.text()).size());
  const std::string actual = fmt::format("{:08x}", crc32(data));
  check_data(
      actual == written->second,
      "{}: the data has the checksum {}, the file says {}; it was altered or damaged: use another copy",
      name_of(path_), actual, printable(written->second));
}

const NamedArray* SafetensorsFile::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &arrays_[it->second];
}

const NamedArray& SafetensorsFile::get(std::string_view name) const {
  const NamedArray* const array = find(name);
  check_data(array != nullptr,
             "{}: tensor \"{}\" is missing among the {} of the file; give the file of a model of this kind",
             name_of(path_), printable(name), arrays_.size());
  return *array;
}

ConstView SafetensorsFile::view(std::string_view name, const Shape& shape, DType dtype) const {
  const NamedArray& array = get(name);
  const std::string expected = safetensors_dtype_name(dtype);
  check_data(array.dtype == expected,
             "{}: tensor \"{}\": dtype {} where {} is expected; save the tensor as {}", name_of(path_),
             printable(name), array.dtype, expected, dtype_info(dtype).name);
  bool same = std::ssize(array.shape) == shape.rank();
  for (int i = 0; same && i < shape.rank(); ++i) same = array.shape[static_cast<size_t>(i)] == shape[i];
  check_data(same,
             "{}: tensor \"{}\": shape {} where {} is expected; give the file of a model of these sizes",
             name_of(path_), printable(name), shape_text(array.shape), shape);
  return ConstView(array.bytes.data(), dtype, shape);
}

}  // namespace tril
