#include "cli/tokenizer_command.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/near_name.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril::cli {
namespace {

struct Part {
  const char* name;
  const char* summary;
  int (*run)(const Arguments&);
};
constexpr Part kParts[] = {
    {"train", "learn a byte-pair tokenizer from text files", tokenizer_train},
    {"encode", "text to ids", tokenizer_encode},
    {"decode", "ids to text", tokenizer_decode},
    {"info", "what a tokenizer is: kind, size, special tokens, pattern, hash", tokenizer_info},
    {"compare", "two tokenizers on the same text: tokens, bytes per token, first difference",
     tokenizer_compare},
    {"export", "write a tokenizer in the format of another program", tokenizer_export},
};

void print_help() {
  std::string text =
      "Tokenizers: text to ids and back, with files of tril and of other programs.\n\n"
      "Examples:\n"
      "  tril tokenizer train book.txt --vocab 4096 --out book.json\n"
      "  tril tokenizer encode --tokenizer book.json chapter.txt > ids.txt\n"
      "  tril tokenizer export cl100k_base.tiktoken --to tokenizer.json --out tokenizer.json\n\n";
  for (const Part& part : kParts) text += fmt::format("  {:<10} {}\n", part.name, part.summary);
  text +=
      "\nA tokenizer is a tokenizer.json, vocab.json with merges.txt, a .tiktoken file, llama2.c's "
      "tokenizer.bin, a\n"
      ".gguf file, or a folder with one of them, such as a model's.\n"
      "tril tokenizer PART --help shows examples and every option.\n";
  std::fputs(text.c_str(), stdout);
}

}  // namespace

int tokenizer_command(const Arguments& words) {
  if (words.words.empty()) {
    print_help();
    return 1;
  }
  const std::string& word = words.words.front();
  if (word == "--help" || word == "-h" || word == "help") {
    print_help();
    return 0;
  }
  std::vector<std::string> names;
  for (const Part& part : kParts) {
    if (word == part.name) return part.run({words.program, {words.words.begin() + 1, words.words.end()}});
    names.emplace_back(part.name);
  }
  fail(ErrorKind::kUse, "tril tokenizer: unknown part '{}'{} (tril tokenizer --help lists all)",
       printable(word), suggestion(word, names));
}

}  // namespace tril::cli
