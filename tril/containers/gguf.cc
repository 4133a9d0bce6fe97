#include "tril/containers/gguf.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "tril/base/bytes.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril {
namespace {

constexpr const char* kDamaged = "the file is damaged: get it again";
constexpr size_t kLongestKey = 65535;  // the format's limit
constexpr uint64_t kMostDimensions = 4;

constexpr std::array<std::string_view, 13> kTypeNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
// Bytes of one value; 0 for strings and arrays, whose length the file says.
constexpr std::array<uint64_t, 13> kTypeBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

std::string_view name_of(GgufType type) { return kTypeNames[static_cast<size_t>(type)]; }
uint64_t bytes_of(GgufType type) { return kTypeBytes[static_cast<size_t>(type)]; }

// Elements and bytes of a block of ggml's tensor types.
struct Block {
  uint32_t type;
  int64_t elements, bytes;
};
constexpr Block kBlocks[] = {{0, 1, 4},      {1, 1, 2},      {2, 32, 18},   {3, 32, 20},    {6, 32, 22},
                             {7, 32, 24},    {8, 32, 34},    {10, 256, 84}, {11, 256, 110}, {12, 256, 144},
                             {13, 256, 176}, {14, 256, 210}, {24, 1, 1},    {25, 1, 2},     {26, 1, 4},
                             {27, 1, 8},     {28, 1, 8},     {30, 1, 2}};

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  template <class T>
  T number(std::string_view what) {
    return number_at<T>(take(sizeof(T), what), 0);
  }

  std::string_view take(uint64_t size, std::string_view what) {
    check_data(size <= left(), "{}: {}: {} bytes are claimed at byte {}, but only {} follow; {}", where_,
               what, size, at_, left(), kDamaged);
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }

  std::string_view text(std::string_view what) { return take(number<uint64_t>(what), what); }

  GgufType type(std::string_view what) {
    const auto number = this->number<uint32_t>(what);
    check_data(number < kTypeNames.size(), "{}: {}: the type {} is unknown, those of GGUF 3 go to 12; {}",
               where_, what, number, kDamaged);
    return static_cast<GgufType>(number);
  }

  GgufField field() {
    GgufField field;
    const std::string_view key = text("the key of a field");
    check_data(!key.empty() && key.size() <= kLongestKey, "{}: a key of {} bytes, 1 to {} are allowed; {}",
               where_, key.size(), kLongestKey, kDamaged);
    field.key = key;
    const std::string shown = fmt::format("field \"{}\"", printable(key));
    field.type = field.element = type(shown);
    if (field.type == GgufType::kArray) {
      field.element = type(shown);
      check_data(field.element != GgufType::kArray, "{}: {}: arrays of arrays are not supported", where_,
                 shown);
      field.count = number<uint64_t>(shown);
    }
    const size_t begin = at_;
    skip(field, shown);
    field.bytes = bytes_.substr(begin, at_ - begin);
    return field;
  }

  GgufTensor tensor() {
    GgufTensor tensor;
    tensor.name = text("the name of a tensor");
    const std::string shown = fmt::format("tensor \"{}\"", printable(tensor.name));
    check_data(!tensor.name.empty() && tensor.name.size() <= kLongestKey,
               "{}: a tensor has a name of {} bytes; {}", where_, tensor.name.size(), kDamaged);
    const auto rank = number<uint32_t>(shown);
    check_data(rank <= kMostDimensions, "{}: {} has {} dimensions, at most {} are allowed; {}", where_, shown,
               rank, kMostDimensions, kDamaged);
    for (uint32_t i = 0; i < rank; ++i) {
      const auto size = number<uint64_t>(shown);
      check_data(size <= INT64_MAX, "{}: {} has a dimension of {}; {}", where_, shown, size, kDamaged);
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
    }
    tensor.type = number<uint32_t>(shown);
    tensor.offset = number<uint64_t>(shown);
    tensor.size = size_of(tensor, shown);
    return tensor;
  }

 private:
  void skip(const GgufField& field, std::string_view shown) {
    if (field.element != GgufType::kString) {
      uint64_t size = 0;
      if (__builtin_mul_overflow(field.count, bytes_of(field.element), &size)) size = UINT64_MAX;
      take(size, shown);
      return;
    }
    // Each string takes 8 bytes at least, so a claim of more ends at the end of the file.
    for (uint64_t i = 0; i < field.count; ++i) text(shown);
  }

