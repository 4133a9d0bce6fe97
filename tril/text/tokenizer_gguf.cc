// The fields tokenizer.ggml.* of GGUF files, as llama.cpp reads them: byte-level BPE ("gpt2", whose split
// pattern is named by tokenizer.ggml.pre) and SentencePiece ("llama").
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "tril/base/printable.h"
#include "tril/containers/gguf.h"
#include "tril/text/byte_alphabet.h"
#include "tril/text/split_patterns.h"
#include "tril/text/token_names.h"
#include "tril/text/tokenizer_json_parts.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

using Kind = Tokenizer::Kind;

enum TokenType : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

// The first name of each pattern is the one that is written.
struct Pre {
  std::string_view name, pattern;
};
constexpr Pre kPres[] = {{"gpt-2", "gpt2"},
                         {"gpt2", "gpt2"},
                         {"phi-2", "gpt2"},
                         {"llama-bpe", "llama3"},
                         {"llama3", "llama3"},
                         {"llama-v3", "llama3"},
                         {"dbrx", "llama3"},
                         {"qwen2", "qwen2"},
                         {"smollm", "digits"},
                         {"starcoder", "digits"},
                         {"refact", "digits"},
                         {"codeshell", "digits"},
                         {"gpt-4o", "o200k"},
                         {"deepseek-llm", "deepseek-llm"},
                         {"deepseek-v3", "deepseek-v3"},
                         {"deepseek-coder", "deepseek-coder"}};

