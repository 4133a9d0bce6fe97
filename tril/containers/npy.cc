#include <cstring>
#include <string_view>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/base/sizes.h"
#include "tril/containers/integer_array.h"
#include "tril/containers/mapped_integers.h"

namespace tril {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

template <class T>
int64_t load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<int64_t>(value);
}

// The value that stands behind 'key': in a Python dictionary of literals, up to the comma that ends it.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "'";
  size_t at = header.find(quoted);
  if (at == header.npos) return {};
  at = header.find_first_not_of(" :", at + quoted.size());
  if (at == header.npos) return {};
  const char closing = header[at] == '(' ? ')' : header[at] == '\'' ? '\'' : ',';
  const size_t end = header.find(closing, at + 1);
  if (end == header.npos) return closing == ',' ? header.substr(at, header.find('}', at) - at) : "";
  return header.substr(at, end - at + (closing == ',' ? 0 : 1));
}

// "(20000,)" or "(5, 4)": the product.
int64_t elements_of(std::string_view shape, const std::string& name) {
  int64_t elements = 1;
  size_t at = 1;
  while (at < shape.size()) {
    at = shape.find_first_not_of(" ,)", at);
    if (at == shape.npos) break;
    int64_t size = 0;
    const size_t begin = at;
    for (; at < shape.size() && shape[at] >= '0' && shape[at] <= '9'; ++at) {
      check_data(size < (int64_t{1} << 56) / 10, "{}: the shape {} is impossible; make the file again", name,
                 printable(shape, 60));
      size = 10 * size + (shape[at] - '0');
    }
    check_data(at > begin && (size == 0 || elements <= (int64_t{1} << 56) / size),
               "{}: the shape {} is impossible; make the file again", name, printable(shape, 60));
    elements *= size;
  }
  return elements;
}

IntegerType type_of(std::string_view text, const std::string& name) {
  const bool quoted = text.size() == 5 && text.front() == '\'' && text.back() == '\'';
  const std::string_view code = quoted ? text.substr(1, 3) : std::string_view("   ");
  const int bytes = code[2] - '0';
  const bool known = (code[1] == 'i' || code[1] == 'u') &&
                     (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) &&
                     (code[0] == '<' || code[0] == '|');
  check_data(
      known,
      "{}: holds {} and not little-endian integers; write token ids, such as array.astype('<i4') or '<u2'",
      name, text.empty() ? "no type" : printable(text, 40));
  return {bytes, code[1] == 'i'};
}

}  // namespace

int64_t read_integer(const std::byte* at, IntegerType type) {
  switch (type.bytes) {
    case 1:
      return type.is_signed ? load<int8_t>(at) : load<uint8_t>(at);
    case 2:
      return type.is_signed ? load<int16_t>(at) : load<uint16_t>(at);
    case 4:
      return type.is_signed ? load<int32_t>(at) : load<uint32_t>(at);
    default:
      return load<int64_t>(at);
  }
}

MappedIntegers::MappedIntegers(MappedFile file, int64_t begin, int64_t size, IntegerType type)
    : file_(std::move(file)), begin_(begin), size_(size), type_(type) {}

void MappedIntegers::read(int64_t begin, std::span<int64_t> out) {
  check_use(begin >= 0 && begin + std::ssize(out) <= size_, "numbers {} to {} of {}", begin,
            begin + std::ssize(out), size_);
  const std::byte* from = file_.bytes().data() + begin_ + begin * type_.bytes;
  for (int64_t& value : out) {
    value = read_integer(from, type_);
    from += type_.bytes;
  }
}

std::unique_ptr<IntegerArray> open_npy(const Path& path) {
  MappedFile file(path);
  const std::string name = printable(path.string());
  const std::string_view text = file.text();
  check_data(text.starts_with(kMagic) && text.size() >= 12, "{}: not a .npy file of NumPy", name);
  const int version = text[6];
  check_data(version >= 1 && version <= 3, "{}: version {} of the .npy format; 1 to 3 are read", name,
             version);
  uint32_t length = 0;
  const size_t begin = version == 1 ? 10 : 12;
  std::memcpy(&length, text.data() + 8, version == 1 ? 2 : 4);
  check_data(length <= text.size() - begin, "{}: cut: the header has {} bytes, the file {}", name, length,
             text.size());
  const std::string_view header = text.substr(begin, length);
  const size_t last = header.find_last_not_of(" \n");
  check_data(header.starts_with('{') && last != header.npos && header[last] == '}',
             "{}: the header is cut or damaged (\"{}\"); make the file again", name, printable(header, 80));
  const IntegerType type = type_of(value_of(header, "descr"), name);
  const std::string_view shape = value_of(header, "shape");
  check_data(shape.starts_with('('), "{}: the header names no shape; make the file again", name);
  check_data(value_of(header, "fortran_order").starts_with("False"),
             "{}: stored column by column (fortran_order); write numpy.ascontiguousarray(array)", name);
  const int64_t size = elements_of(shape, name);
  const auto data = static_cast<int64_t>(begin + length), there = std::ssize(text) - data;
  check_data(size <= there / type.bytes, "{}: cut: {} numbers of {} bytes are named, {} bytes are there",
             name, size, type.bytes, there);
  return std::make_unique<MappedIntegers>(std::move(file), data, size, type);
}

std::string format_npy_header(IntegerType type, int64_t size) {
  std::string header = fmt::format("{{'descr': '{}{}{}', 'fortran_order': False, 'shape': ({},), }}",
                                   type.bytes == 1 ? '|' : '<', type.is_signed ? 'i' : 'u', type.bytes, size);
  // The data begin at a multiple of 64 bytes.
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string out(kMagic);
  out += std::string("\x01\x00", 2);
  out += static_cast<char>(header.size() & 0xFF);
  out += static_cast<char>(header.size() >> 8);
  return out + header;
}

}  // namespace tril
