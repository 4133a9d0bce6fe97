#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/base/sizes.h"
#include "tril/containers/integer_array.h"
#include "tril/containers/mapped_integers.h"

namespace tril {
namespace {

constexpr std::string_view kSignature("\x89HDF\r\n\x1A\n", 8);
constexpr uint64_t kUndefined = UINT64_MAX;
constexpr int64_t kLargestChunk = int64_t{256} << 20;
constexpr int kDeepestTree = 16;

// Types of the messages of an object header.
constexpr int kDataspace = 0x01, kDatatype = 0x03, kLayout = 0x08, kFilters = 0x0B, kContinuation = 0x10,
              kSymbolTable = 0x11;
// Filters.
constexpr int kDeflate = 1, kShuffle = 2;

// The file, every access checked.
class Bytes {
 public:
  explicit Bytes(const Path& path) : name(printable(path.string())), file(path) {}

  std::span<const std::byte> at(uint64_t begin, uint64_t size) const {
    const uint64_t all = file.bytes().size();
    check_data(begin <= all && size <= all - begin,
               "{}: damaged or cut: {} bytes at byte {} are named, the file has {}", name, size, begin, all);
    return file.bytes().subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
  }
  uint64_t number(uint64_t begin, int bytes) const {
    uint64_t value = 0;
    std::memcpy(&value, at(begin, static_cast<uint64_t>(bytes)).data(), static_cast<size_t>(bytes));
    return value;
  }
  void expect(uint64_t begin, std::string_view mark, std::string_view what) const {
    const auto there = at(begin, mark.size());
    check_data(std::memcmp(there.data(), mark.data(), mark.size()) == 0, "{}: damaged: no {} at byte {}",
               name, what, begin);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorKind::kData,
         "{}: {}; only plain HDF5 is read here: write it again with h5py's defaults, or as numpy.save", name,
         what);
  }

  std::string name;
  MappedFile file;
};

struct Message {
  int type = 0;
  uint64_t begin = 0, size = 0;
};

// An object header of version 1, with its continuations.
std::vector<Message> read_messages(const Bytes& bytes, uint64_t header) {
  if (bytes.number(header, 1) != 1) bytes.refuse("an object header of a newer version");
  const auto count = static_cast<size_t>(bytes.number(header + 2, 2));
  struct Block {
    uint64_t begin, size;
  };
  std::vector<Block> blocks = {{header + 16, bytes.number(header + 8, 4)}};
  std::vector<Message> messages;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Block block = blocks[b];
    bytes.at(block.begin, block.size);
    for (uint64_t at = 0; at + 8 <= block.size && messages.size() < count;) {
      const uint64_t begin = block.begin + at;
      Message message = {static_cast<int>(bytes.number(begin, 2)), begin + 8, bytes.number(begin + 2, 2)};
      check_data(message.size <= block.size - at - 8,
                 "{}: damaged: a message at byte {} ends beyond its block", bytes.name, begin);
      if (message.type == kContinuation && message.size >= 16)
        blocks.push_back({bytes.number(message.begin, 8), bytes.number(message.begin + 8, 8)});
      messages.push_back(message);
      at += 8 + message.size;
    }
  }
  return messages;
}

const Message* find_message(const std::vector<Message>& messages, int type) {
  for (const Message& message : messages)
    if (message.type == type) return &message;
  return nullptr;
}

const Message& need_message(const Bytes& bytes, const std::vector<Message>& messages, int type, uint64_t size,
                            const char* what) {
  const Message* const message = find_message(messages, type);
  check_data(message != nullptr && message->size >= size, "{}: damaged: the data set has no {}", bytes.name,
             what);
  return *message;
}

// Calls leaf(child, key) for the leaves of a version 1 B-tree whose keys have `key_bytes`. A sound tree has
// each entry at a place of its own, so that it cannot have more of them than fit the file.
class Tree {
 public:
  Tree(const Bytes& bytes, int type, uint64_t key_bytes)
      : bytes_(bytes),
        type_(type),
        key_bytes_(key_bytes),
        left_(bytes.file.bytes().size() / (key_bytes + 8)) {}

