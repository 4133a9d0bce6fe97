#include "cli/data_commands.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril::cli {
namespace {

constexpr Command kParts[] = {
    {"build", "", "tokenize text into a store, from which training starts at once", data_build_command},
    {"info", "", "what is in a store", data_info_command},
    {"lint", "", "what is odd in a store: characters, duplicates, leakage into validation",
     data_lint_command},
    {"show", "", "a document or a batch of a store as text", data_show_command},
    {"export", "", "the tokens or texts of a store as files of other programs", data_export_command},
};

constexpr std::string_view kAbout =
    "Text as tokens, made once: token stores.\n\nExamples:\n"
    "  tril data build books/ --out books.store          with a byte-pair tokenizer of its own\n"
    "  tril data build wiki.jsonl.zst --tokenizer gpt2.json --out wiki.store\n"
    "  tril data lint wiki.store\n"
    "  tril train wiki.store\n";

}  // namespace

TokenStore open_store(const std::string& folder) {
  check_data(std::filesystem::exists(folder), "{}: there is no such folder; build it with tril data build",
             printable(folder));
  check_data(is_token_store(folder), "{}: not a token store; build one with tril data build",
             printable(folder));
  return TokenStore(folder);
}

int data_command(const Arguments& arguments) { return run_part("data", kAbout, kParts, "", arguments); }

}  // namespace tril::cli
