// Where a command writes what it makes: a file, which appears whole or not at all, or standard output.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tril/base/files.h"

namespace tril::cli {

// Throws kUse if `out` lies in the folder of a model or run, or below its steps/, under a name that tril
// gives to files there.
void refuse_file_of_model(const std::string& out);

class Output {
 public:
  // "-": standard output. Fails at once where nothing can be written.
  explicit Output(const std::string& name);
  bool is_file() const { return file_ != nullptr; }
  void write(std::string_view bytes);
  void commit();
  int64_t bytes() const { return bytes_; }  // so far

 private:
  std::unique_ptr<AtomicFile> file_;
  int64_t bytes_ = 0;
};

}  // namespace tril::cli
