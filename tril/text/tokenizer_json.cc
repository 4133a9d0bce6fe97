#include <algorithm>
#include <map>
#include <unordered_map>

#include "tril/text/byte_alphabet.h"
#include "tril/text/token_names.h"
#include "tril/text/tokenizer_json_parts.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

using Json = TokenizerJson;
using Kind = Tokenizer::Kind;

class Reader {
 public:
  Reader(std::string_view text, std::string where) : place_(std::move(where)), root_(place_.parse(text)) {}

  TokenizerParts read() {
    place_.require(root_.is_object(), "holds no JSON object; a tokenizer.json is needed");
    const Json& model = json_member(root_, "model");
    place_.require(model.is_object(),
                   "has no \"model\"; a tokenizer.json of Hugging Face's tokenizers is needed");
    check_model(model);
    read_tokenizer_pipeline(root_, place_, parts_);
    read_tokens(model);
    read_merges(model);
    check_complete();
    place_.require(parts_.begin_of_text < std::ssize(parts_.tokens),
                   "post_processor adds the id {}, which has no token", parts_.begin_of_text);
    find_text_ends(parts_);
    return std::move(parts_);
  }

 private:
  void check_model(const Json& model) {
    const Json& type = json_member(model, "type");
    place_.require(type.is_null() || type == "BPE", "model {} is not supported, only \"BPE\"",
                   json_show(type));
    place_.require(json_member(model, "merges").is_array(), "model \"merges\" is not a list");
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json& value = json_member(model, key);
      place_.require(value.is_null() || value == "" || value == 0.0, "model \"{}\" {} is not supported", key,
                     json_show(value));
    }
    for (const char* key : {"byte_fallback", "ignore_merges"}) {
      const Json& value = json_member(model, key);
      place_.require(value.is_null() || value.is_boolean(), "model \"{}\" {} is not true or false", key,
                     json_show(value));
    }
    parts_.whole_pieces = json_member(model, "ignore_merges") == true;
  }

  void read_tokens(const Json& model) {
    const Json& vocab = json_member(model, "vocab");
    place_.require(vocab.is_object() && !vocab.empty(), "model \"vocab\" is not an object with tokens");
    const Json& added = json_member(root_, "added_tokens");
    place_.require(added.is_null() || added.is_array(), "\"added_tokens\" is not a list");
    const size_t most = vocab.size() + added.size() + kMostGaps;
    for (const Json& token : added) read_added(token, most);
    for (auto at = vocab.begin(); at != vocab.end(); ++at) {
      const std::string& spelled = at.key();
      const int32_t number = read_id(*at, spelled, most);
      if (const auto special = specials_.find(spelled); special != specials_.end()) {
        place_.require(special->second.id == number, "{} has id {} in added_tokens, {} in vocab",
                       json_show(spelled), special->second.id, number);
      } else {
        put(number, spelled);
        ids_.emplace(spelled, number);
      }
    }
    name_unknown(model);
    for (const auto& [content, token] : specials_) parts_.specials.push_back(token);
    std::sort(parts_.specials.begin(), parts_.specials.end(),
              [](const SpecialToken& a, const SpecialToken& b) { return a.id < b.id; });
    parts_.joinable.assign(parts_.kind == Kind::kSentencePiece ? spelled_.size() : 0, false);
    for (size_t id = 0; id < spelled_.size(); ++id) parts_.tokens.push_back(bytes_of(id));
  }

  void read_added(const Json& token, size_t most) {
    const Json& content = json_member(token, "content");
    place_.require(content.is_string() && content != "", "added_tokens: {} has no \"content\"",
                   json_show(token));
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      const Json& value = json_member(token, key);
      place_.require(value.is_null() || value == false,
                     "added token {} with \"{}\" {} is not supported, only false", json_show(content), key,
                     json_show(value));
    }
    const bool normalizes = parts_.nfc || parts_.kind == Kind::kSentencePiece;
    place_.require(!normalizes || json_member(token, "normalized") != true,
                   "added token {} with \"normalized\" true is not supported beside this normalizer",
                   json_show(content));
    const Json& special = json_member(token, "special");
    place_.require(special.is_boolean(), "added token {} has no \"special\" true or false",
                   json_show(content));
    const auto text = content.get<std::string>();
    const int32_t id = read_id(json_member(token, "id"), text, most);
    const auto [at, fresh] = specials_.emplace(text, SpecialToken{id, text, special.get<bool>()});
    place_.require(fresh, "added_tokens: {} is there twice", json_show(content));
    put(id, at->first);
  }

  int32_t read_id(const Json& id, const std::string& token, size_t most) const {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= most || id.get<uint64_t>() >= INT32_MAX)
      place_.refuse("token {} has id {}; ids of {} tokens go from 0 to {}", json_show(token), json_show(id),
                    most - kMostGaps, most - kMostGaps - 1);
    return id.get<int32_t>();
  }

  // `token` is a key that stays where it is.
  void put(int32_t id, const std::string& token) {
    const auto at = static_cast<size_t>(id);
    if (at >= spelled_.size()) spelled_.resize(at + 1);
    if (spelled_[at] != nullptr)
      place_.refuse("tokens {} and {} have the same id {}", json_show(*spelled_[at]), json_show(token), id);
    spelled_[at] = &token;
  }

  // SentencePiece's token for what has none: text needs it never, since every byte has a token.
  void name_unknown(const Json& model) {
    const Json& name = json_member(model, "unk_token");
    if (parts_.kind != Kind::kSentencePiece || !name.is_string()) return;
    const auto text = name.get<std::string>();
    const auto special = specials_.find(text);
    const auto plain = ids_.find(text);
    place_.require(special != specials_.end() || plain != ids_.end(), "unk_token {} is no token",
                   json_show(name));
    parts_.unknown = special != specials_.end() ? special->second.id : plain->second;
    specials_.emplace(text, SpecialToken{parts_.unknown, text, true});
  }

  std::string bytes_of(size_t id) {
    if (spelled_[id] == nullptr) return "";
    const std::string& spelled = *spelled_[id];
    if (const auto special = specials_.find(spelled); special != specials_.end())
      return special->second.control ? "" : spelled;
    if (parts_.kind == Kind::kSentencePiece) return sentencepiece_bytes(id, spelled);
    if (parts_.kind == Kind::kCharacter) {
      place_.require(utf8_length(spelled, 0) == static_cast<int>(spelled.size()) && !spelled.empty(),
                     "token {} is not one character, but there is no pre_tokenizer and there are no merges",
                     json_show(spelled));
      return spelled;
    }
    const auto bytes = unspell_bytes(spelled);
    if (!bytes || bytes->empty())
      place_.refuse("token {} is not spelled in the byte alphabet of ByteLevel", json_show(spelled));
    return *bytes;
  }

  std::string sentencepiece_bytes(size_t id, const std::string& spelled) {
    if (const auto byte = byte_token_value(spelled)) {
      parts_.byte_tokens[*byte] = static_cast<int32_t>(id);
      return std::string(1, static_cast<char>(*byte));
    }
    if (spelled.empty() || spelled.size() > kLongestToken)
      place_.refuse("token {} has {} bytes; 1 to {} are supported", json_show(spelled), spelled.size(),
                    kLongestToken);
    // Text has no space left where U+2581 takes its place.
    parts_.joinable[id] = !parts_.metaspace || spelled.find(' ') == std::string::npos;
    return parts_.metaspace ? with_replaced(spelled, kMetaspaceCharacter, " ") : spelled;
  }

  void read_merges(const Json& model) {
    const Json& merges = json_member(model, "merges");
    NamedPairs named;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const auto [left, right] = split_merge(merges[rank], rank);
      const Merge merge{known(left, rank), known(right, rank), known(left + right, rank)};
      if (!named.add(merge)) place_.refuse("merge {} {} is there twice", rank, json_show(merges[rank]));
      parts_.merges.push_back(merge);
    }
  }

  // "a b", or ["a", "b"]
  std::pair<std::string, std::string> split_merge(const Json& merge, size_t rank) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    if (!merge.is_string())
      place_.refuse("merge {} is {}, not \"a b\" or [\"a\", \"b\"]", rank, json_show(merge));
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
      place_.refuse("merge {} is {}, not two tokens with one space between", rank, json_show(merge));
    return {text.substr(0, space), text.substr(space + 1)};
  }

  int32_t known(const std::string& token, size_t rank) const {
    const auto found = ids_.find(token);
    if (found == ids_.end())
      place_.refuse("merge {} needs the token {}, which is not in vocab", rank, json_show(token));
    return found->second;
  }

  void check_complete() const {
    if (parts_.kind == Kind::kCharacter) return;
    const bool fallback = parts_.kind == Kind::kSentencePiece;
    for (int byte = 0; byte < 256; ++byte) {
      const std::string spelled = fallback ? byte_token_name(static_cast<uint8_t>(byte))
                                           : spell_bytes(std::string(1, static_cast<char>(byte)));
      place_.require(ids_.contains(spelled) || (!fallback && !is_needed_byte(byte)),
                     "the byte 0x{:02x}, spelled {}, has no token; all {} are needed", byte,
                     json_show(spelled), fallback ? "256" : "of ASCII");
    }
    place_.require(fallback || !parts_.merges.empty() || ids_.size() == 256,
                   "{} tokens but no merges: tokens longer than a byte cannot be made; the merges were lost",
                   ids_.size());
  }

  JsonPlace place_;
  Json root_;
  TokenizerParts parts_;
  std::vector<const std::string*> spelled_;  // by id; null: none
  std::unordered_map<std::string, int32_t> ids_;
  std::map<std::string, SpecialToken> specials_;  // by content
};

}  // namespace

TokenizerParts parse_tokenizer_json(std::string_view json, const std::string& where) {
  return Reader(json, where).read();
}

}  // namespace tril
