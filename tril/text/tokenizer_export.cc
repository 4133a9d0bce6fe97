#include <algorithm>
#include <optional>
#include <tuple>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/split_patterns.h"
#include "tril/text/tokenizer_files.h"

namespace tril {
namespace {

using Kind = Tokenizer::Kind;

template <class... Args>
void require(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok)
    fail(ErrorKind::kUse, "{}; export to tokenizer.json instead",
         fmt::format(format, std::forward<Args>(args)...));
}

void check_byte_level(const TokenizerParts& parts, std::string_view name, bool reachable) {
  require(parts.kind == Kind::kBpe, "{} holds byte-level BPE, which this tokenizer is not", name);
  require(!parts.nfc, "{} cannot say that text is brought into normalization form C first", name);
  require(!parts.whole_pieces || reachable,
          "{} cannot say that a piece which is a token stays whole (ignore_merges), and here that matters",
          name);
}

void check_vocab(const TokenizerParts& parts, bool reachable) {
  constexpr std::string_view kName = "vocab.json with merges.txt";
  check_byte_level(parts, kName, reachable);
  const std::string pattern = name_of_splits(parts.splits);
  require(pattern == "gpt2", "{} is read with GPT-2's split pattern, this tokenizer has {}", kName, pattern);
  for (const SpecialToken& token : parts.specials)
    require(token.control, "{} cannot say that \"{}\" is text with an id of its own", kName,
            printable(token.content));
}

void check_tiktoken(const TokenizerParts& parts, bool reachable) {
  check_byte_level(parts, "a .tiktoken file", reachable);
  std::vector<std::string> tokens = parts.tokens;
  for (const SpecialToken& token : parts.specials) {
    require(token.control, "a .tiktoken file cannot say that \"{}\" is text with an id of its own",
            printable(token.content));
    tokens[static_cast<size_t>(token.id)].clear();
  }
  std::vector<Merge> ranked;
  try {
    ranked = merges_of_ranks(tokens, "ids as ranks");
  } catch (const Error& error) {
    fail(ErrorKind::kUse, "a .tiktoken file holds ranks alone, and these ids are none: {}", error.what());
  }
  require(ranked == parts.merges,
          "a .tiktoken file ranks merges by their ids, and those of this tokenizer are in another order");
}

// Merges as scores: each token's place by its first merge. Nothing if its merges are not all pairs that make
// it, one after another, which is what scores say.
std::optional<std::vector<float>> scores_of_merges(TokenizerParts parts) {
  const std::vector<Merge> merges = parts.merges;
  std::vector<float> scores(parts.tokens.size(), 1);  // 1: not made by a merge, or not yet
  float next = 0;
  for (size_t i = 0; i < merges.size(); ++i) {
    float& score = scores[static_cast<size_t>(merges[i].result)];
    if (score == 1)
      score = next--;
    else if (merges[i - 1].result != merges[i].result)
      return std::nullopt;
  }
  for (float& score : scores)
    if (score == 1) score = next--;
  parts.scores = scores;
  std::vector<Merge> again = merges_of_scores(parts), sorted = merges;
  const auto by_score = [&](const Merge& a, const Merge& b) {
    return std::tuple(-scores[static_cast<size_t>(a.result)], a.left) <
           std::tuple(-scores[static_cast<size_t>(b.result)], b.left);
  };
  std::sort(again.begin(), again.end(), by_score);
  std::sort(sorted.begin(), sorted.end(), by_score);
  if (again != sorted) return std::nullopt;
  return scores;
}

}  // namespace

TokenizerParts with_scores(const TokenizerParts& parts, std::string_view format) {
  TokenizerParts out = parts;
  if (parts.kind != Kind::kSentencePiece || !parts.scores.empty()) return out;
  const auto scores = scores_of_merges(parts);
  require(scores.has_value(), "{} needs scores, and no scores say what the merges of this tokenizer do",
          format);
  out.scores = *scores;
  return out;
}

namespace {

void check_llama2(const TokenizerParts& parts) {
  constexpr std::string_view kName = "llama2.c's tokenizer.bin";
  require(parts.kind == Kind::kSentencePiece,
          "{} holds SentencePiece's BPE with scores, which this tokenizer is not", kName);
  with_scores(parts, kName);
  require(parts.prefix == SpacePrefix::kAlways && parts.strips_space,
          "{} always puts a space before the text", kName);
  bool usual = parts.specials.size() == 3;
  for (size_t i = 0; usual && i < 3; ++i)
    usual = parts.specials[i].id == static_cast<int32_t>(i) && parts.specials[i].control;
  require(
      usual && parts.unknown == 0 && parts.begin_of_text == 1,
      "{} has three special tokens, 0 unknown, 1 begin and 2 end; this tokenizer has {} others or elsewhere",
      kName, parts.specials.size());
  for (size_t byte = 0; byte < 256; ++byte)
    require(parts.byte_tokens[byte] == static_cast<int32_t>(byte) + 3,
            "{} has the tokens of bytes at 3 to 258", kName);
  for (size_t id = 3; id < parts.tokens.size(); ++id)
    require(!parts.tokens[id].empty(), "{} cannot leave out the id {}", kName, id);
}

void check_gguf(const TokenizerParts& parts, bool reachable) {
  constexpr std::string_view kName = "a GGUF file";
  if (parts.kind == Kind::kSentencePiece) {
    with_scores(parts, kName);
    require(parts.prefix == SpacePrefix::kAlways || parts.prefix == SpacePrefix::kNone,
            "{} cannot say that a space is put before the text unless there is one", kName);
    return;
  }
  const std::string pattern = name_of_splits(parts.splits);
  check_byte_level(parts, kName, reachable || pattern == "llama3");
  require(!parts.merges.empty(), "{} needs merges, and this tokenizer has none", kName);
  require(gguf_knows_pattern(pattern), "{} names its split pattern, and has no name for {}", kName, pattern);
  require(pattern != "llama3" || parts.whole_pieces || reachable,
          "{} with the pattern llama3 keeps a piece that is a token whole, and here that matters", kName);
}

}  // namespace

void check_expressible(const TokenizerParts& parts, TokenizerFormat format, bool reachable) {
  switch (format) {
    case TokenizerFormat::kTokenizerJson:
      return;
    case TokenizerFormat::kVocabAndMerges:
      return check_vocab(parts, reachable);
    case TokenizerFormat::kTiktoken:
      return check_tiktoken(parts, reachable);
    case TokenizerFormat::kLlama2:
      return check_llama2(parts);
    case TokenizerFormat::kGguf:
      return check_gguf(parts, reachable);
  }
}

void write_tokenizer(const TokenizerParts& parts, TokenizerFormat format, const Path& path) {
  switch (format) {
    case TokenizerFormat::kTokenizerJson:
      return write_file_atomic(path, format_tokenizer_json(parts));
    case TokenizerFormat::kVocabAndMerges:
      make_directories(path);
      write_file_atomic(path / "merges.txt", format_merges(parts));
      return write_file_atomic(path / "vocab.json", format_vocab(parts));
    case TokenizerFormat::kTiktoken:
      return write_file_atomic(path, format_tiktoken(parts));
    case TokenizerFormat::kLlama2:
      return write_file_atomic(path, format_llama2_tokenizer(with_scores(parts, "tokenizer.bin")));
    case TokenizerFormat::kGguf:
      return write_file_atomic(path, format_gguf_tokenizer(with_scores(parts, "a GGUF file")));
  }
}

}  // namespace tril