bool is_llama3(std::string_view pre) { return pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3"; }

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& where) : place_(where), file_(bytes, where) {}

  TokenizerParts read() {
    const auto model = file_.text("tokenizer.ggml.model");
    place_.require(model.has_value(),
                   "there is no field tokenizer.ggml.model: this GGUF file has no tokenizer");
    place_.require(*model == "gpt2" || *model == "llama",
                   "tokenizer.ggml.model \"{}\" is not supported, only gpt2 and llama",
                   printable(*model, 60));
    parts_.kind = *model == "gpt2" ? Kind::kBpe : Kind::kSentencePiece;
    tokens_ = file_.texts("tokenizer.ggml.tokens");
    place_.require(!tokens_.empty(), "there is no field tokenizer.ggml.tokens, or it is empty");
    types_ = file_.integers("tokenizer.ggml.token_type");
    place_.require(types_.empty() || types_.size() == tokens_.size(), "{} tokens, but {} token types",
                   tokens_.size(), types_.size());
    types_.resize(tokens_.size(), kNormal);
    if (parts_.kind == Kind::kBpe) {
      read_bpe();
    } else {
      read_sentencepiece();
    }
    read_ends();
    return std::move(parts_);
  }

 private:
  // True if the token is none of text; it is then noted.
  bool is_named(size_t id) {
    const int64_t type = types_[id];
    place_.require(type >= kNormal && type <= kByte, "token {} has the type {}; 1 to 6 are known", id, type);
    const bool named = type == kControl || type == kUnknown || type == kUserDefined;
    if (named) {
      place_.require(!tokens_[id].empty() && !first_invalid_utf8(tokens_[id]), "token {}, \"{}\", is no text",
                     id, printable(tokens_[id], 60));
      parts_.specials.push_back({static_cast<int32_t>(id), std::string(tokens_[id]), type != kUserDefined});
    }
    return named;
  }

  void read_bpe() {
    const std::string pre = file_.text("tokenizer.ggml.pre").value_or("");
    const auto* known =
        std::find_if(std::begin(kPres), std::end(kPres), [&](const Pre& entry) { return entry.name == pre; });
    if (known != std::end(kPres)) {
      parts_.splits = splits_of_name(known->pattern).value();
    } else {
      place_.require(pre.empty() || pre == "default",
                     "tokenizer.ggml.pre \"{}\" is not supported; known are {}", printable(pre, 60),
                     fmt::join(known_pres(), ", "));
    }
    parts_.whole_pieces = is_llama3(pre);
    std::unordered_map<std::string_view, int32_t> ids;
    ids.reserve(tokens_.size());
    std::vector<bool> bytes(256);
    for (size_t id = 0; id < tokens_.size(); ++id) {
      parts_.tokens.emplace_back();
      if (is_named(id)) {
        if (types_[id] == kUserDefined) parts_.tokens.back() = tokens_[id];
        continue;
      }
      if (types_[id] == kUnused) continue;
      const auto spelled = unspell_bytes(tokens_[id]);
      if (!spelled || spelled->empty())
        place_.refuse("token {}, \"{}\", is not spelled in the byte alphabet of GPT-2", id,
                      printable(tokens_[id], 60));
      if (!ids.emplace(tokens_[id], static_cast<int32_t>(id)).second)
        place_.refuse("the token \"{}\" is there twice", printable(tokens_[id], 60));
      parts_.tokens.back() = *spelled;
      if (spelled->size() == 1) bytes[static_cast<unsigned char>((*spelled)[0])] = true;
    }
    for (int byte = 0; byte < 256; ++byte)
      place_.require(bytes[static_cast<size_t>(byte)] || !is_needed_byte(byte),
                     "the byte 0x{:02x} has no token; all of ASCII are needed", byte);
    read_merges(ids);
  }

  static std::vector<std::string_view> known_pres() {
    std::vector<std::string_view> names;
    for (const Pre& entry : kPres) names.push_back(entry.name);
    return names;
  }

  void read_merges(const std::unordered_map<std::string_view, int32_t>& ids) {
    const std::vector<std::string_view> merges = file_.texts("tokenizer.ggml.merges");
    place_.require(!merges.empty() || ids.size() <= 256,
                   "{} tokens but no tokenizer.ggml.merges: tokens longer than a byte cannot be made",
                   ids.size());
    NamedPairs named;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const std::string_view merge = merges[rank];
      const size_t space = merge.find(' ');
      if (space == merge.npos)
        place_.refuse("merge {}, \"{}\", is not two tokens with a space between", rank, printable(merge, 60));
      const auto known = [&](std::string_view token) {
        const auto found = ids.find(token);
        if (found == ids.end())
          place_.refuse("merge {} needs the token \"{}\", which does not exist", rank, printable(token, 60));
        return found->second;
      };
      const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
      const Merge read{known(left), known(right), known(std::string(left) + std::string(right))};
      if (!named.add(read)) place_.refuse("merge {}, \"{}\", is there twice", rank, printable(merge, 60));
      parts_.merges.push_back(read);
    }
  }

  void read_sentencepiece() {
    parts_.scores = file_.numbers("tokenizer.ggml.scores");
    place_.require(parts_.scores.size() == tokens_.size(),
                   "{} tokens, but {} scores in tokenizer.ggml.scores", tokens_.size(), parts_.scores.size());
    parts_.metaspace = true;
    parts_.joinable.assign(tokens_.size(), false);
    std::vector<bool> bytes(256);
    std::unordered_set<std::string_view> seen;
    for (size_t id = 0; id < tokens_.size(); ++id) {
      const std::string_view token = tokens_[id];
      place_.require(std::isfinite(parts_.scores[id]), "token {} has the score {}", id, parts_.scores[id]);
      parts_.tokens.emplace_back();
      if (is_named(id)) {
        if (types_[id] == kUnknown && parts_.unknown < 0) parts_.unknown = static_cast<int32_t>(id);
        if (types_[id] == kUserDefined) parts_.tokens.back() = token;
      } else if (types_[id] == kByte) {
        const auto byte = byte_token_value(token);
        if (!byte || bytes[*byte])
          place_.refuse("token {}, \"{}\", is no byte like <0x0A>, or there twice", id, printable(token, 60));
        bytes[*byte] = true;
        parts_.byte_tokens[*byte] = static_cast<int32_t>(id);
        parts_.tokens.back() = std::string(1, static_cast<char>(*byte));
      } else if (types_[id] != kUnused) {
        if (token.empty() || token.size() > kLongestToken || first_invalid_utf8(token))
          place_.refuse("token {}, \"{}\", is not 1 to {} bytes of text", id, printable(token, 60),
                        kLongestToken);
        if (!seen.insert(token).second)
          place_.refuse("the token \"{}\" is there twice", printable(token, 60));
        parts_.tokens.back() = with_replaced(token, kMetaspaceCharacter, " ");
        parts_.joinable[id] = token.find(' ') == token.npos;
      }
    }
    const auto missing = std::find(bytes.begin(), bytes.end(), false);
    place_.require(missing == bytes.end(), "the byte 0x{:02x} has no token; all 256 are needed",
                   missing - bytes.begin());
    const bool prefix = file_.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
    parts_.prefix = prefix ? SpacePrefix::kAlways : SpacePrefix::kNone;
    parts_.strips_space = prefix;
  }

  void read_ends() {
    const int32_t begin = id_of("tokenizer.ggml.bos_token_id");
    parts_.end_of_text = id_of("tokenizer.ggml.eos_token_id");
    const bool begins_by_default =
        parts_.kind == Kind::kSentencePiece || is_llama3(file_.text("tokenizer.ggml.pre").value_or(""));
    if (file_.boolean("tokenizer.ggml.add_bos_token").value_or(begins_by_default))
      parts_.begin_of_text = begin;
    find_text_ends(parts_);
  }

  int32_t id_of(const char* key) const {
    const auto id = file_.integer(key);
    if (!id) return -1;
    place_.require(*id >= 0 && *id < std::ssize(tokens_), "{} is {}, outside the {} tokens", key, *id,
                   tokens_.size());
    return static_cast<int32_t>(*id);
  }

  JsonPlace place_;
  GgufFile file_;
  TokenizerParts parts_;
  std::vector<std::string_view> tokens_;
  std::vector<int64_t> types_;
};