  std::optional<int64_t> size_of(const GgufTensor& tensor, std::string_view shown) const {
    int64_t elements = 1;
    for (const int64_t size : tensor.shape)
      check_data(!__builtin_mul_overflow(elements, size, &elements), "{}: {} is impossibly large; {}", where_,
                 shown, kDamaged);
    const auto* block = std::find_if(std::begin(kBlocks), std::end(kBlocks),
                                     [&](const Block& known) { return known.type == tensor.type; });
    if (block == std::end(kBlocks)) return std::nullopt;
    const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    check_data(row % block->elements == 0, "{}: {}: rows of {} are not whole blocks of {}; {}", where_, shown,
               row, block->elements, kDamaged);
    int64_t size = 0;
    check_data(!__builtin_mul_overflow(elements / block->elements, block->bytes, &size),
               "{}: {} is impossibly large; {}", where_, shown, kDamaged);
    return size;
  }

  std::string_view bytes_;
  const std::string& where_;
  size_t at_ = 0;
};

void read_start(Reader& reader, std::string_view bytes, const std::string& where) {
  check_data(bytes.starts_with("GGUF"), "{}: this is no GGUF file: it does not begin with \"GGUF\"", where);
  reader.take(4, "the first bytes");
  const auto version = reader.number<uint32_t>("the version");
  check_data(
      version != 0x02000000 && version != 0x03000000,
      "{}: this GGUF file is big-endian, which is not supported; convert the model again on this machine",
      where);
  check_data(version == 2 || version == 3,
             "{}: GGUF version {} is not supported, only 2 and 3; convert the model again", where, version);
}

template <class T>
T value_at(const GgufField& field, uint64_t i) {
  return number_at<T>(field.bytes, i * sizeof(T));
}