  template <class Leaf>
  void walk(uint64_t node, Leaf&& leaf, int level = -1) {
    bytes_.expect(node, "TREE", "B-tree");
    const auto here = static_cast<int>(bytes_.number(node + 5, 1));
    check_data(static_cast<int>(bytes_.number(node + 4, 1)) == type_ && here <= kDeepestTree &&
                   (level < 0 || here == level),
               "{}: damaged: the B-tree at byte {} is of another kind", bytes_.name, node);
    const uint64_t entries = bytes_.number(node + 6, 2);
    for (uint64_t i = 0; i < entries; ++i) {
      check_data(left_-- > 0, "{}: damaged: the B-tree has more entries than the file has room", bytes_.name);
      const uint64_t key = node + 24 + i * (key_bytes_ + 8), child = bytes_.number(key + key_bytes_, 8);
      if (here > 0)
        walk(child, leaf, here - 1);
      else
        leaf(child, key);
    }
  }

 private:
  const Bytes& bytes_;
  int type_;
  uint64_t key_bytes_, left_;
};

// The object header of `name` in the root group.
uint64_t find_object(const Bytes& bytes, const std::string& name) {
  bytes.expect(0, kSignature, "HDF5 signature");
  if (bytes.number(8, 1) != 0) bytes.refuse(fmt::format("superblock version {}", bytes.number(8, 1)));
  if (bytes.number(13, 1) != 8 || bytes.number(14, 1) != 8) bytes.refuse("offsets that are not of 8 bytes");
  if (bytes.number(24, 8) != 0) bytes.refuse("a base address");
  const std::vector<Message> root = read_messages(bytes, bytes.number(64, 8));
  const Message* const group = find_message(root, kSymbolTable);
  if (group == nullptr || group->size < 16) bytes.refuse("a root group of a newer kind");
  const uint64_t heap = bytes.number(group->begin + 8, 8);
  bytes.expect(heap, "HEAP", "local heap");
  const auto names = bytes.at(bytes.number(heap + 24, 8), bytes.number(heap + 8, 8));
  uint64_t found = kUndefined;
  std::string others;
  Tree(bytes, 0, 8).walk(bytes.number(group->begin, 8), [&](uint64_t node, uint64_t) {
    bytes.expect(node, "SNOD", "symbol table");
    const uint64_t symbols = bytes.number(node + 6, 2);
    for (uint64_t i = 0; i < symbols; ++i) {
      const uint64_t entry = node + 8 + 40 * i, offset = bytes.number(entry, 8);
      check_data(offset < names.size(), "{}: damaged: a name lies outside the heap", bytes.name);
      const char* const begin = reinterpret_cast<const char*>(names.data()) + offset;
      const std::string_view symbol(begin, ::strnlen(begin, names.size() - static_cast<size_t>(offset)));
      if (symbol == name) found = bytes.number(entry + 8, 8);
      if (others.size() < 200) others += (others.empty() ? "" : ", ") + printable(symbol, 40);
    }
  });
  check_data(found != kUndefined, "{}: no data set '{}' in it; there is {}", bytes.name, name,
             others.empty() ? "none" : others);
  return found;
}

struct DataSet {
  int64_t size = 0;
  int rank = 0;
  IntegerType type;
};

DataSet read_shape(const Bytes& bytes, const std::vector<Message>& messages) {
  DataSet set;
  const Message& space = need_message(bytes, messages, kDataspace, 4, "dataspace");
  const uint64_t version = bytes.number(space.begin, 1);
  if (version != 1 && version != 2) bytes.refuse("a dataspace of a newer version");
  set.rank = static_cast<int>(bytes.number(space.begin + 1, 1));
  const uint64_t dims = space.begin + (version == 1 ? 8 : 4);
  check_data(set.rank >= 1 && space.size >= dims - space.begin + 8 * static_cast<uint64_t>(set.rank),
             "{}: the data set is no array of numbers", bytes.name);
  set.size = 1;
  for (int i = 0; i < set.rank; ++i) {
    const uint64_t dim = bytes.number(dims + 8 * static_cast<uint64_t>(i), 8);
    check_data(
        dim <= uint64_t{1} << 56 && (dim == 0 || set.size <= (int64_t{1} << 56) / static_cast<int64_t>(dim)),
        "{}: damaged: dimension {} is {}", bytes.name, i, dim);
    set.size *= static_cast<int64_t>(dim);
  }
  const Message& type = need_message(bytes, messages, kDatatype, 12, "data type");
  const uint64_t kind = bytes.number(type.begin, 1), bits = bytes.number(type.begin + 1, 1);
  set.type = {static_cast<int>(bytes.number(type.begin + 4, 4)), (bits & 8) != 0};
  const int width = set.type.bytes;
  if ((kind & 0xF) != 0 || (bits & 1) != 0 || (width != 1 && width != 2 && width != 4 && width != 8) ||
      bytes.number(type.begin + 8, 2) != 0 || static_cast<int>(bytes.number(type.begin + 10, 2)) != 8 * width)
    bytes.refuse("the data set holds no little-endian integers");
  return set;
}