void add_bpe(GgufHeader& header, const TokenizerParts& parts, const std::string& pattern) {
  for (const Pre& entry : kPres) {
    if (entry.pattern != pattern) continue;
    header.add("tokenizer.ggml.pre", entry.name);
    break;
  }
  std::vector<std::string> merges;
  for (const Merge& merge : parts.merges) {
    merges.push_back(spell_bytes(parts.tokens[static_cast<size_t>(merge.left)]) + " " +
                     spell_bytes(parts.tokens[static_cast<size_t>(merge.right)]));
  }
  header.add("tokenizer.ggml.merges", merges);
}

}  // namespace

TokenizerParts parse_gguf_tokenizer(std::string_view bytes, const std::string& where) {
  return Reader(bytes, where).read();
}

bool gguf_knows_pattern(std::string_view pattern) {
  return std::any_of(std::begin(kPres), std::end(kPres),
                     [&](const Pre& entry) { return entry.pattern == pattern; });
}

void add_gguf_tokenizer(const TokenizerParts& parts, int64_t rows, GgufHeader& header) {
  const bool bpe = parts.kind == Kind::kBpe;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  for (size_t id = 0; id < parts.tokens.size(); ++id) {
    const std::string& bytes = parts.tokens[id];
    types.push_back(bytes.empty() ? kUnused : kNormal);
    if (bytes.empty()) {
      tokens.push_back(fmt::format("[PAD{}]", id));
    } else if (bpe) {
      tokens.push_back(spell_bytes(bytes));
    } else {
      // What is not joinable was spelled with a space, which no text has there.
      tokens.push_back(parts.joinable[id] ? with_replaced(bytes, " ", kMetaspaceCharacter) : bytes);
    }
  }
  for (size_t byte = 0; !bpe && byte < 256; ++byte) {
    const auto id = static_cast<size_t>(parts.byte_tokens[byte]);
    tokens[id] = byte_token_name(static_cast<uint8_t>(byte));
    types[id] = kByte;
  }
  for (const SpecialToken& token : parts.specials) {
    const auto id = static_cast<size_t>(token.id);
    tokens[id] = token.content;
    types[id] = !token.control ? kUserDefined : token.id == parts.unknown ? kUnknown : kControl;
  }
  std::vector<float> scores = parts.scores;
  for (int64_t id = std::ssize(tokens); id < rows; ++id) {  // of a table that is longer than the vocabulary
    tokens.push_back(fmt::format("[PAD{}]", id));
    types.push_back(kUnused);
    scores.push_back(0);
  }
  header.add("tokenizer.ggml.model", std::string_view(bpe ? "gpt2" : "llama"));
  header.add("tokenizer.ggml.tokens", tokens);
  header.add("tokenizer.ggml.token_type", std::span<const int32_t>(types));
  if (bpe) {
    add_bpe(header, parts, name_of_splits(parts.splits));
  } else {
    header.add("tokenizer.ggml.scores", std::span<const float>(scores));
    header.add_flag("tokenizer.ggml.add_space_prefix", parts.prefix != SpacePrefix::kNone);
  }
  const int32_t begin = parts.begin_of_text >= 0 ? parts.begin_of_text : parts.end_of_text;
  if (begin >= 0) header.add("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(begin));
  if (parts.end_of_text >= 0)
    header.add("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(parts.end_of_text));
  header.add_flag("tokenizer.ggml.add_bos_token", parts.begin_of_text >= 0);
}

std::string format_gguf_tokenizer(const TokenizerParts& parts) {
  GgufHeader header;
  header.add("general.architecture", std::string_view(parts.kind == Kind::kBpe ? "gpt2" : "llama"));
  add_gguf_tokenizer(parts, 0, header);
  return header.without_tensors();
}

}  // namespace tril
