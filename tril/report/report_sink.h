// How a report is handed on.
#pragma once

#include <string_view>

#include "tril/base/function_ref.h"

namespace tril {

// Takes a file piece by piece.
using ReportSink = FunctionRef<void(std::string_view)>;

}  // namespace tril
