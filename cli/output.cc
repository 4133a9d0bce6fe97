#include "cli/output.h"

#include <cstdio>

#include "tril/base/error.h"

namespace tril::cli {

void refuse_file_of_model(const std::string& out, const std::string& folder) {
  std::error_code missing;
  check_use(!std::filesystem::exists(out, missing) ||
                !std::filesystem::equivalent(std::filesystem::absolute(out).parent_path(), folder, missing),
            "--out {}: this is a file of the model; give another name", out);
}

Output::Output(const std::string& name) {
  if (name != "-") file_ = std::make_unique<AtomicFile>(Path(name));
}

void Output::write(std::string_view bytes) {
  bytes_ += static_cast<int64_t>(bytes.size());
  if (file_ != nullptr)
    file_->write(bytes);
  else
    check_data(std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size(),
               "standard output cannot be written");
}

void Output::commit() {
  if (file_ != nullptr) file_->commit();
}

}  // namespace tril::cli
