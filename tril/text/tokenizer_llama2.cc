// tokenizer.bin of llama2.c: u32 bytes of the longest token | for each token f32 score, i32 length, its
// bytes. Spaces stand for themselves; bytes that are no text are tokens <0x00> to <0xFF>. By convention id 0
// is the unknown token, 1 begins and 2 ends a text; a text that is not empty gets a space in front.
#include <cmath>
#include <unordered_set>

#include "tril/base/bytes.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/token_names.h"
#include "tril/text/tokenizer_parts.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

constexpr int32_t kBegin = 1, kEnd = 2, kFirstByte = 3;
constexpr const char* kNames[] = {"<unk>", "<s>", "</s>"};
// As llama2.c's own exporter spells them.
constexpr const char* kSpelled[] = {"<unk>", "\n<s>\n", "\n</s>\n"};

template <class T>
T take(std::string_view& bytes, const std::string& where) {
  check_data(bytes.size() >= sizeof(T), "{}: the file ends inside a token; it is cut off: get it again",
             where);
  const T value = number_at<T>(bytes, 0);
  bytes.remove_prefix(sizeof value);
  return value;
}

void add_token(TokenizerParts& parts, std::string_view bytes, const std::string& where) {
  const auto id = static_cast<int32_t>(parts.tokens.size());
  parts.joinable.push_back(false);
  if (id < kFirstByte) {
    parts.tokens.emplace_back();
    parts.specials.push_back({id, kNames[id], true});
  } else if (const auto byte = byte_token_value(bytes); byte && parts.byte_tokens[*byte] == 0) {
    parts.tokens.emplace_back(1, static_cast<char>(*byte));
    parts.byte_tokens[*byte] = id;
  } else {
    check_data(!first_invalid_utf8(bytes),
               "{}: token {}, \"{}\", is not UTF-8; the file is damaged: get it again", where, id,
               printable(bytes, 60));
    parts.tokens.emplace_back(bytes);
    parts.joinable.back() = !bytes.empty();
  }
}

}  // namespace

TokenizerParts parse_llama2_tokenizer(std::string_view bytes, const std::string& where) {
  TokenizerParts parts;
  parts.kind = Tokenizer::Kind::kSentencePiece;
  const auto longest = take<uint32_t>(bytes, where);
  std::unordered_set<std::string> seen;
  while (!bytes.empty()) {
    const auto score = take<float>(bytes, where);
    const auto length = take<int32_t>(bytes, where);
    const size_t id = parts.tokens.size();
    check_data(id < INT32_MAX && std::isfinite(score),
               "{}: token {} has the score {}; the file is damaged: get it again", where, id, score);
    // The file's own maximum leaves out the first tokens.
    check_data(length >= 0 && static_cast<uint64_t>(length) <= kLongestToken &&
                   static_cast<uint64_t>(length) <= bytes.size() &&
                   (id < kFirstByte || static_cast<uint64_t>(length) <= longest),
               "{}: token {} has {} bytes; at most {} (the longest by the file) and {} are possible, and {} "
               "are left",
               where, id, length, longest, kLongestToken, bytes.size());
    const std::string_view token = bytes.substr(0, static_cast<size_t>(length));
    bytes.remove_prefix(token.size());
    add_token(parts, token, where);
    parts.scores.push_back(score);
    check_data(!parts.joinable.back() || seen.emplace(token).second, "{}: token {}, \"{}\", is there twice",
               where, id, printable(token, 60));
  }
  for (size_t byte = 0; byte < 256; ++byte)
    check_data(parts.byte_tokens[byte] != 0, "{}: there is no token {}; all 256 bytes are needed", where,
               byte_token_name(static_cast<uint8_t>(byte)));
  parts.unknown = 0;
  parts.begin_of_text = kBegin;
  parts.end_of_text = kEnd;
  parts.prefix = SpacePrefix::kAlways;
  parts.strips_space = true;
  return parts;
}

std::string format_llama2_tokenizer(const TokenizerParts& parts) {
  uint32_t longest = 0;
  std::string body;
  for (size_t id = 0; id < parts.tokens.size(); ++id) {
    const auto number = static_cast<int32_t>(id);
    std::string token = parts.tokens[id];
    if (number < kFirstByte) {
      token = kSpelled[id];
    } else if (!parts.joinable[id]) {
      for (size_t byte = 0; byte < 256; ++byte)
        if (parts.byte_tokens[byte] == number) token = byte_token_name(static_cast<uint8_t>(byte));
    }
    longest = std::max(longest, static_cast<uint32_t>(token.size()));
    append_number(body, parts.scores[id]);
    append_number(body, static_cast<int32_t>(token.size()));
    body += token;
  }
  std::string out;
  append_number(out, longest);
  return out + body;
}

}  // namespace tril
