// tril tokenizer train and export.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/format.h"
#include "cli/near_name.h"
#include "cli/output.h"
#include "cli/source_options.h"
#include "cli/tokenizer_command.h"
#include "tril/base/error.h"
#include "tril/data/document_reader.h"
#include "tril/text/bpe_train.h"
#include "tril/text/split_patterns.h"
#include "tril/text/tokenizer.h"

namespace tril::cli {
namespace {

constexpr const char* kExportExamples =
    "  tril tokenizer export runs/book --to vocab+merges --out book-gpt2       a folder with vocab.json, "
    "merges.txt\n"
    "  tril tokenizer export cl100k_base.tiktoken --to tokenizer.json --out tokenizer.json\n"
    "  tril tokenizer export llama/tokenizer.json --to llama2.c --out tokenizer.bin";

struct Format {
  const char* name;
  TokenizerFormat format;
};
constexpr Format kFormats[] = {{"tokenizer.json", TokenizerFormat::kTokenizerJson},
                               {"vocab+merges", TokenizerFormat::kVocabAndMerges},
                               {"tiktoken", TokenizerFormat::kTiktoken},
                               {"llama2.c", TokenizerFormat::kLlama2},
                               {"gguf", TokenizerFormat::kGguf}};

TokenizerFormat format_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Format& known : kFormats) {
    if (name == known.name) return known.format;
    names.emplace_back(known.name);
  }
  check_use(!name.empty(), "tril tokenizer export: give --to FORMAT, one of {}", fmt::join(names, ", "));
  fail(ErrorKind::kUse, "--to '{}': unknown{}; give one of {}", name, suggestion(name, names),
       fmt::join(names, ", "));
}

// What the file leaves to the program that reads it.
void say_what_is_missing(const Tokenizer& tokenizer, TokenizerFormat format) {
  if (format == TokenizerFormat::kTiktoken)
    fmt::print(
        "a .tiktoken file holds ranks alone: give the split pattern ({}) and the special tokens ({}) to the "
        "program "
        "that reads it\n",
        tokenizer.pattern(), tokenizer.specials().size());
}

constexpr const char* kTrainExamples =
    "  tril tokenizer train book.txt --vocab 4096 --out tokenizer.json\n"
    "  tril tokenizer train texts/ --pattern llama3 --special \"<|endoftext|>,<|user|>\" --out "
    "tokenizer.json\n"
    "  tril tokenizer train wiki.jsonl.zst --min-count 5 --out tokenizer.json";

std::vector<std::string> names_of(const std::string& list) {
  std::vector<std::string> names;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

// Documents handed to the trainer piece by piece, so that no file need be in memory. Returns bytes of text.
int64_t feed(const std::vector<std::string>& names, const SourceOptions& reading, BpeTrainer& trainer) {
  const std::vector<SourceFile> files = find_sources({names.begin(), names.end()}, reading);
  for (const SourceFile& file : files)
    check_use(!has_token_ids(file.format), "{}: holds token ids, not text to learn a tokenizer from",
              one_line(file.path.string()));
  DocumentReader reader(files, reading);
  int64_t bytes = 0;
  for (DocumentPiece piece; reader.next(piece);) {
    trainer.add(piece.text);
    bytes += std::ssize(piece.text);
    if (piece.last) trainer.end_document();
  }
  return bytes;
}

}  // namespace

int tokenizer_train(const Arguments& words) {
  std::vector<std::string> files;
  std::string special, out;
  int64_t threads = 0;
  SourceArguments reading;
  BpeRecipe recipe = {.vocabulary = 8192};
  CommandLine line("tokenizer train",
                   "Learns a byte-level BPE tokenizer from text files of any size. The result depends on the "
                   "text and the\n"
                   "options alone, not on the number of threads.",
                   kTrainExamples);
  line.positionals("FILE", files,
                   "files, folders, - for standard input: text, Markdown, JSON lines, each also .gz or .zst");
  line.count("--vocab", recipe.vocabulary, {257, kMostBpeIds},
             "number of ids: bytes, merges, special tokens (8192)");
  line.count("--min-count", recipe.min_count, {2, INT32_MAX},
             "pairs that occur less often are not merged (2)");
  line.text("--special", special, "A,B,...", "special tokens, with commas between (<|endoftext|>)");
  line.text("--pattern", recipe.pattern, "NAME",
            fmt::format("how text is split first: {}, or a regular expression (gpt2)",
                        fmt::join(split_names(), ", ")));
  line.text("--out", out, "FILE", "tokenizer.json to write");
  line.heading("Sources");
  reading.add_to(line);
  line.heading("Run");
  line.threads(threads);
  if (!line.parse(words)) return 0;
  check_use(!files.empty(),
            "tril tokenizer train: no text given; usage: tril tokenizer train FILE... --out FILE");
  check_use(!out.empty() && out != "-", "tril tokenizer train: give --out FILE");
  refuse_file_of_model(out);
  if (line.given("--special")) recipe.specials = names_of(special);

  const SourceOptions sources = reading.options();
  const auto start = std::chrono::steady_clock::now();
  ThreadPool pool(static_cast<int>(threads));
  int64_t bytes = 0, pieces = 0, forgotten = 0;
  const Tokenizer tokenizer = Tokenizer::train_bpe(recipe, pool, [&](BpeTrainer& trainer) {
    bytes = feed(files, sources, trainer);
    pieces = trainer.distinct_pieces();
    forgotten = trainer.forgotten_pieces();
  });
  tokenizer.save(out);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{} of text, {} different pieces{}: {} ids written to {} in {}\n",
             format_bytes(static_cast<double>(bytes)), format_count(pieces),
             forgotten > 0 ? fmt::format(" and {} rare ones passed over", format_count(forgotten)) : "",
             format_count(tokenizer.vocabulary()), one_line(out), format_duration(seconds));
  if (tokenizer.vocabulary() < recipe.vocabulary)
    fmt::print("the text has no more pairs that occur {} times: {} ids instead of {}\n", recipe.min_count,
               format_count(tokenizer.vocabulary()), format_count(recipe.vocabulary));
  return 0;
}

int tokenizer_export(const Arguments& words) {
  std::string file, pattern, to, out;
  CommandLine line(
      "tokenizer export",
      "Writes a tokenizer in another format. What the format cannot say exactly is refused, with the reason.",
      kExportExamples);
  line.positional("TOKENIZER", file, "a file, or the folder of a model");
  line.text("--to", to, "FORMAT", "tokenizer.json, vocab+merges, tiktoken, llama2.c or gguf");
  line.text("--out", out, "FILE", "file to write (vocab+merges: a folder)");
  line.text("--pattern", pattern, "NAME", kPatternHelp);
  if (!line.parse(words)) return 0;
  check_use(
      !file.empty(),
      "tril tokenizer export: no tokenizer given; usage: tril tokenizer export FILE --to FORMAT --out FILE");
  const TokenizerFormat format = format_named(to);
  check_use(!out.empty() && out != "-", "tril tokenizer export: give --out FILE");
  refuse_file_of_model(format == TokenizerFormat::kVocabAndMerges ? (Path(out) / "vocab.json").string()
                                                                  : out);
  const Tokenizer tokenizer = Tokenizer::load(file, pattern);
  tokenizer.export_to(out, format);
  fmt::print("{}: {}, {} ids, written to {}\n", one_line(file), tokenizer.kind_name(),
             format_count(tokenizer.vocabulary()), one_line(out));
  say_what_is_missing(tokenizer, format);
  return 0;
}

}  // namespace tril::cli
