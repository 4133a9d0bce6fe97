#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <unordered_map>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/byte_alphabet.h"
#include "tril/text/tokenizer_parts.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

using Json = nlohmann::json;
using Kind = Tokenizer::Kind;

class Reader {
 public:
  Reader(std::string_view text, std::string where) : where_(std::move(where)) {
    try {
      root_ = Json::parse(text, [this](int depth, Json::parse_event_t, Json&) {
        require(depth <= kDeepest, "is nested more than {} deep; no tokenizer needs that", kDeepest);
        return true;
      });
    } catch (const Json::exception& error) {
      refuse("is not JSON ({}); copy it again from where it came", printable(error.what()));
    }
  }

  TokenizerParts read() {
    require(root_.is_object(), "holds no JSON object; a tokenizer.json is needed");
    const Json& model = member(root_, "model");
    require(model.is_object(), "has no \"model\"; a tokenizer.json of Hugging Face's tokenizers is needed");
    refuse_unknown_settings(model);
    read_kind();
    read_tokens(model);
    read_merges(model);
    check_complete();
    return std::move(parts_);
  }

 private:
  static constexpr int kDeepest = 32;

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kData, "{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> format, Args&&... args) const {
    if (!ok) refuse(format, std::forward<Args>(args)...);
  }

  static const Json& member(const Json& object, const char* key) {
    static const Json null;
    if (!object.is_object()) return null;
    const auto found = object.find(key);
    return found == object.end() ? null : *found;
  }
  // For messages: at most one short line.
  static std::string show(const Json& value) {
    const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() <= 60 ? text : text.substr(0, 57) + "...";
  }
  static std::string type_of(const Json& value) {
    const Json& type = member(value, "type");
    return type.is_string() ? show(type) : show(value);
  }

  void refuse_unknown_settings(const Json& model) const {
    const Json& type = member(model, "type");
    require(type.is_null() || type == "BPE", "model {} is not supported, only \"BPE\"", show(type));
    for (const char* key : {"normalizer", "truncation", "padding"}) {
      const Json& value = member(root_, key);
      require(value.is_null(), "\"{}\" {} would change the ids and is not supported; only null is", key,
              type_of(value));
    }
    const Json& post = member(root_, "post_processor");
    require(post.is_null() || member(post, "type") == "ByteLevel",
            "post_processor {} would add ids and is not supported; only null or ByteLevel is", type_of(post));
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json& value = member(model, key);
      require(value.is_null() || value == "" || value == 0.0, "model \"{}\" {} is not supported", key,
              show(value));
    }
    for (const char* key : {"byte_fallback", "ignore_merges"}) {
      const Json& value = member(model, key);
      require(value.is_null() || value == false, "model \"{}\" {} is not supported, only false", key,
              show(value));
    }
  }

  // Which of the three tokenizers this is, by its pre-tokenizer; the decoder must be its inverse.
  void read_kind() {
    const Json& pre = member(root_, "pre_tokenizer");
    const Json& decoder = member(root_, "decoder");
    const Json& merges = member(member(root_, "model"), "merges");
    require(merges.is_array(), "model \"merges\" is not a list");
    if (pre.is_null()) {
      require(member(decoder, "type") == "Fuse",
              "no pre_tokenizer and decoder {}: only single characters with decoder Fuse are supported",
              type_of(decoder));
      require(merges.empty(), "no pre_tokenizer, but {} merges: only ByteLevel is supported with merges",
              merges.size());
      const Json& unknown = member(member(root_, "model"), "unk_token");
      require(unknown.is_null(), "unk_token {} is not supported with single characters", show(unknown));
      parts_.kind = Kind::kCharacter;
      return;
    }
    require(member(pre, "type") == "ByteLevel", "pre_tokenizer {} is not supported, only ByteLevel (GPT-2's)",
            type_of(pre));
    require(member(pre, "add_prefix_space") == false,
            "pre_tokenizer ByteLevel with add_prefix_space {} is not supported, only false",
            show(member(pre, "add_prefix_space")));
    require(member(decoder, "type") == "ByteLevel", "decoder {} is not supported here, only ByteLevel",
            type_of(decoder));
    const Json& regex = member(pre, "use_regex");
    require(regex.is_null() || regex.is_boolean(), "use_regex {} is not true or false", show(regex));
    const bool split = regex.is_null() || regex == true;
    require(split || merges.empty(),
            "ByteLevel without its pattern (use_regex false) is not supported with merges");
    parts_.kind = split ? Kind::kBpe : Kind::kByte;
  }

  void read_tokens(const Json& model) {
    const Json& vocab = member(model, "vocab");
    require(vocab.is_object() && !vocab.empty(), "model \"vocab\" is not an object with tokens");
    const Json& added = member(root_, "added_tokens");
    require(added.is_null() || added.is_array(), "\"added_tokens\" is not a list");
    const size_t most = vocab.size() + added.size();
    for (const Json& token : added) read_added(token, most);
    for (auto at = vocab.begin(); at != vocab.end(); ++at) {
      const std::string& spelled = at.key();
      const int32_t number = read_id(*at, spelled, most);
      if (const auto special = special_ids_.find(spelled); special != special_ids_.end()) {
        require(special->second == number, "{} has id {} in added_tokens, {} in vocab", show(spelled),
                special->second, number);
      } else {
        place(number, spelled);
        ids_.emplace(spelled, number);
      }
    }
    size_t id = 0;
    while (id < spelled_.size() && spelled_[id] != nullptr) ++id;
    require(id == spelled_.size(), "id {} has no token, but larger ids have; ids must have no gaps", id);
    for (const auto& [content, number] : special_ids_) parts_.specials.push_back({number, content});
    std::sort(parts_.specials.begin(), parts_.specials.end(),
              [](const SpecialToken& a, const SpecialToken& b) { return a.id < b.id; });
    for (size_t i = 0; i < spelled_.size(); ++i) parts_.tokens.push_back(token_bytes(*spelled_[i]));
  }

  void read_added(const Json& token, size_t most) {
    const Json& content = member(token, "content");
    require(content.is_string() && content != "", "added_tokens: {} has no \"content\"", show(token));
    require(member(token, "special") == true,
            "added token {} is not special: it would be cut out of the text, which is not supported",
            show(content));
    const int32_t id = read_id(member(token, "id"), content.get<std::string>(), most);
    const auto [at, fresh] = special_ids_.emplace(content.get<std::string>(), id);
    require(fresh, "added_tokens: {} is there twice", show(content));
    place(id, at->first);
  }

  int32_t read_id(const Json& id, const std::string& token, size_t most) const {
    require(id.is_number_unsigned() && id.get<uint64_t>() < most,
            "token {} has id {}; ids of {} tokens go from 0 to {}", show(token), show(id), most, most - 1);
    return id.get<int32_t>();
  }

  // `token` is a key that stays where it is.
  void place(int32_t id, const std::string& token) {
    const auto at = static_cast<size_t>(id);
    if (at >= spelled_.size()) spelled_.resize(at + 1);
    require(spelled_[at] == nullptr, "tokens {} and {} have the same id {}",
            show(spelled_[at] == nullptr ? Json() : Json(*spelled_[at])), show(token), id);
    spelled_[at] = &token;
  }

  std::string token_bytes(const std::string& spelled) const {
    if (special_ids_.contains(spelled)) return "";
    if (parts_.kind == Kind::kCharacter) {
      require(utf8_length(spelled, 0) == static_cast<int>(spelled.size()) && !spelled.empty(),
              "token {} is not one character, but there is no pre_tokenizer and there are no merges",
              show(spelled));
      return spelled;
    }
    const auto bytes = unspell_bytes(spelled);
    require(bytes.has_value() && !bytes->empty(), "token {} is not spelled in the byte alphabet of ByteLevel",
            show(spelled));
    return *bytes;
  }

  void read_merges(const Json& model) {
    const Json& merges = member(model, "merges");
    std::set<std::pair<int32_t, int32_t>> seen;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const auto [left, right] = split_merge(merges[rank], rank);
      const Merge merge{known(left, rank), known(right, rank), known(left + right, rank)};
      require(seen.emplace(merge.left, merge.right).second, "merge {} {} is there twice", rank,
              show(merges[rank]));
      parts_.merges.push_back(merge);
    }
  }

  // "a b", or ["a", "b"]
  std::pair<std::string, std::string> split_merge(const Json& merge, size_t rank) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    }
    require(merge.is_string(), "merge {} is {}, not \"a b\" or [\"a\", \"b\"]", rank, show(merge));
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    require(space != std::string::npos && text.find(' ', space + 1) == std::string::npos,
            "merge {} is {}, not two tokens with one space between", rank, show(merge));
    return {text.substr(0, space), text.substr(space + 1)};
  }

  int32_t known(const std::string& token, size_t rank) const {
    const auto found = ids_.find(token);
    require(found != ids_.end(), "merge {} needs the token {}, which is not in vocab", rank, show(token));
    return found->second;
  }

  void check_complete() const {
    if (parts_.kind == Kind::kCharacter) return;
    for (int byte = 0; byte < 256; ++byte) {
      const std::string spelled = spell_bytes(std::string(1, static_cast<char>(byte)));
      require(ids_.contains(spelled), "the byte 0x{:02x}, spelled {}, has no token; all 256 are needed", byte,
              show(spelled));
    }
    require(!parts_.merges.empty() || ids_.size() == 256,
            "{} tokens but no merges: tokens longer than a byte cannot be made; the merges were lost",
            ids_.size());
  }

  std::string where_;
  Json root_;
  TokenizerParts parts_;
  std::vector<const std::string*> spelled_;  // by id; null: none yet
  std::unordered_map<std::string, int32_t> ids_;
  std::map<std::string, int32_t> special_ids_;
};

