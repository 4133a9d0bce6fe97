#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/bpe_train.h"
#include "tril/text/byte_alphabet.h"
#include "tril/text/split_patterns.h"
#include "tril/text/tokenizer_files.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

void add_special(TokenizerParts& parts, const std::string& name) {
  const bool there = std::any_of(parts.specials.begin(), parts.specials.end(),
                                 [&](const SpecialToken& token) { return token.content == name; });
  check_use(!name.empty() && !there && !first_invalid_utf8(name),
            "the special token \"{}\" is empty, no text, or there twice", printable(name));
  parts.specials.push_back({static_cast<int32_t>(parts.tokens.size()), name, true});
  parts.tokens.emplace_back();
}

// By name, or a regular expression.
std::vector<std::string> splits_asked_for(const std::string& pattern) {
  if (const auto known = splits_of_name(pattern)) return *known;
  const bool looks_like_name =
      pattern.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") == std::string::npos;
  check_use(!looks_like_name, "the split pattern '{}' is unknown; give one of {}, or a regular expression",
            printable(pattern, 60), fmt::join(split_names(), ", "));
  try {
    pretokenizer_of({pattern});
  } catch (const Error& error) {
    fail(ErrorKind::kUse, "{}", error.what());
  }
  return {pattern};
}

}  // namespace

TokenizerParts train_bpe_parts(const BpeRecipe& recipe, Executor& executor,
                               FunctionRef<void(BpeTrainer&)> feed) {
  const int64_t least = 256 + std::ssize(recipe.specials);
  check_use(
      recipe.vocabulary >= least && recipe.vocabulary <= kMostBpeIds,
      "bpe: a vocabulary of {} is impossible; at least {} (256 bytes and {} special tokens) are needed, "
      "and at most {} are supported",
      recipe.vocabulary, least, recipe.specials.size(), kMostBpeIds);
  TokenizerParts parts;
  parts.kind = Tokenizer::Kind::kBpe;
  parts.splits = splits_asked_for(recipe.pattern);
  ByteIds byte_ids{};
  for (const uint8_t byte : byte_alphabet().order) {
    byte_ids[byte] = static_cast<int32_t>(parts.tokens.size());
    parts.tokens.emplace_back(1, static_cast<char>(byte));
  }
  BpeTrainer trainer({.merges = recipe.vocabulary - least,
                      .min_count = recipe.min_count,
                      .pretokenizer = pretokenizer_of(parts.splits)},
                     executor);
  feed(trainer);
  parts.merges = trainer.train(byte_ids);
  for (const Merge& merge : parts.merges) {
    parts.tokens.push_back(parts.tokens[static_cast<size_t>(merge.left)] +
                           parts.tokens[static_cast<size_t>(merge.right)]);
  }
  for (const std::string& name : recipe.specials) add_special(parts, name);
  find_text_ends(parts);
  return parts;
}

}  // namespace tril
