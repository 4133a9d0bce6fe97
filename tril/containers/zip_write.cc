#include <algorithm>

#include "tril/base/bytes.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/containers/checksum.h"
#include "tril/containers/zip.h"

namespace tril {
namespace {

constexpr size_t kAlignment = 64, kLongestName = 4096;
constexpr uint16_t kPlainVersion = 20, kWideVersion = 45;  // of the specification, to extract
constexpr uint16_t kUtf8 = 1 << 11;
constexpr uint16_t kDate = (1 << 5) | 1;  // 1 January 1980: the same file every time
constexpr uint16_t kPadding = 0x4246;     // id of the extra field that moves the data to a multiple of 64

// The 32 bits of a record; all set where the number stands in a zip64 field.
uint32_t narrowed(uint64_t number, uint64_t narrow) {
  return number >= narrow ? 0xFFFFFFFF : static_cast<uint32_t>(number);
}

// Signature to length of the name: what local headers and entries of the directory share.
std::string shared_fields(uint32_t crc32, uint64_t size, bool wide, size_t name) {
  std::string out;
  append_number(out, wide ? kWideVersion : kPlainVersion);
  append_number(out, kUtf8);
  append_number(out, uint16_t{0});  // stored
  append_number(out, uint16_t{0});  // time
  append_number(out, kDate);
  append_number(out, crc32);
  for (int i = 0; i < 2; ++i) append_number(out, wide ? 0xFFFFFFFF : static_cast<uint32_t>(size));
  append_number(out, static_cast<uint16_t>(name));
  return out;
}

std::string wide_field(std::initializer_list<uint64_t> numbers) {
  std::string out;
  append_number(out, uint16_t{1});
  append_number(out, static_cast<uint16_t>(8 * numbers.size()));
  for (const uint64_t number : numbers) append_number(out, number);
  return out;
}

}  // namespace

void ZipWriter::write(std::string_view bytes) {
  file_.write(bytes);
  at_ += bytes.size();
}

void ZipWriter::add(std::string_view name, std::string_view bytes) {
  add(name, [bytes](Take take) { take(std::as_bytes(std::span(bytes))); });
}

void ZipWriter::add(std::string_view name, FunctionRef<void(Take)> pieces) {
  check_use(!name.empty() && name.size() <= kLongestName, "a zip entry has a name of {} bytes; 1 to {} work",
            name.size(), kLongestName);
  Written entry = {0, 0, at_};
  pieces([&](std::span<const std::byte> bytes) {
    entry.crc32 = crc32(bytes, entry.crc32);
    entry.size += bytes.size();
  });
  check_use(written_.emplace(name, entry).second, "the zip entry \"{}\" is there already", printable(name));
  const bool wide = entry.size >= narrow_;
  std::string header = "PK\x03\x04" + shared_fields(entry.crc32, entry.size, wide, name.size());
  std::string extra;
  if (wide) extra = wide_field({entry.size, entry.size});
  const size_t before = at_ + header.size() + sizeof(uint16_t) + name.size() + extra.size() + 4;
  const size_t padding = (kAlignment - before % kAlignment) % kAlignment;
  append_number(extra, kPadding);
  append_number(extra, static_cast<uint16_t>(padding));
  extra.append(padding, '\0');
  append_number(header, static_cast<uint16_t>(extra.size()));
  write(header + std::string(name) + extra);
  pieces([&](std::span<const std::byte> bytes) {
    write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
}

void ZipWriter::finish() {
  const uint64_t begin = at_;
  for (const auto& [name, entry] : written_) {
    const bool wide = entry.size >= narrow_, far = entry.begin >= narrow_;
    std::string extra;
    if (wide && far) extra = wide_field({entry.size, entry.size, entry.begin});
    if (wide && !far) extra = wide_field({entry.size, entry.size});
    if (!wide && far) extra = wide_field({entry.begin});
    std::string record = "PK\x01\x02";
    append_number(record, kWideVersion);
    record += shared_fields(entry.crc32, entry.size, wide, name.size());
    append_number(record, static_cast<uint16_t>(extra.size()));
    record.append(10, '\0');  // comment, disk, attributes
    append_number(record, narrowed(entry.begin, narrow_));
    write(record + name + extra);
  }
  const uint64_t size = at_ - begin, wide_end = at_, entries = written_.size();
  const bool wide = entries >= std::min<uint64_t>(narrow_, 0xFFFF) || begin >= narrow_ || size >= narrow_;
  if (wide) {
    std::string end = "PK\x06\x06";
    append_number(end, uint64_t{44});  // bytes that follow
    append_number(end, kWideVersion);
    append_number(end, kWideVersion);
    append_number(end, uint64_t{0});  // disks
    for (const uint64_t number : {entries, entries, size, begin}) append_number(end, number);
    end += "PK\x06\x07";
    append_number(end, uint32_t{0});
    append_number(end, wide_end);
    append_number(end, uint32_t{1});
    write(end);
  }
  std::string end = "PK\x05\x06";
  append_number(end, uint32_t{0});  // disks
  for (int i = 0; i < 2; ++i) append_number(end, static_cast<uint16_t>(wide ? 0xFFFF : entries));
  append_number(end, narrowed(size, wide ? 0 : narrow_));
  append_number(end, narrowed(begin, wide ? 0 : narrow_));
  append_number(end, uint16_t{0});
  write(end);
  file_.commit();
}

}  // namespace tril
