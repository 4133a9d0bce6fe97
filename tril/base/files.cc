#include "tril/base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril {
namespace {

std::string name_of(const Path& path) { return printable(path.native(), 4096); }

const char* advice(int code) {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      return "check that the path is spelled right and its folder exists";
    case EACCES:
    case EPERM:
      return "change the permissions of the file or its folder, or choose another place";
    case EROFS:
      return "the disk is mounted read-only; choose another place";
    case ENOSPC:
    case EDQUOT:
      return "free some disk space, or choose another disk";
    case EFBIG:
      return "the system limits the size of files; raise the limit (ulimit -f), or choose another disk";
    case EISDIR:
    case ELOOP:
    case ENOTEMPTY:
    case EEXIST:
      return "choose another name, or move away what is there";
    case EMFILE:
    case ENFILE:
      return "close other files, or raise the limit (ulimit -n)";
    case ENOMEM:
      return "free some memory";
    case ENAMETOOLONG:
      return "choose a shorter name";
    case EXDEV:
      return "choose a place on the same disk";
    case EIO:
      return "the disk reports a fault; check it, or choose another disk";
    default:
      return "check the path and the disk";
  }
}

[[noreturn]] void fail_system(const Path& path, const char* what, int code = errno) {
  fail(ErrorKind::kData, "{}: cannot {}: {}; {}", name_of(path), what, std::generic_category().message(code),
       advice(code));
}

