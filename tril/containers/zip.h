// Zip archives whose entries are stored as they are: what torch.save writes. PKWARE, "APPNOTE.TXT - .ZIP File
// Format Specification", 6.3.10: local headers (4.3.7), central directory (4.3.12), its end (4.3.16), and the
// zip64 records for sizes and offsets from 2^32 - 1 (4.3.14, 4.3.15, 4.5.3).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/files.h"
#include "tril/base/function_ref.h"

namespace tril {

struct ZipEntry {
  std::string_view name;
  std::string_view bytes;  // of the file, as they are
  uint32_t crc32 = 0;      // as the archive says; 0 where its writer computed none
};

// Read through the central directory. Throws kData, naming file and entry, for entries that are compressed or
// encrypted, sizes and places outside the file, names that are there twice.
class ZipFile {
 public:
  explicit ZipFile(const Path& path);
  // The same of bytes that outlive this object; `where` names them in messages.
  ZipFile(std::string_view bytes, std::string where);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;  // null if absent
  // Throws kData if the bytes of an entry are not those its checksum was computed of. Reads the whole file.
  void check_checksums() const;
  const std::string& where() const { return where_; }

 private:
  struct Directory {
    uint64_t entries = 0, size = 0, begin = 0;
  };
  void read();
  Directory find_directory() const;
  Directory wide_directory(size_t end, const Directory& narrow) const;
  void read_entry(size_t& at, size_t directory_end);

  std::string where_;
  std::optional<MappedFile> file_;
  std::string_view bytes_;
  std::vector<ZipEntry> entries_;
  std::map<std::string_view, size_t> index_;
};

bool is_zip(std::string_view bytes);  // starts with a local header

// Writes entries one after another, the bytes of each at a multiple of 64 from the begin of the file; the
// file appears with finish(). Numbers from `narrow` on are written in zip64 records.
class ZipWriter {
 public:
  explicit ZipWriter(const Path& path, uint64_t narrow = 0xFFFFFFFF) : file_(path), narrow_(narrow) {}
  // Throws kUse for a name that is empty, too long or there already.
  void add(std::string_view name, std::string_view bytes);
  // Bytes that `pieces` hands to what it is given: twice, for the checksum stands in front of them.
  using Take = FunctionRef<void(std::span<const std::byte>)>;
  void add(std::string_view name, FunctionRef<void(Take)> pieces);
  void finish();

 private:
  struct Written {
    uint32_t crc32;
    uint64_t size, begin;
  };
  void write(std::string_view bytes);

  AtomicFile file_;
  uint64_t narrow_, at_ = 0;
  std::map<std::string, Written, std::less<>> written_;
};

}  // namespace tril