// Nothing if the type is no integer, or the value above 2^63-1.
std::optional<int64_t> integer_at(const GgufField& field, uint64_t i) {
  switch (field.element) {
    case GgufType::kU8:
      return value_at<uint8_t>(field, i);
    case GgufType::kI8:
      return value_at<int8_t>(field, i);
    case GgufType::kU16:
      return value_at<uint16_t>(field, i);
    case GgufType::kI16:
      return value_at<int16_t>(field, i);
    case GgufType::kU32:
      return value_at<uint32_t>(field, i);
    case GgufType::kI32:
      return value_at<int32_t>(field, i);
    case GgufType::kI64:
      return value_at<int64_t>(field, i);
    case GgufType::kU64:
      if (value_at<uint64_t>(field, i) <= INT64_MAX)
        return static_cast<int64_t>(value_at<uint64_t>(field, i));
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

[[noreturn]] void wrong_type(const std::string& where, const GgufField& field, std::string_view expected) {
  const bool array = field.type == GgufType::kArray;
  fail(ErrorKind::kData, "{}: field \"{}\" is {}{} where {} is expected; {}", where, printable(field.key),
       array ? "an array of " : "", name_of(field.element), expected, kDamaged);
}

}  // namespace

GgufFile::GgufFile(const Path& path) : where_(printable(path.native(), 4096)), file_(path) {
  read(file_->text());
}

GgufFile::GgufFile(std::string_view bytes, std::string where) : where_(std::move(where)) { read(bytes); }

void GgufFile::read(std::string_view bytes) {
  bytes_ = bytes;
  Reader reader(bytes, where_);
  read_start(reader, bytes, where_);
  const auto tensors = reader.number<uint64_t>("the number of tensors");
  const auto fields = reader.number<uint64_t>("the number of fields");
  std::unordered_set<std::string> seen;
  for (uint64_t i = 0; i < fields; ++i) {
    fields_.push_back(reader.field());
    check_data(seen.insert(fields_.back().key).second, "{}: the field \"{}\" is there twice; {}", where_,
               printable(fields_.back().key), kDamaged);
  }
  seen.clear();
  for (uint64_t i = 0; i < tensors; ++i) {
    tensors_.push_back(reader.tensor());
    check_data(seen.insert(tensors_.back().name).second, "{}: the tensor \"{}\" is there twice; {}", where_,
               printable(tensors_.back().name), kDamaged);
  }
  if (tensors_.empty()) return;
  const int64_t alignment = integer("general.alignment").value_or(32);
  check_data(alignment > 0 && alignment <= 1 << 20 && std::has_single_bit(static_cast<uint64_t>(alignment)),
             "{}: general.alignment {} is no power of two up to 1048576; {}", where_, alignment, kDamaged);
  const auto step = static_cast<uint64_t>(alignment);
  const uint64_t data = (reader.at() + step - 1) / step * step;
  const uint64_t room = bytes.size() > data ? bytes.size() - data : 0;
  for (GgufTensor& tensor : tensors_) {
    const std::string shown = printable(tensor.name);
    check_data(tensor.offset % step == 0, "{}: tensor \"{}\" is at {} of the data, no multiple of {}; {}",
               where_, shown, tensor.offset, step, kDamaged);
    const uint64_t size = static_cast<uint64_t>(tensor.size.value_or(0));
    check_data(
        tensor.offset <= room && size <= room - tensor.offset,
        "{}: tensor \"{}\" has {} bytes at {}, beyond the {} bytes of data; the file is cut off: get it "
        "again",
        where_, shown, size, tensor.offset, room);
    tensor.offset += data;
  }
}

const std::byte* GgufFile::data(const GgufTensor& tensor) const {
  return reinterpret_cast<const std::byte*>(bytes_.data()) + tensor.offset;
}

const GgufField* GgufFile::find(std::string_view key) const {
  const auto found =
      std::find_if(fields_.begin(), fields_.end(), [&](const GgufField& field) { return field.key == key; });
  return found == fields_.end() ? nullptr : &*found;
}

std::optional<std::string> GgufFile::text(std::string_view key) const {
  const GgufField* const field = find(key);
  if (field == nullptr) return std::nullopt;
  if (field->type != GgufType::kString) wrong_type(where_, *field, "a string");
  return std::string(field->bytes.substr(8));
}

std::optional<int64_t> GgufFile::integer(std::string_view key) const {
  const GgufField* const field = find(key);
  if (field == nullptr) return std::nullopt;
  const auto value = field->type == GgufType::kArray ? std::nullopt : integer_at(*field, 0);
  if (!value) wrong_type(where_, *field, "an integer below 2^63");
  return value;
}

std::optional<float> GgufFile::number(std::string_view key) const {
  const GgufField* const field = find(key);
  if (field == nullptr) return std::nullopt;
  if (field->type == GgufType::kF64) return static_cast<float>(value_at<double>(*field, 0));
  if (field->type != GgufType::kF32) wrong_type(where_, *field, "a number of type f32 or f64");
  return value_at<float>(*field, 0);
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufField* const field = find(key);
  if (field == nullptr) return std::nullopt;
  if (field->type != GgufType::kBool || value_at<uint8_t>(*field, 0) > 1)
    wrong_type(where_, *field, "a bool of 0 or 1");
  return value_at<uint8_t>(*field, 0) == 1;
}

std::vector<std::string_view> GgufFile::texts(std::string_view key) const {
  std::vector<std::string_view> out;
  const GgufField* const field = find(key);
  if (field == nullptr) return out;
  if (field->type != GgufType::kArray || field->element != GgufType::kString)
    wrong_type(where_, *field, "an array of strings");
  Reader reader(field->bytes, where_);
  for (uint64_t i = 0; i < field->count; ++i) out.push_back(reader.text(key));
  return out;
}

std::vector<int64_t> GgufFile::integers(std::string_view key) const {
  std::vector<int64_t> out;
  const GgufField* const field = find(key);
  if (field == nullptr) return out;
  for (uint64_t i = 0; i < field->count; ++i) {
    const auto value = field->type == GgufType::kArray ? integer_at(*field, i) : std::nullopt;
    if (!value) wrong_type(where_, *field, "an array of integers below 2^63");
    out.push_back(*value);
  }
  return out;
}

std::vector<float> GgufFile::numbers(std::string_view key) const {
  std::vector<float> out;
  const GgufField* const field = find(key);
  if (field == nullptr) return out;
  if (field->type != GgufType::kArray || field->element != GgufType::kF32)
    wrong_type(where_, *field, "an array of f32");
  for (uint64_t i = 0; i < field->count; ++i) out.push_back(value_at<float>(*field, i));
  return out;
}

}  // namespace tril
