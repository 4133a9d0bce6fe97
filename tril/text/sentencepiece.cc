#include "tril/text/sentencepiece.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "tril/base/error.h"
#include "tril/text/token_names.h"
#include "tril/text/tokenizer_parts.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// A token that could only be made across "x ".
bool crosses_into_space(std::string_view token) {
  for (size_t i = 1; i < token.size(); ++i)
    if (token[i] == ' ' && token[i - 1] != ' ') return true;
  return false;
}

std::unordered_map<std::string_view, int32_t> joinable_tokens(const TokenizerParts& parts) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < parts.tokens.size(); ++id)
    if (parts.joinable[id]) ids.emplace(parts.tokens[id], static_cast<int32_t>(id));
  return ids;
}

// Calls `found` with each pair of joinable tokens that makes the joinable token `id`.
template <class Found>
void for_each_pair(const std::unordered_map<std::string_view, int32_t>& ids, std::string_view token,
                   Found&& found) {
  for (size_t cut = 1; cut < token.size(); ++cut) {
    const auto left = ids.find(token.substr(0, cut));
    if (left == ids.end()) continue;
    const auto right = ids.find(token.substr(cut));
    if (right != ids.end()) found(left->second, right->second);
  }
}

// Place of each joinable id by score, the highest first; equal scores share a place.
std::vector<int32_t> ranks_of_scores(const TokenizerParts& parts) {
  std::vector<float> scores;
  for (size_t id = 0; id < parts.tokens.size(); ++id)
    if (parts.joinable[id]) scores.push_back(parts.scores[id]);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<int32_t> ranks(parts.tokens.size());
  for (size_t id = 0; id < parts.tokens.size(); ++id) {
    const auto place = std::lower_bound(scores.begin(), scores.end(), parts.scores[id], std::greater<>());
    ranks[id] = static_cast<int32_t>(place - scores.begin());
  }
  return ranks;
}

}  // namespace

std::vector<Merge> merges_of_scores(const TokenizerParts& parts) {
  if (parts.scores.empty()) return parts.merges;
  const auto ids = joinable_tokens(parts);
  std::vector<int32_t> order;
  for (const auto& [token, id] : ids) order.push_back(id);
  const auto score = [&](int32_t id) { return parts.scores[static_cast<size_t>(id)]; };
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return score(a) != score(b) ? score(a) > score(b) : a < b; });
  std::vector<Merge> merges;
  for (const int32_t id : order) {
    const size_t before = merges.size();
    for_each_pair(ids, parts.tokens[static_cast<size_t>(id)], [&](int32_t left, int32_t right) {
      merges.push_back({left, right, id});
    });
    check_use(
        before == 0 || before == merges.size() || score(merges[before - 1].result) != score(id),
        "tokens {} and {} have the same score {}: which is joined first depends on the text, and a list of "
        "merges cannot say that",
        before == 0 ? 0 : merges[before - 1].result, id, score(id));
  }
  return merges;
}

SentencePieceEncoder::SentencePieceEncoder(const TokenizerParts& parts) : parts_(parts) {
  const auto ids = joinable_tokens(parts);
  for (const auto& [token, id] : ids) {
    if (crosses_into_space(token)) words_are_apart_ = false;
    if (utf8_length(token, 0) == static_cast<int>(token.size()))
      characters_.emplace(utf8_decode(token, 0), id);
  }
  if (parts.scores.empty()) {
    for (size_t rank = 0; rank < parts.merges.size(); ++rank) {
      const Merge& merge = parts.merges[rank];
      joins_.try_emplace(pair(merge.left, merge.right), Join{static_cast<int32_t>(rank), merge.result});
    }
    return;
  }
  const std::vector<int32_t> ranks = ranks_of_scores(parts);
  for (const auto& [token, id] : ids) {
    for_each_pair(ids, token, [&, to = id](int32_t left, int32_t right) {
      joins_.emplace(pair(left, right), Join{ranks[static_cast<size_t>(to)], to});
    });
  }
}

// Whether a space is put in front.
bool SentencePieceEncoder::has_prefix(std::string_view text, bool first) const {
  const bool starts_with_space =
      text.starts_with(' ') || (parts_.metaspace && text.starts_with(kMetaspaceCharacter));
  return parts_.prefix == SpacePrefix::kAlways ||
         (parts_.prefix == SpacePrefix::kUnlessSpace && !starts_with_space) ||
         (parts_.prefix == SpacePrefix::kFirstUnlessSpace && first && !starts_with_space);
}

// Words seen before in this call, a bounded number of them.
class SentencePieceEncoder::Words {
 public:
  explicit Words(const SentencePieceEncoder& encoder) : encoder_(encoder) {}

