// GPT-2's files: vocab.json, every token in the byte alphabet with its id, and merges.txt, a pair a line.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "tril/base/printable.h"
#include "tril/text/byte_alphabet.h"
#include "tril/text/split_patterns.h"
#include "tril/text/tokenizer_json_parts.h"

namespace tril {
namespace {

class Reader {
 public:
  explicit Reader(const std::string& where) : place_(where) {}

  TokenizerParts read(std::string_view vocab, std::string_view merges, std::string_view added) {
    parts_.kind = Tokenizer::Kind::kBpe;
    read_ids(place_.parse(vocab), "vocab.json");
    const size_t plain = ids_.size();
    place_.require(plain > 0, "vocab.json holds no tokens");
    if (!added.empty()) read_ids(place_.parse(added), "added_tokens.json");
    read_merges(merges);
    place_.require(!parts_.merges.empty() || plain <= 257,
                   "{} tokens but no merges: tokens longer than a byte cannot be made; the merges were lost",
                   plain);
    for (const auto& [spelled, id] : ids_) name(spelled, id);
    for (int byte = 0; byte < 256; ++byte) {
      const std::string spelled = spell_bytes(std::string(1, static_cast<char>(byte)));
      place_.require(ids_.contains(spelled),
                     "the byte 0x{:02x}, spelled {}, has no token; all 256 are needed", byte,
                     json_show(spelled));
    }
    std::sort(parts_.specials.begin(), parts_.specials.end(),
              [](const SpecialToken& a, const SpecialToken& b) { return a.id < b.id; });
    find_text_ends(parts_);
    return std::move(parts_);
  }

 private:
  void read_ids(const TokenizerJson& json, const char* file) {
    place_.require(json.is_object(), "{} is not an object of tokens and ids", file);
    const size_t most = ids_.size() + json.size() + kMostGaps;
    for (auto at = json.begin(); at != json.end(); ++at) {
      if (!at->is_number_unsigned() || at->get<uint64_t>() >= most || at.key().empty())
        place_.refuse("{}: token {} has id {}; ids of {} tokens go from 0 to {}", file, json_show(at.key()),
                      json_show(*at), most - kMostGaps, most - kMostGaps - 1);
      const auto id = at->get<int32_t>();
      if (static_cast<size_t>(id) >= taken_.size()) taken_.resize(static_cast<size_t>(id) + 1);
      place_.require(!taken_[static_cast<size_t>(id)], "{}: the id {} is there twice", file, id);
      taken_[static_cast<size_t>(id)] = true;
      if (!ids_.emplace(at.key(), id).second)
        place_.refuse("{}: the token {} is in vocab.json too", file, json_show(at.key()));
    }
  }

  // "#version: 0.2", then a pair a line; a pair may begin with #.
  void read_merges(std::string_view text) {
    NamedPairs named;
    for (size_t line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view pair = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (pair.ends_with('\r')) pair.remove_suffix(1);
      if (pair.empty() || (line == 1 && pair.starts_with("#version"))) continue;
      const size_t space = pair.find(' ');
      if (space == pair.npos || pair.find(' ', space + 1) != pair.npos)
        place_.refuse("merges.txt, line {}: \"{}\" is not two tokens with one space between", line,
                      printable(pair, 60));
      const std::string left(pair.substr(0, space)), right(pair.substr(space + 1));
      const Merge merge{known(left, line), known(right, line), known(left + right, line)};
      if (!named.add(merge))
        place_.refuse("merges.txt, line {}: \"{}\" is there twice", line, printable(pair, 60));
      parts_.merges.push_back(merge);
      made_.insert(merge.result);
    }
  }

  int32_t known(const std::string& token, size_t line) const {
    const auto found = ids_.find(token);
    if (found == ids_.end())
      place_.refuse("merges.txt, line {}: the token \"{}\" is not in vocab.json", line, printable(token, 60));
    return found->second;
  }

  // A token that is neither a byte nor made by a merge is a control token: text cannot become it.
  void name(const std::string& spelled, int32_t id) {
    parts_.tokens.resize(std::max(parts_.tokens.size(), static_cast<size_t>(id) + 1));
    const auto bytes = unspell_bytes(spelled);
    if (made_.contains(id) || (bytes && bytes->size() == 1)) {
      if (!bytes)
        place_.refuse("vocab.json: token {} is not spelled in the byte alphabet of GPT-2",
                      json_show(spelled));
      parts_.tokens[static_cast<size_t>(id)] = *bytes;
    } else {
      parts_.specials.push_back({id, spelled, true});
    }
  }

  JsonPlace place_;
  TokenizerParts parts_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<bool> taken_;
  std::set<int32_t> made_;
};

}  // namespace

TokenizerParts parse_vocab_and_merges(std::string_view vocab, std::string_view merges, std::string_view added,
                                      const std::string& where) {
  TokenizerParts parts = Reader(where).read(vocab, merges, added);
  parts.splits = {std::string(kGpt2Split)};
  return parts;
}

std::string format_vocab(const TokenizerParts& parts) {
  std::vector<std::string> spelled;
  for (const std::string& token : parts.tokens) spelled.push_back(spell_bytes(token));
  for (const SpecialToken& token : parts.specials) spelled[static_cast<size_t>(token.id)] = token.content;
  std::string out;
  for (size_t id = 0; id < spelled.size(); ++id) {
    if (!spelled[id].empty())
      out += fmt::format("{}\n{}: {}", out.empty() ? "" : ",", TokenizerJson(spelled[id]).dump(), id);
  }
  return "{" + out + "\n}\n";
}

std::string format_merges(const TokenizerParts& parts) {
  std::string out = "#version: 0.2\n";
  for (const Merge& merge : parts.merges) {
    out += spell_bytes(parts.tokens[static_cast<size_t>(merge.left)]) + " " +
           spell_bytes(parts.tokens[static_cast<size_t>(merge.right)]) + "\n";
  }
  return out;
}

}  // namespace tril