std::vector<int> read_filters(const Bytes& bytes, const std::vector<Message>& messages) {
  const Message* const message = find_message(messages, kFilters);
  if (message == nullptr) return {};
  const uint64_t version = bytes.number(message->begin, 1), count = bytes.number(message->begin + 1, 1);
  if (version != 1 && version != 2) bytes.refuse("a filter pipeline of a newer version");
  check_data(count <= 32, "{}: {} filters of chunks are more than HDF5 has (32); damaged", bytes.name, count);
  uint64_t at = message->begin + (version == 1 ? 8 : 2);
  std::vector<int> filters;
  for (uint64_t i = 0; i < count; ++i) {
    const auto id = static_cast<int>(bytes.number(at, 2));
    if (id != kDeflate && id != kShuffle)
      bytes.refuse(fmt::format("chunks with filter {} (deflate and shuffle are read)", id));
    const bool named = version == 1;
    const uint64_t name = named ? bytes.number(at + 2, 2) : 0, after = at + (named ? 4 : 2);
    const uint64_t values = bytes.number(after + 2, 2);
    at = after + 4 + (name + 7) / 8 * 8 + 4 * (values + (named ? values % 2 : 0));
    filters.push_back(id);
  }
  return filters;
}

class ChunkedIntegers final : public IntegerArray {
 public:
  ChunkedIntegers(Bytes bytes, const DataSet& set, const Message& layout, std::vector<int> filters)
      : bytes_(std::move(bytes)), set_(set), filters_(std::move(filters)) {
    if (set.rank != 1) bytes_.refuse("a data set of several dimensions in chunks");
    check_data(layout.size >= 19, "{}: damaged: the layout is cut", bytes_.name);
    length_ = static_cast<int64_t>(bytes_.number(layout.begin + 11, 4));
    check_data(
        bytes_.number(layout.begin + 2, 1) == 2 && length_ > 0 && length_ <= kLargestChunk / set.type.bytes,
        "{}: chunks of {} numbers are too large or too small", bytes_.name, length_);
    const uint64_t tree = bytes_.number(layout.begin + 3, 8);
    check_data(set.size == 0 || tree != kUndefined, "{}: the data set was never written", bytes_.name);
    if (tree != kUndefined)
      Tree(bytes_, 1, 24).walk(tree, [&](uint64_t address, uint64_t key) { add_chunk(address, key); });
    const int64_t expected = divide_up(set.size, length_);
    check_data(std::ssize(chunks_) == expected, "{}: {} of {} chunks were written; the file is not complete",
               bytes_.name, chunks_.size(), expected);
  }

  int64_t size() const override { return set_.size; }
  IntegerType type() const override { return set_.type; }

  void read(int64_t begin, std::span<int64_t> out) override {
    check_use(begin >= 0 && begin + std::ssize(out) <= set_.size, "numbers {} to {} of {}", begin,
              begin + std::ssize(out), set_.size);
    for (int64_t i = 0; i < std::ssize(out);) {
      const int64_t chunk = (begin + i) / length_, first = (begin + i) % length_;
      const int64_t count = std::min(std::ssize(out) - i, length_ - first);
      const std::byte* from = load(chunk).data() + first * set_.type.bytes;
      for (int64_t j = 0; j < count; ++j, from += set_.type.bytes)
        out[static_cast<size_t>(i + j)] = read_integer(from, set_.type);
      i += count;
    }
  }

 private:
  struct Chunk {
    uint64_t address;
    uint32_t bytes, mask;
  };

