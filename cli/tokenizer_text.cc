// tril tokenizer encode and decode.
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cstdio>

#include "cli/format.h"
#include "cli/output.h"
#include "cli/tokenizer_command.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/tokenizer_stream.h"

namespace tril::cli {
namespace {

constexpr const char* kEncodeExamples =
    "  tril tokenizer encode --tokenizer runs/book chapter.txt > ids.txt\n"
    "  echo -n \"Hello, world\" | tril tokenizer encode --tokenizer cl100k_base.tiktoken -\n"
    "  tril tokenizer encode --tokenizer tokenizer.json --special chat.txt     <|endoftext|> becomes its id";

constexpr const char* kDecodeExamples =
    "  tril tokenizer decode --tokenizer runs/book ids.txt > chapter.txt\n"
    "  echo 9906 11 1917 | tril tokenizer decode --tokenizer cl100k_base.tiktoken";

Tokenizer load(const std::string& command, const std::string& file, const std::string& pattern) {
  check_use(!file.empty(),
            "tril tokenizer {}: no tokenizer given; add --tokenizer FILE (a file, or the folder of a model)",
            command);
  return Tokenizer::load(file, pattern);
}

class IdWriter {
 public:
  explicit IdWriter(Output& output) : output_(output) {}
  void write(std::span<const int32_t> ids) {
    text_.clear();
    for (const int32_t id : ids) {
      fmt::format_to(std::back_inserter(text_), "{}{}", first_ ? "" : " ", id);
      first_ = false;
    }
    output_.write(text_);
  }

 private:
  Output& output_;
  std::string text_;
  bool first_ = true;
};

std::vector<int32_t> parse_ids(std::string_view text, const std::string& where, const Tokenizer& tokenizer) {
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
    check_data(tokenizer.is_defined(id), "{}: the id {} at byte {} is none of this tokenizer's {}", where, id,
               at, tokenizer.vocabulary());
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
  InputFile input = file == "-" ? InputFile::standard_input() : InputFile(file);
  Output output(out);
  IdWriter writer(output);
  std::vector<int32_t> ids;
  if (begin && tokenizer.begin_of_text() >= 0) ids.push_back(tokenizer.begin_of_text());
  TokenizerStream stream(tokenizer, special);
  std::vector<char> block(size_t{1} << 18);
  for (bool more = true; more;) {
    const size_t size = input.read(block);
    more = size > 0;
    if (more)
      stream.push(std::string_view(block.data(), size), ids);
    else
      stream.finish(ids);
    writer.write(ids);
    ids.clear();
  }
  output.write("\n");
  output.commit();
  const int64_t ordinary = stream.control_spellings();
  if (ordinary > 0)
    fmt::print(stderr, "tril: {} special {} in the text taken for ordinary text; --special makes {} of {}\n",
               ordinary, ordinary == 1 ? "token" : "tokens", ordinary == 1 ? "an id" : "ids",
               ordinary == 1 ? "it" : "them");
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
  const std::vector<int32_t> ids =
      parse_ids(read_text(file), file == "-" ? "standard input" : one_line(file), tokenizer);
  Output output(out);
  output.write(tokenizer.decode(ids, special ? Tokenizer::Controls::kShow : Tokenizer::Controls::kSkip));
  output.commit();
  return 0;
}

}  // namespace tril::cli
