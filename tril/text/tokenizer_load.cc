// Which format a file or folder has, and what is not in the file itself.
#include <algorithm>
#include <filesystem>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/split_patterns.h"
#include "tril/text/tokenizer_files.h"

namespace tril {
namespace {

std::string name_of(const Path& path) { return printable(path.native(), 4096); }

bool is_file(const Path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

// What tiktoken knows of its files by their names.
struct Encoding {
  std::string_view name, pattern;
  std::vector<SpecialToken> specials;
};

const Encoding* encoding_of(std::string_view file_name) {
  static const std::vector<Encoding> all = {
      {"r50k", "gpt2", {{50256, "<|endoftext|>", true}}},
      {"gpt2", "gpt2", {{50256, "<|endoftext|>", true}}},
      {"p50k", "gpt2", {{50256, "<|endoftext|>", true}}},
      {"cl100k",
       "cl100k",
       {{100257, "<|endoftext|>", true},
        {100258, "<|fim_prefix|>", true},
        {100259, "<|fim_middle|>", true},
        {100260, "<|fim_suffix|>", true},
        {100276, "<|endofprompt|>", true}}},
      {"o200k", "o200k", {{199999, "<|endoftext|>", true}, {200018, "<|endofprompt|>", true}}}};
  for (const Encoding& encoding : all)
    if (file_name.starts_with(encoding.name)) return &encoding;
  return nullptr;
}

std::vector<std::string> splits_named(std::string_view pattern) {
  const auto splits = splits_of_name(pattern);
  check_use(splits.has_value(), "the split pattern '{}' is unknown; give one of {}", printable(pattern, 60),
            fmt::join(split_names(), ", "));
  return *splits;
}

void add_specials(TokenizerParts& parts, const std::vector<SpecialToken>& specials,
                  const std::string& where) {
  for (const SpecialToken& token : specials) {
    const auto id = static_cast<size_t>(token.id);
    if (id >= parts.tokens.size()) parts.tokens.resize(id + 1);
    check_data(parts.tokens[id].empty(),
               "{}: the id {} of {} is an ordinary token here; rename the file, and give "
               "its pattern by name",
               where, id, token.content);
    parts.specials.push_back(token);
  }
}

void check_pattern_not_needed(const TokenizerParts& parts, const std::string& where,
                              std::string_view pattern) {
  check_use(pattern.empty() || pattern == name_of_splits(parts.splits),
            "{}: the file says how text is split ({}); leave --pattern out", where,
            name_of_splits(parts.splits));
}

TokenizerParts load_tiktoken(std::string_view text, const Path& path, std::string_view pattern) {
  const std::string where = name_of(path), file = path.filename().native();
  const Encoding* const encoding = encoding_of(file);
  check_data(
      encoding != nullptr || !pattern.empty(),
      "{}: a .tiktoken file does not hold its split pattern; give it by name (--pattern cl100k), or name the "
      "file after its encoding: r50k, p50k, cl100k, o200k",
      where);
  TokenizerParts parts = parse_tiktoken(text, where);
  parts.splits = splits_named(pattern.empty() ? encoding->pattern : pattern);
  if (encoding != nullptr && (pattern.empty() || pattern == encoding->pattern)) {
    // A file cut down or trained anew under a known name has fewer ranks: its special token comes last.
    const bool whole = std::ssize(parts.tokens) > encoding->specials.front().id - 2;
    if (whole)
      add_specials(parts, encoding->specials, where);
    else
      add_specials(parts, {{static_cast<int32_t>(parts.tokens.size()), std::string(kEndOfText), true}},
                   where);
  } else {
    add_specials(parts, {{static_cast<int32_t>(parts.tokens.size()), std::string(kEndOfText), true}}, where);
  }
  find_text_ends(parts);
  return parts;
}

TokenizerParts load_vocab(const Path& path, std::string_view pattern) {
  // "gpt2_vocab.json" goes with "gpt2_merges.txt".
  const auto beside = [&](std::string_view end) {
    std::string name = path.filename().native();
    for (const std::string_view old : {"vocab.json", "merges.txt"})
      if (name.ends_with(old)) name.erase(name.size() - old.size());
    return path.parent_path() / (name + std::string(end));
  };
  const Path vocab = beside("vocab.json"), merges = beside("merges.txt"), added = beside("added_tokens.json");
  for (const Path& file : {vocab, merges})
    check_data(is_file(file), "{}: {} is not there; vocab.json and merges.txt belong together", name_of(path),
               name_of(file));
  TokenizerParts parts = parse_vocab_and_merges(read_text_file(vocab), read_text_file(merges),
                                                is_file(added) ? read_text_file(added) : "", name_of(path));
  if (!pattern.empty()) parts.splits = splits_named(pattern);
  return parts;
}

TokenizerParts load_gguf(std::string_view bytes, const Path& path, std::string_view pattern) {
  TokenizerParts parts = parse_gguf_tokenizer(bytes, name_of(path));
  if (parts.kind != Tokenizer::Kind::kBpe || !parts.splits.empty()) {
    check_pattern_not_needed(parts, name_of(path), pattern);
    return parts;
  }
  if (!pattern.empty()) parts.splits = splits_named(pattern);
  check_data(
      !parts.splits.empty() || pattern == "none",
      "{}: there is no field tokenizer.ggml.pre, so the split pattern is unknown; give it by name (--pattern "
      "gpt2)",
      name_of(path));
  return parts;
}

Path file_in(const Path& folder) {
  for (const char* name : {"tokenizer.json", "vocab.json", "tokenizer.bin"})
    if (is_file(folder / name)) return folder / name;
  std::vector<Path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string ending = entry.path().extension().native(), name = entry.path().filename().native();
    if (ending == ".tiktoken" || ending == ".gguf" || name.ends_with("vocab.json"))
      found.push_back(entry.path());
  }
  check_data(
      !found.empty(),
      "{}: no tokenizer is in this folder; a tokenizer.json, vocab.json with merges.txt, tokenizer.bin, "
      ".tiktoken or .gguf is",
      name_of(folder));
  std::sort(found.begin(), found.end());
  check_data(found.size() == 1,
             "{}: there are several tokenizers in this folder, {} and {} among them; name the file",
             name_of(folder), name_of(found[0].filename()),
             found.size() > 1 ? name_of(found[1].filename()) : "");
  return found[0];
}

bool is_pickle_or_protobuf(std::string_view start, const Path& path) {
  return path.extension() == ".model" && !start.starts_with("IQ==");
}

}  // namespace

TokenizerParts load_tokenizer_parts(const Path& path, std::string_view pattern) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return load_tokenizer_parts(file_in(path), pattern);
  const std::string name = path.filename().native();
  if (name.ends_with("merges.txt")) return load_vocab(path, pattern);
  const MappedFile file(path);
  const std::string_view text = file.text();
  const size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  TokenizerParts parts;
  if (text.starts_with("GGUF")) {
    return load_gguf(text, path, pattern);
  } else if (name.ends_with("vocab.json")) {
    return load_vocab(path, pattern);
  } else if (path.extension() == ".tiktoken" || text.starts_with("IQ== 0")) {
    return load_tiktoken(text, path, pattern);
  } else if (path.extension() == ".bin") {
    parts = parse_llama2_tokenizer(text, name_of(path));
  } else {
    check_data(
        !is_pickle_or_protobuf(text, path),
        "{}: SentencePiece's own .model is not supported; give the tokenizer.json, tokenizer.bin or .gguf of "
        "the model",
        name_of(path));
    check_data(
        path.extension() == ".json" || (first != text.npos && text[first] == '{'),
        "{}: this is no tokenizer that is known: tokenizer.json, vocab.json and merges.txt, .tiktoken, "
        "tokenizer.bin of llama2.c, .gguf",
        name_of(path));
    parts = parse_tokenizer_json(text, name_of(path));
  }
  check_pattern_not_needed(parts, name_of(path), pattern);
  return parts;
}

}  // namespace tril
