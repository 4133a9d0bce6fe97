#include "tril/containers/zip.h"

#include "tril/base/bytes.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/containers/checksum.h"

namespace tril {
namespace {

constexpr const char* kDamaged = "the file is cut off or damaged: get it again";
constexpr std::string_view kLocal = "PK\x03\x04", kCentral = "PK\x01\x02", kEnd = "PK\x05\x06",
                           kWideEnd = "PK\x06\x06", kWideLocator = "PK\x06\x07";
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kWideEndSize = 56, kWideLocatorSize = 20,
                 kLongestComment = 65535;
constexpr uint16_t kWideField = 1;  // extra field of 64-bit numbers
constexpr uint32_t kWide32 = 0xFFFFFFFF;
constexpr uint16_t kWide16 = 0xFFFF;

bool has(std::string_view bytes, uint64_t at, std::string_view signature, size_t size) {
  return at <= bytes.size() && size <= bytes.size() - at && bytes.substr(at).starts_with(signature);
}

// Replaces those of the three numbers that the record could not hold by the 64-bit ones of its extra field.
bool widen(std::string_view extra, std::initializer_list<uint64_t*> numbers) {
  while (extra.size() >= 4) {
    const auto id = number_at<uint16_t>(extra, 0), size = number_at<uint16_t>(extra, 2);
    extra.remove_prefix(4);
    if (size > extra.size()) return false;
    std::string_view field = extra.substr(0, size);
    extra.remove_prefix(size);
    if (id != kWideField) continue;
    for (uint64_t* const number : numbers) {
      if (*number != kWide32) continue;
      if (field.size() < 8) return false;
      *number = number_at<uint64_t>(field, 0);
      field.remove_prefix(8);
    }
    return true;
  }
  for (const uint64_t* const number : numbers)
    if (*number == kWide32) return false;
  return true;
}

}  // namespace

bool is_zip(std::string_view bytes) { return bytes.starts_with(kLocal); }

ZipFile::ZipFile(const Path& path) : where_(printable(path.native(), 4096)), file_(path) {
  bytes_ = file_->text();
  read();
}

ZipFile::ZipFile(std::string_view bytes, std::string where) : where_(std::move(where)), bytes_(bytes) {
  read();
}

const ZipEntry* ZipFile::find(std::string_view name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &entries_[at->second];
}

void ZipFile::check_checksums() const {
  for (const ZipEntry& entry : entries_) {
    const uint32_t actual = crc32(std::as_bytes(std::span(entry.bytes)));
    check_data(entry.crc32 == 0 || entry.crc32 == actual,
               "{}: \"{}\" has the checksum {:08x}, the file says {:08x}; it was altered or damaged: use "
               "another copy",
               where_, printable(entry.name), actual, entry.crc32);
  }
}

// The end of the central directory is the last record; a comment of any length may follow it.
ZipFile::Directory ZipFile::find_directory() const {
  const size_t last = bytes_.size() >= kEndSize ? bytes_.size() - kEndSize : 0;
  const size_t first = last > kLongestComment ? last - kLongestComment : 0;
  for (size_t at = last + 1; at-- > first;) {
    if (!has(bytes_, at, kEnd, kEndSize) ||
        number_at<uint16_t>(bytes_, at + 20) != bytes_.size() - at - kEndSize)
      continue;
    const Directory narrow = {number_at<uint16_t>(bytes_, at + 10), number_at<uint32_t>(bytes_, at + 12),
                              number_at<uint32_t>(bytes_, at + 16)};
    return wide_directory(at, narrow);
  }
  fail(ErrorKind::kData, "{}: this zip file has no directory at its end; {}", where_, kDamaged);
}

ZipFile::Directory ZipFile::wide_directory(size_t end, const Directory& narrow) const {
  if (narrow.entries != kWide16 && narrow.size != kWide32 && narrow.begin != kWide32) return narrow;
  const size_t locator = end - std::min(end, kWideLocatorSize);
  if (!has(bytes_, locator, kWideLocator, kWideLocatorSize)) return narrow;
  const auto at = number_at<uint64_t>(bytes_, locator + 8);
  check_data(has(bytes_, at, kWideEnd, kWideEndSize), "{}: the zip64 directory at byte {} is not there; {}",
             where_, at, kDamaged);
  return {number_at<uint64_t>(bytes_, at + 32), number_at<uint64_t>(bytes_, at + 40),
          number_at<uint64_t>(bytes_, at + 48)};
}

void ZipFile::read() {
  const Directory directory = find_directory();
  check_data(directory.begin <= bytes_.size() && directory.size <= bytes_.size() - directory.begin,
             "{}: the directory should be {} bytes at byte {} of {}; {}", where_, directory.size,
             directory.begin, bytes_.size(), kDamaged);
  check_data(directory.entries <= directory.size / kCentralSize,
             "{}: a directory of {} bytes cannot list {} entries; {}", where_, directory.size,
             directory.entries, kDamaged);
  size_t at = directory.begin;
  entries_.reserve(directory.entries);
  for (uint64_t i = 0; i < directory.entries; ++i) read_entry(at, directory.begin + directory.size);
}

void ZipFile::read_entry(size_t& at, size_t directory_end) {
  check_data(has(bytes_.substr(0, directory_end), at, kCentral, kCentralSize),
             "{}: entry {} of the directory is not there at byte {}; {}", where_, entries_.size(), at,
             kDamaged);
  const std::string_view record = bytes_.substr(at);
  const auto flags = number_at<uint16_t>(record, 8), method = number_at<uint16_t>(record, 10);
  uint64_t packed = number_at<uint32_t>(record, 20), size = number_at<uint32_t>(record, 24),
           local = number_at<uint32_t>(record, 42);
  const size_t name_size = number_at<uint16_t>(record, 28), extra_size = number_at<uint16_t>(record, 30),
               whole = kCentralSize + name_size + extra_size + number_at<uint16_t>(record, 32);
  check_data(whole <= directory_end - at, "{}: entry {} of the directory goes beyond its end; {}", where_,
             entries_.size(), kDamaged);
  const std::string_view name = record.substr(kCentralSize, name_size);
  const std::string shown = printable(name);
  check_data(widen(record.substr(kCentralSize + name_size, extra_size), {&size, &packed, &local}),
             "{}: \"{}\": its zip64 sizes are not there; {}", where_, shown, kDamaged);
  check_data(method == 0 && (flags & 1) == 0,
             "{}: \"{}\" is {}; only stored entries are read: unpack the file, or save it again", where_,
             shown, (flags & 1) != 0 ? "encrypted" : "compressed");
  check_data(packed == size && has(bytes_, local, kLocal, kLocalSize),
             "{}: \"{}\" is not at byte {} with {} bytes; {}", where_, shown, local, size, kDamaged);
  const uint64_t begin =
      local + kLocalSize + number_at<uint16_t>(bytes_, local + 26) + number_at<uint16_t>(bytes_, local + 28);
  check_data(begin <= bytes_.size() && size <= bytes_.size() - begin,
             "{}: \"{}\" should be {} bytes at byte {} of {}; {}", where_, shown, size, begin, bytes_.size(),
             kDamaged);
  check_data(index_.emplace(name, entries_.size()).second, "{}: \"{}\" is there twice; {}", where_, shown,
             kDamaged);
  entries_.push_back({name, bytes_.substr(begin, size), number_at<uint32_t>(record, 16)});
  at += whole;
}

}  // namespace tril
