// tril tokenizer encode and decode.
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cstdio>

#include "cli/output.h"
#include "cli/tokenizer_command.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/tokenizer.h"

namespace tril::cli {
namespace {

constexpr const char* kEncodeExamples =
    "  tril tokenizer encode --tokenizer runs/book chapter.txt > ids.txt\n"
    "  echo -n \"Hello, world\" | tril tokenizer encode --tokenizer cl100k_base.tiktoken -\n"
    "  tril tokenizer encode --tokenizer tokenizer.json --special chat.txt     <|endoftext|> becomes its id";

constexpr const char* kDecodeExamples =
    "  tril tokenizer decode --tokenizer runs/book ids.txt > chapter.txt\n"
    "  echo 9906 11 1917 | tril tokenizer decode --tokenizer cl100k_base.tiktoken";

constexpr const char* kPatternHelp =
    "split pattern of a file that does not say it (.tiktoken, vocab.json): gpt2, cl100k, o200k, llama3, "
    "qwen2, ...";

std::string read_input(const std::string& name) {
  return name == "-" ? read_standard_input() : read_text_file(name);
}

Tokenizer load(const std::string& command, const std::string& file, const std::string& pattern) {
  check_use(!file.empty(),
            "tril tokenizer {}: no tokenizer given; add --tokenizer FILE (a file, or the folder of a model)",
            command);
  return Tokenizer::load(file, pattern);
}

void write_ids(const std::vector<int32_t>& ids, Output& output) {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) text += ' ';
    fmt::format_to(std::back_inserter(text), "{}", ids[i]);
    if (text.size() > 1 << 16) {
      output.write(text);
      text.clear();
    }
  }
  output.write(text += '\n');
}

std::vector<int32_t> parse_ids(std::string_view text, const std::string& where) {
  std::vector<int32_t> ids;
  size_t at = 0;
  const auto is_space = [&](size_t i) { return std::isspace(static_cast<unsigned char>(text[i])) != 0; };
  while (true) {
    while (at < text.size() && (is_space(at) || text[at] == ',')) ++at;
    if (at == text.size()) return ids;
    int32_t id = 0;
    const auto [end, fault] = std::from_chars(text.data() + at, text.data() + text.size(), id);
    const auto next = static_cast<size_t>(end - text.data());
    check_data(fault == std::errc() && (next == text.size() || is_space(next) || text[next] == ','),
               "{}: \"{}\" at byte {} is not an id; give whole numbers with spaces between", where,
               printable(text.substr(at, 20)), at);
    ids.push_back(id);
    at = next;
  }
}

}  // namespace

int tokenizer_encode(const Arguments& words) {
  std::string file, tokenizer_file, pattern, out = "-";
  bool special = false, begin = false;
  CommandLine line("tokenizer encode", "Writes the ids of a text, with spaces between.", kEncodeExamples);
  line.positional("FILE", file, "text, - for standard input");
  line.text("--tokenizer", tokenizer_file, "FILE", "the tokenizer: a file, or the folder of a model");
  line.flag("--special", special,
            "special tokens in the text become their ids (else they are ordinary text)");
  line.flag("--begin", begin,
            "put the id that the tokenizer's models start every text with in front, if there is one");
  line.text("--pattern", pattern, "NAME", kPatternHelp);
  line.text("--out", out, "FILE", "file to write (standard output)");
  if (!line.parse(words)) return 0;
  check_use(!file.empty(),
            "tril tokenizer encode: no text given; usage: tril tokenizer encode --tokenizer FILE FILE|-");
  if (out != "-") refuse_file_of_model(out);

  const Tokenizer tokenizer = load("encode", tokenizer_file, pattern);
  const std::string text = read_input(file);
  std::vector<int32_t> ids = special ? tokenizer.encode_with_specials(text) : tokenizer.encode(text);
  if (begin && tokenizer.begin_of_text() >= 0) ids.insert(ids.begin(), tokenizer.begin_of_text());
  const int64_t ordinary = special ? 0 : tokenizer.count_specials(text);
  if (ordinary > 0)
    fmt::print(stderr, "tril: {} special {} in the text taken for ordinary text; --special makes {} of {}\n",
               ordinary, ordinary == 1 ? "token" : "tokens", ordinary == 1 ? "an id" : "ids",
               ordinary == 1 ? "it" : "them");
  Output output(out);
  write_ids(ids, output);
  output.commit();
  return 0;
}

int tokenizer_decode(const Arguments& words) {
  std::string file = "-", tokenizer_file, pattern, out = "-";
  bool special = false;
  CommandLine line("tokenizer decode", "Writes the text of ids.", kDecodeExamples);
  line.positional("FILE", file, "ids with spaces between (standard input)");
  line.text("--tokenizer", tokenizer_file, "FILE", "the tokenizer: a file, or the folder of a model");
  line.flag("--special", special, "write special tokens as they are spelled (else they are left out)");
  line.text("--pattern", pattern, "NAME", kPatternHelp);
  line.text("--out", out, "FILE", "file to write (standard output)");
  if (!line.parse(words)) return 0;
  if (out != "-") refuse_file_of_model(out);

  const Tokenizer tokenizer = load("decode", tokenizer_file, pattern);
  const std::vector<int32_t> ids = parse_ids(read_input(file), file == "-" ? "standard input" : file);
  Output output(out);
  output.write(tokenizer.decode(ids, special ? Tokenizer::Controls::kShow : Tokenizer::Controls::kSkip));
  output.commit();
  return 0;
}

}  // namespace tril::cli
