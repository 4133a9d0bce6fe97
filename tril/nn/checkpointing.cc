#include "tril/nn/checkpointing.h"

#include <utility>

#include "tril/base/error.h"

namespace tril {
namespace {

constexpr std::pair<Checkpointing, std::string_view> kNames[] = {{Checkpointing::kNone, "none"},
                                                                 {Checkpointing::kSelective, "selective"},
                                                                 {Checkpointing::kBlock, "block"}};

}  // namespace

std::string_view name_of(Checkpointing checkpointing) {
  for (const auto& [value, name] : kNames)
    if (value == checkpointing) return name;
  return "";
}

void from_name(std::string_view name, Checkpointing& out) {
  for (const auto& [value, known] : kNames) {
    if (name == known) {
      out = value;
      return;
    }
  }
  fail(ErrorKind::kUse, "checkpointing '{}' is not known; use none, selective or block", name);
}

}  // namespace tril