  // Chunks come in the order of their offsets, and a complete data set has each of them.
  void add_chunk(uint64_t address, uint64_t key) {
    const uint64_t offset = bytes_.number(key + 8, 8);
    const Chunk chunk = {address, static_cast<uint32_t>(bytes_.number(key, 4)),
                         static_cast<uint32_t>(bytes_.number(key + 4, 4))};
    check_data(offset == chunks_.size() * static_cast<uint64_t>(length_),
               "{}: chunk {} begins at number {}; the file is damaged or not complete", bytes_.name,
               chunks_.size(), offset);
    bytes_.at(address, chunk.bytes);
    check_data(!filters_.empty() || chunk.bytes == static_cast<uint64_t>(length_ * set_.type.bytes),
               "{}: damaged: chunk {} has {} bytes", bytes_.name, chunks_.size(), chunk.bytes);
    chunks_.push_back(chunk);
  }

  std::span<const std::byte> load(int64_t index) {
    const Chunk& chunk = chunks_[static_cast<size_t>(index)];
    if (filters_.empty()) return bytes_.at(chunk.address, chunk.bytes);
    if (loaded_ == index) return unpacked_;
    const auto packed = bytes_.at(chunk.address, chunk.bytes);
    unpacked_.assign(packed.begin(), packed.end());
    loaded_ = -1;
    for (size_t f = filters_.size(); f-- > 0;) {
      if ((chunk.mask >> f & 1) != 0) continue;
      if (filters_[f] == kDeflate)
        inflate(index);
      else
        unshuffle();
    }
    check_data(std::ssize(unpacked_) == length_ * set_.type.bytes,
               "{}: damaged: chunk {} unpacks to {} bytes", bytes_.name, index, unpacked_.size());
    loaded_ = index;
    return unpacked_;
  }

  void inflate(int64_t index) {
    // Deflate makes a byte of at most 1032.
    const auto whole = static_cast<size_t>(length_ * set_.type.bytes);
    std::vector<std::byte> out(std::min(whole, 1032 * unpacked_.size() + 64));
    auto size = static_cast<::uLongf>(out.size());
    const int code = ::uncompress(reinterpret_cast<unsigned char*>(out.data()), &size,
                                  reinterpret_cast<const unsigned char*>(unpacked_.data()), unpacked_.size());
    check_data(code == Z_OK, "{}: damaged: chunk {} cannot be decompressed", bytes_.name, index);
    out.resize(size);
    unpacked_ = std::move(out);
  }

  // All first bytes stand first, then all second ones.
  void unshuffle() {
    const auto width = static_cast<size_t>(set_.type.bytes), count = unpacked_.size() / width;
    std::vector<std::byte> out(unpacked_);
    for (size_t i = 0; i < count; ++i)
      for (size_t b = 0; b < width; ++b) out[i * width + b] = unpacked_[b * count + i];
    unpacked_ = std::move(out);
  }

  Bytes bytes_;
  DataSet set_;
  std::vector<int> filters_;
  int64_t length_ = 0;  // numbers of a chunk
  std::vector<Chunk> chunks_;
  std::vector<std::byte> unpacked_;
  int64_t loaded_ = -1;
};

}  // namespace

std::unique_ptr<IntegerArray> open_hdf5(const Path& path, std::string_view data_set) {
  Bytes bytes(path);
  const std::vector<Message> messages = read_messages(bytes, find_object(bytes, std::string(data_set)));
  const DataSet set = read_shape(bytes, messages);
  const Message& layout = need_message(bytes, messages, kLayout, 2, "layout");
  const uint64_t version = bytes.number(layout.begin, 1), kind = bytes.number(layout.begin + 1, 1);
  if (version != 3 || (kind != 1 && kind != 2)) bytes.refuse("a layout of another kind");
  if (kind == 2)
    return std::make_unique<ChunkedIntegers>(std::move(bytes), set, layout, read_filters(bytes, messages));
  check_data(layout.size >= 18, "{}: damaged: the layout is cut", bytes.name);
  const uint64_t begin = bytes.number(layout.begin + 2, 8);
  if (set.size == 0) return std::make_unique<MappedIntegers>(std::move(bytes.file), 0, 0, set.type);
  check_data(begin != kUndefined, "{}: the data set was never written", bytes.name);
  bytes.at(begin, static_cast<uint64_t>(set.size) * static_cast<uint64_t>(set.type.bytes));
  return std::make_unique<MappedIntegers>(std::move(bytes.file), static_cast<int64_t>(begin), set.size,
                                          set.type);
}

}  // namespace tril
