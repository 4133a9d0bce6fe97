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

// A whole regular file, read-only, mapped; empty files map to an empty span. Directories, pipes and devices
// are refused. Replacing the file (AtomicFile) leaves the mapping as it was; a file that another program
// shortens in place ends the process when the lost part is read (SIGBUS).
class MappedFile {
 public:
  explicit MappedFile(const Path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  // Gives back the memory that holds what was read so far; what is read again comes from the file again.
  void forget() const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A file that appears whole or not at all: written beside its place as "<name>.tril-tmp", fsynced, renamed
// over the old one, the directory fsynced. Without commit(), or when a call throws, the temporary is removed
// and the old file stays. A link is replaced, not followed. An old file's permissions are kept; one that may
// not be written, a directory, a pipe or a device is refused, and so is a file that another AtomicFile is
// writing at the same time.
class AtomicFile {
 public:
  explicit AtomicFile(const Path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Throws kUse after commit() or after a call that threw.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

 private:
  void open_temporary();
  void discard() noexcept;

  Path path_, temporary_;
  int descriptor_ = -1;
};

// A file that is read piece by piece from its begin: regular files, pipes and devices; "-" is not special.
class InputFile {
 public:
  explicit InputFile(const Path& path);
  static InputFile standard_input();
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;

  // Up to buffer.size() bytes; 0 only at the end.
  size_t read(std::span<char> buffer);
  int64_t size() const { return size_; }  // of a regular file, else -1
  // Goes on `bytes` from the begin. Throws kData where that is impossible: pipes, devices, beyond the end.
  void seek(int64_t bytes);

 private:
  InputFile(int descriptor, Path name);
  Path path_;
  int descriptor_ = -1;
  int64_t size_ = -1;
  bool device_ = false, started_ = false;
};

// A file that grows at its end and can be cut: of a long job, which goes on where it was when it is killed.
class GrowingFile {
 public:
  // What stands beyond the first `keep` bytes is cut off; kData if there are fewer than that, or than `least`
  // where it is given: what is missing then becomes zeros.
  GrowingFile(const Path& path, int64_t keep, int64_t least = -1);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  int64_t size() const { return size_; }
  void write(std::span<const std::byte> bytes);
  void truncate(int64_t size);                                   // at most size()
  void overwrite(int64_t at, std::span<const std::byte> bytes);  // within the file
  void sync();                                                   // all that was written is on the disk

 private:
  Path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

// Also reads pipes and devices, to their end.
std::string read_text_file(const Path& path);
std::string read_standard_input();  // to its end
void write_file_atomic(const Path& path, std::string_view content);

// Appends and hands all to the system (no fsync); for logs.
void append_to_file(const Path& path, std::string_view text);

// Also the missing folders above it; each is made durable. Nothing if it is there.
void make_directories(const Path& path);
// rename + fsync of the parent directories; the target must not exist. For step folders.
void rename_durably(const Path& from, const Path& to);
// The same over a file that may be there.
void replace_durably(const Path& from, const Path& to);
void sync_directory(const Path& path);
void remove_tree(const Path& path);  // nothing if absent

}  // namespace tril
