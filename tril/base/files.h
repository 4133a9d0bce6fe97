// Files: memory-mapped reading, atomic replacement, directories. Every failure is an Error of kind kData that
// names the path, what failed, the system's reason, and what to do.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tril {

using Path = std::filesystem::path;

// A whole file, read-only, mapped; empty files map to an empty span. Directories are refused.
class MappedFile {
 public:
  explicit MappedFile(const Path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A file that appears whole or not at all: written beside its place as "<name>.tmp", fsynced, renamed over
// the old one, the directory fsynced. Without commit() the temporary is removed and the old file stays.
class AtomicFile {
 public:
  explicit AtomicFile(const Path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

 private:
  Path path_, temporary_;
  int descriptor_ = -1;
};

std::string read_text_file(const Path& path);
void write_file_atomic(const Path& path, std::string_view content);

// Appends and flushes; for logs.
void append_to_file(const Path& path, std::string_view text);

void make_directories(const Path& path);
// rename + fsync of the parent directory; the target must not exist. For step folders.
void rename_durably(const Path& from, const Path& to);
void sync_directory(const Path& path);
void remove_tree(const Path& path);  // nothing if absent

}  // namespace tril
