#include "cli/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tril/base/error.h"

namespace tril::cli {
namespace {

// Better now than after the hours until the first save.
void check_writable(const Path& folder) {
  const bool directory = std::filesystem::is_directory(folder);
  if (directory && ::access(folder.c_str(), W_OK) == 0) return;
  const std::string reason = std::generic_category().message(directory ? errno : ENOTDIR);
  fail(ErrorKind::kData, "{}: cannot be written: {}; give another --out", folder.string(), reason);
}

}  // namespace

FolderLock::FolderLock(const Path& folder) {
  make_directories(folder);
  check_writable(folder);
  if (std::filesystem::exists(folder / "steps")) check_writable(folder / "steps");
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // File systems without locks give other errors, and no protection.
  if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  fail(ErrorKind::kUse, "{}: another tril trains in this folder now; wait for it, or give another --out",
       folder.string());
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace tril::cli
