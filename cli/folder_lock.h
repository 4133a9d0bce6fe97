// One process at a time trains in a folder.
#pragma once

#include "tril/base/files.h"

namespace tril::cli {

class FolderLock {
 public:
  // Makes the folder if it is missing. Throws kUse if another process holds it, kData if it or its steps/
  // cannot be written.
  explicit FolderLock(const Path& folder);
  ~FolderLock();  // the system also releases it when the process ends in any way
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace tril::cli