// A path as the system takes it: a NUL inside would silently cut it.
const char* system_path(const Path& path) {
  check_data(path.native().find('\0') == std::string::npos,
             "{}: a path cannot contain a NUL character; check the path", name_of(path));
  return path.c_str();
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

int open_retrying(const Path& path, int flags, mode_t mode = 0) {
  const char* const name = system_path(path);
  while (true) {
    const int fd = ::open(name, flags | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EINTR) return fd;
  }
}

void write_all(int fd, const Path& path, std::string_view text) {
  while (!text.empty()) {
    // Linux writes at most 2 GiB - 4 KiB in one call, and macOS refuses more.
    const ssize_t n = ::write(fd, text.data(), std::min(text.size(), size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_system(path, "write");
    if (n == 0) fail_system(path, "write", ENOSPC);
    text.remove_prefix(static_cast<size_t>(n));
  }
}

Path parent_of(const Path& path) {
  const Path parent = path.parent_path();
  return parent.empty() ? Path(".") : parent;
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

MappedFile::MappedFile(const Path& path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  const Descriptor fd(open_retrying(path, O_RDONLY | O_NONBLOCK));
  if (!fd.is_open()) fail_system(path, "open");
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) fail_system(path, "read");
  check_data(!S_ISDIR(info.st_mode), "{}: this is a directory; give a file", name_of(path));
  check_data(S_ISREG(info.st_mode),
             "{}: this is a pipe or a device; save its content to a file and give that", name_of(path));
  if (info.st_size == 0) return;
  void* const p = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (p == MAP_FAILED) fail_system(path, "map");
  data_ = static_cast<const std::byte*>(p);
  size_ = static_cast<size_t>(info.st_size);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::forget() const {
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

AtomicFile::AtomicFile(const Path& path) : path_(path), temporary_(path) {
  temporary_ += ".tril-tmp";
  check_data(path.has_filename(), "{}: a file name is missing; give one", name_of(path));
  struct stat old {};
  const bool exists = ::stat(system_path(path), &old) == 0;
  if (exists) {
    check_data(!S_ISDIR(old.st_mode), "{}: cannot write a file here: this is a directory; give a file name",
               name_of(path));
    check_data(S_ISREG(old.st_mode), "{}: cannot replace a pipe or a device; give a file name",
               name_of(path));
    if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) fail_system(path, "replace the file");
  }
  open_temporary();
  if (exists) ::fchmod(descriptor_, old.st_mode & 07777);  // a file system without permissions may refuse
}

// The lock tells a temporary in use from one that a killed process left behind.
void AtomicFile::open_temporary() {
  while (true) {
    Descriptor fd(open_retrying(temporary_, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0666));
    // EISDIR and ELOOP (a link, because of O_NOFOLLOW): the fault is with the temporary's own name.
    if (!fd.is_open()) fail_system(errno == EISDIR || errno == ELOOP ? temporary_ : path_, "write");
    struct stat mine {
    }, there{};
    if (::fstat(fd.get(), &mine) != 0) fail_system(temporary_, "write");
    check_data(S_ISREG(mine.st_mode), "{}: this is a pipe or a device; remove it", name_of(temporary_));
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
      check_data(errno != EWOULDBLOCK,
                 "{}: another process is writing this file; wait for it, or choose another name",
                 name_of(path_));
    // Between open and flock the last owner may have renamed it into place: then it is not ours to change.
    if (::lstat(temporary_.c_str(), &there) != 0 || !same_file(mine, there)) continue;
    if (::ftruncate(fd.get(), 0) != 0) fail_system(temporary_, "write");
    descriptor_ = fd.release();
    return;
  }
}

void AtomicFile::discard() noexcept {
  if (descriptor_ < 0) return;
  ::unlink(temporary_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void AtomicFile::write(std::string_view text) {
  if (descriptor_ < 0) fail(ErrorKind::kUse, "{}: write after commit() or after a failure", name_of(path_));
  try {
    write_all(descriptor_, path_, text);
  } catch (...) {
    discard();
    throw;
  }
}

void AtomicFile::commit() {
  check_use(descriptor_ >= 0, "{}: commit() after commit() or after a failure", name_of(path_));
  try {
    if (::fsync(descriptor_) != 0) fail_system(path_, "write to the disk");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_system(path_, "put the new file in place");
  } catch (...) {
    discard();
    throw;
  }
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 && errno != EINTR) fail_system(path_, "close");
  sync_directory(parent_of(path_));
}

InputFile::InputFile(int descriptor, Path name) : path_(std::move(name)), descriptor_(descriptor) {
  if (descriptor_ < 0) fail_system(path_, "open");
  struct stat info {};
  const bool known = ::fstat(descriptor_, &info) == 0;
  if (!known || S_ISDIR(info.st_mode)) {
    if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
    if (!known) fail_system(path_, "read");
    fail(ErrorKind::kData, "{}: this is a directory; give a file", name_of(path_));
  }
  if (S_ISREG(info.st_mode)) size_ = info.st_size;
  device_ = S_ISCHR(info.st_mode);
}

InputFile::InputFile(const Path& path) : InputFile(open_retrying(path, O_RDONLY), path) {}

InputFile InputFile::standard_input() { return {STDIN_FILENO, "standard input"}; }

InputFile::~InputFile() {
  if (descriptor_ >= 0 && descriptor_ != STDIN_FILENO) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept { *this = std::move(other); }

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(device_, other.device_);
  std::swap(started_, other.started_);
  return *this;
}

size_t InputFile::read(std::span<char> buffer) {
  while (true) {
    const ssize_t n = ::read(descriptor_, buffer.data(), std::min(buffer.size(), size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_system(path_, "read");
    // /dev/zero and its like never end.
    check_data(!device_ || started_ || std::memchr(buffer.data(), 0, static_cast<size_t>(n)) == nullptr,
               "{}: this is a device that gives no text; give a file or a pipe", name_of(path_));
    started_ = true;
    return static_cast<size_t>(n);
  }
}

void InputFile::seek(int64_t bytes) {
  check_data(bytes >= 0 && bytes <= size_, "{}: cannot go on at byte {}; the file has {}", name_of(path_),
             bytes, size_);
  if (::lseek(descriptor_, bytes, SEEK_SET) != bytes) fail_system(path_, "read");
}

GrowingFile::GrowingFile(const Path& path, int64_t keep, int64_t least) : path_(path) {
  Descriptor fd(open_retrying(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666));
  if (!fd.is_open()) fail_system(path, "write");
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) fail_system(path, "write");
  check_data(S_ISREG(info.st_mode) && info.st_size >= (least < 0 ? keep : least),
             "{}: has {} bytes instead of {}; remove the folder that it is in, and begin again",
             name_of(path), info.st_size, keep);
  if (::ftruncate(fd.get(), keep) != 0 || ::lseek(fd.get(), keep, SEEK_SET) != keep)
    fail_system(path, "write");
  size_ = keep;
  descriptor_ = fd.release();
}

GrowingFile::~GrowingFile() { ::close(descriptor_); }

void GrowingFile::write(std::span<const std::byte> bytes) {
  write_all(descriptor_, path_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  size_ += std::ssize(bytes);
}

void GrowingFile::truncate(int64_t size) {
  check_use(size >= 0 && size <= size_, "{}: cut to {} of {} bytes", name_of(path_), size, size_);
  if (::ftruncate(descriptor_, size) != 0 || ::lseek(descriptor_, size, SEEK_SET) != size)
    fail_system(path_, "write");
  size_ = size;
}

void GrowingFile::overwrite(int64_t at, std::span<const std::byte> bytes) {
  check_use(at >= 0 && at + std::ssize(bytes) <= size_, "{}: bytes {} to {} are not within its {}",
            name_of(path_), at, at + std::ssize(bytes), size_);
  if (::lseek(descriptor_, at, SEEK_SET) != at) fail_system(path_, "write");
  write_all(descriptor_, path_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (::lseek(descriptor_, size_, SEEK_SET) != size_) fail_system(path_, "write");
}

void GrowingFile::sync() {
  if (::fdatasync(descriptor_) != 0) fail_system(path_, "write to the disk");
}

namespace {

std::string read_to_end(InputFile file) {
  std::string text;
  size_t size = 0;
  while (true) {
    // One byte more than the size tells, so that the end of a file is met without growing.
    if (size == text.size())
      text.resize(std::max({size_t{65536}, 2 * size, static_cast<size_t>(file.size() + 1)}));
    const size_t n = file.read(std::span(text).subspan(size));
    if (n == 0) break;
    size += n;
  }
  text.resize(size);
  return text;
}

}  // namespace

std::string read_text_file(const Path& path) { return read_to_end(InputFile(path)); }

std::string read_standard_input() { return read_to_end(InputFile::standard_input()); }

void write_file_atomic(const Path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

void append_to_file(const Path& path, std::string_view text) {
  Descriptor fd(open_retrying(path, O_WRONLY | O_CREAT | O_APPEND, 0666));
  if (!fd.is_open()) fail_system(path, "open for appending");
  write_all(fd.get(), path, text);
  if (::close(fd.release()) != 0 && errno != EINTR) fail_system(path, "close");
}

void make_directories(const Path& path) {
  struct stat info {};
  if (path.empty() || (::stat(system_path(path), &info) == 0 && S_ISDIR(info.st_mode))) return;
  if (path != path.parent_path()) make_directories(path.parent_path());
  if (::mkdir(path.c_str(), 0777) == 0) {
    sync_directory(parent_of(path));
  } else if (const int code = errno; ::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    fail_system(path, "create the directory", code);
  }
}

void rename_durably(const Path& from, const Path& to) {
  struct stat info {};
  if (::lstat(system_path(to), &info) == 0) fail_system(to, "rename to this", EEXIST);
  replace_durably(from, to);
}

void replace_durably(const Path& from, const Path& to) {
  struct stat info {};
  if (::rename(system_path(from), system_path(to)) != 0) {
    const int code = errno;
    const bool missing = code == ENOENT && ::lstat(from.c_str(), &info) != 0;
    fail_system(missing ? from : to, missing ? "rename" : "rename to this", code);
  }
  sync_directory(parent_of(to));
  if (parent_of(from) != parent_of(to)) sync_directory(parent_of(from));
}

void sync_directory(const Path& path) {
  const Descriptor fd(open_retrying(path.empty() ? Path(".") : path, O_RDONLY | O_DIRECTORY));
  if (!fd.is_open() && errno == EACCES) return;  // one may write into a directory that one may not read
  if (!fd.is_open()) fail_system(path, "open the directory");
  // Some file systems cannot sync a directory and say so with EINVAL or ENOTSUP.
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail_system(path, "write the directory to the disk");
}

void remove_tree(const Path& path) {
  std::error_code code;
  std::filesystem::remove_all(system_path(path), code);
  if (code) fail_system(path, "remove", code.value());
}

}  // namespace tril
