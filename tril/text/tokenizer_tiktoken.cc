// The ranks of tiktoken: a line a token, base64 of its bytes, a space, its rank, which is its id. Merges are
// not in the file: a token is made of the two that the merges below its rank leave of its bytes.
#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/token_names.h"
#include "tril/text/tokenizer_parts.h"

namespace tril {
namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
std::optional<std::string> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && text[text.size() - 1 - padding] == '=') ++padding;
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const size_t value = kBase64.find(c);
    if (value == kBase64.npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  if ((bits & ((1u << count) - 1)) != 0) return std::nullopt;
  return out;
}

std::string to_base64(std::string_view bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < n ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (size_t i = 0; i < 4; ++i) out.push_back(i <= n ? kBase64[bits >> (18 - 6 * i) & 63] : '=');
  }
  return out;
}

class Ranks {
 public:
  Ranks(const std::vector<std::string>& tokens, const std::string& where) : tokens_(tokens), where_(where) {
    for (size_t id = 0; id < tokens.size(); ++id)
      if (!tokens[id].empty()) ranks_.emplace(tokens[id], static_cast<int32_t>(id));
  }

  // The two parts that merges of a lower rank leave of this token.
  Merge merge_of(int32_t rank) const {
    const std::string_view token = tokens_[static_cast<size_t>(rank)];
    std::vector<size_t> starts(token.size() + 1);
    for (size_t i = 0; i < starts.size(); ++i) starts[i] = i;
    std::vector<int32_t> pairs;  // the rank of parts i and i + 1 together
    const auto rank_of = [&](size_t i) {
      const auto found = ranks_.find(token.substr(starts[i], starts[i + 2] - starts[i]));
      return found == ranks_.end() || found->second >= rank ? INT32_MAX : found->second;
    };
    for (size_t i = 0; i + 2 < starts.size(); ++i) pairs.push_back(rank_of(i));
    while (!pairs.empty()) {
      const auto best = std::min_element(pairs.begin(), pairs.end());
      if (*best == INT32_MAX) break;
      const auto at = static_cast<size_t>(best - pairs.begin());
      starts.erase(starts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      pairs.erase(best);
      if (at < pairs.size()) pairs[at] = rank_of(at);
      if (at > 0) pairs[at - 1] = rank_of(at - 1);
    }
    check_data(
        starts.size() == 3,
        "{}: the token \"{}\" of rank {} is made of {} parts by the ranks below it, not of two: these are no "
        "ranks of byte-pair encoding",
        where_, printable(token, 60), rank, starts.size() - 1);
    return {ranks_.find(token.substr(0, starts[1]))->second, ranks_.find(token.substr(starts[1]))->second,
            rank};
  }

 private:
  const std::vector<std::string>& tokens_;
  const std::string& where_;
  std::unordered_map<std::string_view, int32_t> ranks_;
};

struct Line {
  std::string bytes;
  int32_t rank;
};

Line parse_line(std::string_view text, size_t number, const std::string& where) {
  const size_t space = text.find(' ');
  const auto bytes = from_base64(text.substr(0, std::min(space, text.size())));
  int32_t rank = -1;
  bool good = space != text.npos && bytes.has_value();
  if (good) {
    const std::string_view digits = text.substr(space + 1);
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    good = fault == std::errc() && end == digits.data() + digits.size() && rank >= 0;
  }
  check_data(good, "{}, line {}: \"{}\" is not base64, a space and a rank; give a .tiktoken file", where,
             number, printable(text, 60));
  check_data(!bytes->empty() && bytes->size() <= kLongestToken,
             "{}, line {}: a token of {} bytes; 1 to {} are supported", where, number, bytes->size(),
             kLongestToken);
  return {*bytes, rank};
}

}  // namespace

std::vector<Merge> merges_of_ranks(const std::vector<std::string>& tokens, const std::string& where) {
  const Ranks ranks(tokens, where);
  std::vector<Merge> merges;
  for (size_t id = 0; id < tokens.size(); ++id)
    if (tokens[id].size() > 1) merges.push_back(ranks.merge_of(static_cast<int32_t>(id)));
  return merges;
}

TokenizerParts parse_tiktoken(std::string_view text, const std::string& where) {
  TokenizerParts parts;
  parts.kind = Tokenizer::Kind::kBpe;
  std::vector<Line> lines;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(parse_line(line, number, where));
  }
  const int64_t most = std::ssize(lines) + kMostGaps;
  std::vector<bool> bytes(256);
  std::unordered_map<std::string_view, int32_t> seen;
  for (const Line& line : lines) {
    check_data(line.rank < most, "{}: rank {} of {} tokens; ranks count up without large gaps", where,
               line.rank, lines.size());
    const auto at = static_cast<size_t>(line.rank);
    if (at >= parts.tokens.size()) parts.tokens.resize(at + 1);
    check_data(parts.tokens[at].empty(), "{}: the rank {} is there twice", where, line.rank);
    check_data(seen.emplace(line.bytes, line.rank).second, "{}: the token \"{}\" is there twice", where,
               printable(line.bytes, 60));
    parts.tokens[at] = line.bytes;
    if (line.bytes.size() == 1) bytes[static_cast<unsigned char>(line.bytes[0])] = true;
  }
  const auto missing = std::find(bytes.begin(), bytes.end(), false);
  check_data(missing == bytes.end(), "{}: the byte 0x{:02x} has no rank; all 256 are needed", where,
             missing - bytes.begin());
  parts.merges = merges_of_ranks(parts.tokens, where);
  return parts;
}

std::string format_tiktoken(const TokenizerParts& parts) {
  std::vector<std::string> tokens = parts.tokens;
  for (const SpecialToken& token : parts.specials) tokens[static_cast<size_t>(token.id)].clear();
  std::string out;
  for (size_t id = 0; id < tokens.size(); ++id)
    if (!tokens[id].empty()) out += fmt::format("{} {}\n", to_base64(tokens[id]), id);
  return out;
}

}  // namespace tril
