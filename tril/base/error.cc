#include "tril/base/error.h"

namespace tril {

void fail_with(ErrorKind kind, fmt::string_view format, fmt::format_args args) {
  throw Error(kind, fmt::vformat(format, args));
}

}  // namespace tril
