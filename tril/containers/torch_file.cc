#include "tril/containers/torch_file.h"

#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril {
namespace {

using Kind = PickleValue::Kind;

constexpr const char* kDamaged = "the file is damaged: get it again";
// PyTorch's old format starts with a pickle of this number.
constexpr std::string_view kLegacy("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);

struct ElementType {
  std::string_view storage, name;
  DType dtype;
};
constexpr ElementType kTypes[] = {{"torch.FloatStorage", "torch.float32", DType::kF32},
                                  {"torch.DoubleStorage", "torch.float64", DType::kF64},
                                  {"torch.HalfStorage", "torch.float16", DType::kF16},
                                  {"torch.BFloat16Storage", "torch.bfloat16", DType::kBF16},
                                  {"torch.CharStorage", "torch.int8", DType::kI8},
                                  {"torch.ByteStorage", "torch.uint8", DType::kU8},
                                  {"torch.ShortStorage", "torch.int16", DType::kI16},
                                  {"", "torch.uint16", DType::kU16},
                                  {"torch.IntStorage", "torch.int32", DType::kI32},
                                  {"torch.LongStorage", "torch.int64", DType::kI64},
                                  {"torch.BoolStorage", "torch.bool", DType::kU8}};

bool is_untyped(std::string_view storage) {
  return storage == "torch.storage.UntypedStorage" || storage == "torch.UntypedStorage";
}

// The arguments of a call of this function, or null.
const PickleValue* arguments_of(const PickleValue& value, std::string_view function) {
  const bool is_it = value.kind == Kind::kObject && value.items[0]->is_global(function) &&
                     value.items[1]->kind == Kind::kTuple;
  return is_it ? value.items[1] : nullptr;
}

// A parameter is a tensor and whether it is trained.
const PickleValue& unwrapped(const PickleValue& value) {
  for (const char* const function :
       {"torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"}) {
    const PickleValue* const arguments = arguments_of(value, function);
    if (arguments != nullptr && !arguments->items.empty()) return *arguments->items[0];
  }
  return value;
}

const PickleValue* tensor_arguments(const PickleValue& value) {
  for (const auto& [function, least] : {std::pair("torch._utils._rebuild_tensor_v2", size_t{6}),
                                        std::pair("torch._utils._rebuild_tensor_v3", size_t{7})}) {
    const PickleValue* const arguments = arguments_of(value, function);
    if (arguments != nullptr && arguments->items.size() >= least) return arguments;
  }
  return nullptr;
}

// Sizes or strides: whole numbers from 0.
std::optional<std::vector<int64_t>> numbers(const PickleValue& value) {
  constexpr size_t kMostDimensions = 64;  // PyTorch's
  if (value.kind != Kind::kTuple || value.items.size() > kMostDimensions) return std::nullopt;
  std::vector<int64_t> out;
  for (const PickleValue* const item : value.items) {
    if (item->kind != Kind::kInteger || item->integer < 0) return std::nullopt;
    out.push_back(item->integer);
  }
  return out;
}

// Whether all elements lie within a storage of `available`, and there are no more of them than that: a view
// that repeats elements would let a small file claim any size.
bool lies_within(int64_t offset, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                 int64_t available) {
  int64_t elements = 1, last = offset;
  bool empty = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t extent = 0;
    empty |= sizes[i] == 0;
    if (sizes[i] == 0) continue;  // a 0 would hide that the product of the others overflows
    if (__builtin_mul_overflow(elements, sizes[i], &elements) ||
        __builtin_mul_overflow(sizes[i] - 1, strides[i], &extent) ||
        __builtin_add_overflow(last, extent, &last))
      return false;
  }
  return empty ? offset <= available : last < available && elements <= available;
}

}  // namespace

bool TorchFile::is(const Path& path) {
  const MappedFile file(path);
  return is_zip(file.text()) || file.text().starts_with(kLegacy);
}

TorchFile::TorchFile(const Path& path) {
  check_data(!MappedFile(path).text().starts_with(kLegacy),
             "{}: written by a PyTorch before 1.6 or in its old format, which is not read; in a newer one: "
             "torch.save(torch.load(OLD, map_location='cpu'), NEW)",
             printable(path.native(), 4096));
  zip_.emplace(path);
  open();
}

TorchFile::TorchFile(std::string_view bytes, const std::string& where) : zip_(std::in_place, bytes, where) {
  open();
}