  void encode(std::string_view word, std::vector<int32_t>& out) {
    if (word.size() > kLongest) return encoder_.encode_word(word, symbols_, out);
    const auto found = places_.find(word);
    if (found != places_.end()) {
      const auto [begin, end] = found->second;
      for (size_t i = begin; i < end; ++i) {
        const int32_t id = out[i];
        out.push_back(id);
      }
      return;
    }
    const size_t begin = out.size();
    encoder_.encode_word(word, symbols_, out);
    if (places_.size() < kMost) places_.emplace(word, std::pair(begin, out.size()));
  }

 private:
  static constexpr size_t kLongest = 64, kMost = size_t{1} << 16;
  const SentencePieceEncoder& encoder_;
  std::vector<Symbol> symbols_;
  std::unordered_map<std::string_view, std::pair<size_t, size_t>> places_;  // in `out`
};

void SentencePieceEncoder::encode(std::string_view text, bool first, std::vector<int32_t>& out) const {
  if (text.empty()) return;
  if (!has_prefix(text, first)) return encode_rest(text, out);
  encode_rest(" " + std::string(text), out);
}

void SentencePieceEncoder::encode_rest(std::string_view text, std::vector<int32_t>& out) const {
  if (!parts_.metaspace) return encode_prepared(text, out);
  encode_prepared(with_replaced(text, kMetaspaceCharacter, " "), out);
}

// Before the last space that follows something else.
size_t SentencePieceEncoder::last_safe_cut(std::string_view text) const {
  if (!words_are_apart_) return 0;
  for (size_t at = text.size(); at-- > 1;) {
    if (text[at] != ' ' || text[at - 1] == ' ') continue;
    if (!parts_.metaspace || !text.substr(0, at).ends_with(kMetaspaceCharacter)) return at;
  }
  return 0;
}

void SentencePieceEncoder::encode_prepared(std::string_view all, std::vector<int32_t>& out) const {
  Words words(*this);
  for (size_t at = 0; at < all.size();) {
    size_t end = all.size();
    if (words_are_apart_) {
      end = all.find_first_not_of(' ', at);
      end = all.find(' ', end);
      if (end == std::string_view::npos) end = all.size();
    }
    words.encode(all.substr(at, end - at), out);
    at = end;
  }
}

void SentencePieceEncoder::start_symbols(std::string_view word, std::vector<Symbol>& symbols) const {
  symbols.clear();
  const auto add = [&](int32_t id) {
    const auto at = static_cast<uint32_t>(symbols.size());
    symbols.push_back({id, kNone, at - 1, at + 1});
  };
  for (size_t at = 0; at < word.size();) {
    const int length = utf8_length(word, at);
    const auto known = length == 0 ? characters_.end() : characters_.find(utf8_decode(word, at));
    const size_t end = at + static_cast<size_t>(std::max(length, 1));
    if (known != characters_.end()) {
      add(known->second);
      at = end;
    }
    for (; at < end; ++at) add(parts_.byte_tokens[static_cast<unsigned char>(word[at])]);
  }
}

uint32_t SentencePieceEncoder::rank_of(const std::vector<Symbol>& symbols, uint32_t at) const {
  const uint32_t next = symbols[at].next;
  if (next >= symbols.size()) return kNone;
  const auto found = joins_.find(pair(symbols[at].id, symbols[next].id));
  return found == joins_.end() ? kNone : static_cast<uint32_t>(found->second.rank);
}

// A linked list of symbols and a heap of (rank, place): n log n.
void SentencePieceEncoder::encode_word(std::string_view word, std::vector<Symbol>& symbols,
                                       std::vector<int32_t>& out) const {
  check_use(word.size() < kNone, "text: {} bytes without a break; cut it below {} bytes", word.size(), kNone);
  start_symbols(word, symbols);
  const auto n = static_cast<uint32_t>(symbols.size());
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heap;
  const auto look = [&](uint32_t at) {
    symbols[at].rank = rank_of(symbols, at);
    if (symbols[at].rank != kNone) heap.push(uint64_t{symbols[at].rank} << 32 | at);
  };
  for (uint32_t i = 0; i + 1 < n; ++i) look(i);
  while (!heap.empty()) {
    const uint64_t top = heap.top();
    heap.pop();
    const auto at = static_cast<uint32_t>(top);
    Symbol& left = symbols[at];
    if (left.rank != static_cast<uint32_t>(top >> 32)) continue;
    Symbol& right = symbols[left.next];
    left.id = joins_.find(pair(left.id, right.id))->second.result;
    left.next = right.next;
    right.rank = kNone;
    if (left.next < n) symbols[left.next].previous = at;
    look(at);
    if (at > 0) look(left.previous);
  }
  for (uint32_t i = 0; i < n; i = symbols[i].next) out.push_back(symbols[i].id);
}

}  // namespace tril
