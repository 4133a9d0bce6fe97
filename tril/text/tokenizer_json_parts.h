// The parts of the reader of tokenizer.json: where it is, what it refuses, and what stands around the model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tril/base/error.h"
#include "tril/text/token_names.h"
#include "tril/text/tokenizer_parts.h"

namespace tril {

using TokenizerJson = nlohmann::json;

// Throws kData naming the file.
class JsonPlace {
 public:
  explicit JsonPlace(std::string where) : where_(std::move(where)) {}

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kData, "{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> format, Args&&... args) const {
    if (!ok) refuse(format, std::forward<Args>(args)...);
  }
  // At most `kDeepest` levels; throws if it is no JSON.
  TokenizerJson parse(std::string_view text) const;

  const std::string& where() const { return where_; }

 private:
  std::string where_;
};

// Null if `object` is none or has no such key.
const TokenizerJson& json_member(const TokenizerJson& object, const char* key);
bool json_is(const TokenizerJson& object, const char* key, std::string_view text);
// For messages: at most one short line.
std::string json_show(const TokenizerJson& value);

// Reads normalizer, pre_tokenizer, post_processor and decoder into `parts`, kind included; ids of special
// tokens that a post-processor adds become begin_of_text. What would change ids in another way is refused.
void read_tokenizer_pipeline(const TokenizerJson& root, const JsonPlace& place, TokenizerParts& parts);

}  // namespace tril