void TorchFile::open() {
  const ZipEntry* pickle = nullptr;
  for (const ZipEntry& entry : zip_->entries()) {
    const size_t slash = entry.name.find('/');
    if (slash == entry.name.npos || entry.name.substr(slash) != "/data.pkl") continue;
    check_data(pickle == nullptr, "{}: there are two data.pkl; {}", where(), kDamaged);
    pickle = &entry;
    folder_ = entry.name.substr(0, slash + 1);
  }
  check_data(pickle != nullptr, "{}: this zip file has no data.pkl, so it is no PyTorch file; give another",
             where());
  check_data(zip_->find(folder_ + "constants.pkl") == nullptr,
             "{}: this is a TorchScript program; save its weights: "
             "torch.save(torch.jit.load(OLD).state_dict(), NEW)",
             where());
  const ZipEntry* const order = zip_->find(folder_ + "byteorder");
  check_data(order == nullptr || order->bytes == "little",
             "{}: written on a machine of byte order \"{}\"; save it on a little-endian one", where(),
             order == nullptr ? "" : printable(order->bytes, 20));
  for (const ZipEntry& entry : zip_->entries())
    if (entry.name.starts_with(folder_ + "data/")) storage_bytes_ += std::ssize(entry.bytes);
  pickle_.emplace(pickle->bytes, where());
}

bool TorchFile::is_tensor(const PickleValue& value) { return tensor_arguments(unwrapped(value)) != nullptr; }

// ('storage', type, key, device, number of elements)
TorchFile::Storage TorchFile::storage(const PickleValue& value, std::string_view name) const {
  const PickleValue* const id =
      value.kind == Kind::kPersistent && value.items[0]->kind == Kind::kTuple ? value.items[0] : nullptr;
  check_data(id != nullptr && id->items.size() >= 5 && id->items[0]->is_text("storage") &&
                 id->items[1]->kind == Kind::kGlobal && id->items[2]->kind == Kind::kText &&
                 id->items[4]->kind == Kind::kInteger && id->items[4]->integer >= 0,
             "{}: tensor \"{}\" names no storage; {}", where(), printable(name), kDamaged);
  const std::string_view type = id->items[1]->text;
  Storage out = {.elements = id->items[4]->integer};
  for (const ElementType& known : kTypes)
    if (known.storage == type) out.dtype = known.dtype;
  check_data(out.dtype.has_value() || is_untyped(type),
             "{}: tensor \"{}\" is a {}, which is not read; save it as float32", where(), printable(name),
             printable(type, 60));
  const ZipEntry* const entry = zip_->find(folder_ + "data/" + std::string(id->items[2]->text));
  check_data(entry != nullptr, "{}: the storage {} of tensor \"{}\" is not there; {}", where(),
             printable(id->items[2]->text, 60), printable(name), kDamaged);
  out.bytes = entry->bytes;
  return out;
}

TorchTensor TorchFile::tensor(const PickleValue& value, std::string_view name) const {
  const PickleValue* const arguments = tensor_arguments(unwrapped(value));
  check_data(arguments != nullptr, "{}: \"{}\" is no plain tensor; save it as one, dense, as float32",
             where(), printable(name));
  const std::vector<const PickleValue*>& a = arguments->items;
  const Storage from = storage(*a[0], name);
  std::optional<DType> dtype = from.dtype;
  if (!dtype.has_value()) {
    const std::string_view wanted = a.size() > 6 && a[6]->kind == Kind::kGlobal ? a[6]->text : "";
    for (const ElementType& known : kTypes)
      if (known.name == wanted) dtype = known.dtype;
    check_data(dtype.has_value(),
               "{}: tensor \"{}\" is of type \"{}\", which is not read; save it as float32", where(),
               printable(name), printable(wanted, 60));
  }
  const int64_t element = dtype_info(*dtype).block_bytes, available = std::ssize(from.bytes) / element;
  check_data(from.elements <= (from.dtype.has_value() ? available : std::ssize(from.bytes)),
             "{}: tensor \"{}\" has a storage of {} elements, but {} bytes are there; {}", where(),
             printable(name), from.elements, from.bytes.size(), kDamaged);
  const auto sizes = numbers(*a[2]);
  auto strides = numbers(*a[3]);
  check_data(a[1]->kind == Kind::kInteger && a[1]->integer >= 0 && sizes && strides &&
                 sizes->size() == strides->size(),
             "{}: tensor \"{}\" has no sizes and strides from 0; {}", where(), printable(name), kDamaged);
  check_data(sizes->size() <= Shape::kMaxRank, "{}: tensor \"{}\" has {} dimensions; at most {} are read",
             where(), printable(name), sizes->size(), Shape::kMaxRank);
  check_data(
      lies_within(a[1]->integer, *sizes, *strides, available),
      "{}: tensor \"{}\": {} by {} from {} do not lie within the {} elements of its storage, or repeat "
      "them; save tensor.contiguous()",
      where(), printable(name), fmt::join(*sizes, ", "), fmt::join(*strides, ", "), a[1]->integer, available);
  const auto* const begin = reinterpret_cast<const std::byte*>(from.bytes.data());
  return {*dtype, Shape(std::span(*sizes)), *std::move(strides), begin + a[1]->integer * element};
}

}  // namespace tril
