#include "cli/tokenizer_command.h"

#include "tril/base/files.h"

namespace tril::cli {
namespace {

constexpr Command kParts[] = {
    {"train", "", "learn a byte-pair tokenizer from text files", tokenizer_train},
    {"encode", "", "text to ids", tokenizer_encode},
    {"decode", "", "ids to text", tokenizer_decode},
    {"info", "", "what a tokenizer is: kind, size, special tokens, pattern, hash", tokenizer_info},
    {"compare", "", "two tokenizers on the same text: tokens, bytes per token, first difference",
     tokenizer_compare},
    {"export", "", "write a tokenizer in the format of another program", tokenizer_export},
};

constexpr std::string_view kAbout =
    "Tokenizers: text to ids and back, with files of tril and of other programs.\n\n"
    "Examples:\n"
    "  tril tokenizer train book.txt --vocab 4096 --out book.json\n"
    "  tril tokenizer encode --tokenizer book.json chapter.txt > ids.txt\n"
    "  tril tokenizer export cl100k_base.tiktoken --to tokenizer.json --out tokenizer.json\n";
constexpr std::string_view kNotes =
    "A tokenizer is a tokenizer.json, vocab.json with merges.txt, a .tiktoken file, llama2.c's "
    "tokenizer.bin, a\n.gguf file, or a folder with one of them, such as a model's.\n";

}  // namespace

std::string read_text(const std::string& file) {
  return file == "-" ? read_standard_input() : read_text_file(file);
}

int tokenizer_command(const Arguments& words) { return run_part("tokenizer", kAbout, kParts, kNotes, words); }

}  // namespace tril::cli
