// Finds tokens that have a spelling of their own: the leftmost, of those that start there the longest.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/function_ref.h"
#include "tril/text/tokenizer.h"

namespace tril {

class SpecialFinder {
 public:
  // Those of `tokens` for which `wanted` says yes.
  SpecialFinder(std::span<const SpecialToken> tokens, FunctionRef<bool(const SpecialToken&)> wanted);

  bool empty() const { return sorted_.empty(); }
  size_t longest() const { return longest_; }  // bytes of the longest token
  struct Found {
    size_t begin = std::string_view::npos, end = std::string_view::npos;
    const SpecialToken* token = nullptr;  // null: there is none
  };
  Found next(std::string_view text, size_t at) const;

 private:
  const SpecialToken* longest_at(std::string_view text) const;

  std::vector<const SpecialToken*> sorted_;  // by content
  std::string first_bytes_;                  // each once
  size_t longest_ = 0;
};

}  // namespace tril