std::string quote(std::string_view text) { return Json(text).dump(); }

std::string format_added_tokens(const TokenizerParts& parts) {
  std::string out;
  for (const SpecialToken& token : parts.specials) {
    out += fmt::format(
        "{}\n    {{\"id\": {}, \"content\": {}, \"single_word\": false, \"lstrip\": false, \"rstrip\": "
        "false, "
        "\"normalized\": false, \"special\": true}}",
        out.empty() ? "" : ",", token.id, quote(token.content));
  }
  return out.empty() ? "[]" : "[" + out + "\n  ]";
}

}  // namespace

TokenizerParts parse_tokenizer_json(std::string_view json, const std::string& where) {
  return Reader(json, where).read();
}

std::string format_tokenizer_json(const TokenizerParts& parts) {
  const bool characters = parts.kind == Kind::kCharacter;
  std::vector<std::string> spelled;
  for (const std::string& token : parts.tokens) spelled.push_back(characters ? token : spell_bytes(token));
  for (const SpecialToken& token : parts.specials) spelled[static_cast<size_t>(token.id)] = token.content;

  std::string pre = "null", decoder = "{\"type\": \"Fuse\"}";
  if (!characters) {
    const bool split = parts.kind == Kind::kBpe;
    pre = fmt::format(
        "{{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": {}}}",
        split);
    decoder =
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true}";
  }
  std::string out = fmt::format(
      "{{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": {},\n"
      "  \"normalizer\": null,\n  \"pre_tokenizer\": {},\n  \"post_processor\": null,\n  \"decoder\": {},\n"
      "  \"model\": {{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
      "    \"continuing_subword_prefix\": \"\",\n    \"end_of_word_suffix\": \"\",\n    \"fuse_unk\": "
      "false,\n"
      "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n    \"vocab\": {{",
      format_added_tokens(parts), pre, decoder);
  for (size_t id = 0; id < spelled.size(); ++id) {
    out += fmt::format("{}\n      {}: {}", id == 0 ? "" : ",", quote(spelled[id]), id);
  }
  out += "\n    },\n    \"merges\": [";
  for (size_t rank = 0; rank < parts.merges.size(); ++rank) {
    const Merge& merge = parts.merges[rank];
    out += fmt::format(
        "{}\n      {}", rank == 0 ? "" : ",",
        quote(spelled[static_cast<size_t>(merge.left)] + " " + spelled[static_cast<size_t>(merge.right)]));
  }
  out += parts.merges.empty() ? "]\n  }\n}\n" : "\n    ]\n  }\n}\n";
  return out;
}

}  // namespace tril
