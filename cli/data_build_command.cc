#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <optional>

#include "cli/data_commands.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "tril/base/error.h"
#include "tril/base/parallel.h"
#include "tril/data/build.h"
#include "tril/data/source_tokenizer.h"
#include "tril/text/bpe.h"
#include "tril/train/defaults.h"

namespace tril::cli {
namespace {

constexpr const char* kExamples =
    "  tril data build book.txt --out book.store\n"
    "  tril data build wiki.jsonl.zst --tokenizer gpt2.json --out wiki.store --dedup\n"
    "  tril data build stories.txt --separator '<|endoftext|>' --vocab 4096 --out stories.store\n"
    "  tril data build src/ --extensions code --tokenizer bpe --out src.store\n"
    "  tril data build tokens.h5 --tokenizer r50k.json --out tokens.store";

constexpr int64_t kLearnedBytes = int64_t{64} << 20;  // merges are learned from no more text

struct BuildArguments {
  std::vector<std::string> sources;
  SourceArguments reading;
  std::string tokenizer = "bpe", out;
  int64_t vocab = 0, threads = 0;
  double validation_fraction = 0.1;
  bool deduplicate = false, json = false;
};

// Progress on one line of a terminal, else a line now and then.
class BuildLine {
 public:
  explicit BuildLine(bool json) : quiet_(json), terminal_(output_is_terminal()) {}
  ~BuildLine() {
    if (open_) std::fputs("\n", stdout);
  }

  void show(const BuildProgress& p) {
    const double now = seconds();
    if (first_bytes_ < 0) {
      first_bytes_ = p.bytes_read;
      first_text_ = p.text_bytes;
      started_ = now;
    }
    if (quiet_ || now - shown_ < (terminal_ ? 0.2 : 10)) return;
    shown_ = now;
    const double passed = std::max(now - started_, 1e-9);
    const double rate = static_cast<double>(p.text_bytes - first_text_) / passed;
    const double read = static_cast<double>(p.bytes_read - first_bytes_) / passed;
    std::string text = fmt::format("{} documents, {} of text, {} tokens", format_count(p.documents),
                                   format_bytes(static_cast<double>(p.text_bytes)), format_count(p.tokens));
    if (rate > 0) text += fmt::format(", {}/s", format_bytes(rate));
    if (p.bytes_total > 0 && read > 0)
      text += fmt::format(", {:.0f}%, {} left",
                          100 * static_cast<double>(p.bytes_read) / static_cast<double>(p.bytes_total),
                          format_duration(static_cast<double>(p.bytes_total - p.bytes_read) / read));
    if (terminal_) text = "\r" + text.substr(0, static_cast<size_t>(terminal_columns() - 1)) + "\x1b[K";
    std::fputs((text + (terminal_ ? "" : "\n")).c_str(), stdout);
    std::fflush(stdout);
    open_ = terminal_;
  }

  static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

 private:
  bool quiet_, terminal_, open_ = false;
  double shown_ = -1e9, started_ = 0;
  int64_t first_bytes_ = -1, first_text_ = 0;
};

bool is_kind(const std::string& tokenizer) {
  return tokenizer == "bpe" || tokenizer == "char" || tokenizer == "byte";
}

int64_t vocabulary_for(const BuildArguments& a, const std::vector<SourceFile>& files) {
  if (a.vocab > 0) return a.vocab;
  TextFacts facts;
  for (const SourceFile& file : files) {
    std::error_code unknown;
    const auto size = std::filesystem::file_size(file.path, unknown);
    if (!unknown) facts.bytes += static_cast<int64_t>(size);
  }
  TrainOptions options;
  options.tokenizer = "bpe";
  choose_tokenizer(options, facts);
  return options.vocab;
}

Tokenizer make_tokenizer(const BuildArguments& a, const SourceOptions& reading,
                         const std::vector<SourceFile>& files, Executor& executor) {
  for (const SourceFile& file : files)
    check_use(
        a.tokenizer == "byte" || !has_token_ids(file.format),
        "{}: holds token ids, not text to make a tokenizer of; name the one that made them with --tokenizer "
        "FILE",
        one_line(file.path.string()));
  SourceOptions quiet = reading;
  if (quiet.on_broken) quiet.on_broken = [](const std::string&) {};
  if (a.tokenizer == "byte") return Tokenizer::bytes(/*with_end_of_text=*/true);
  if (a.tokenizer == "char") return characters_of(files, quiet, /*with_end_of_text=*/true);
  return train_bpe_on(files, quiet, a.validation_fraction, vocabulary_for(a, files), kLearnedBytes, executor);
}

bool parse(const Arguments& words, BuildArguments& a) {
  CommandLine line(
      "data build",
      "Tokenizes text into a store: a folder from which tril train starts at once, and which may be far "
      "larger\nthan memory. Sources are files, folders and - for standard input: text, Markdown, JSON "
      "lines, each also as\n.gz or .zst; token ids as .npy, .h5 (data set tokens), nanoGPT's and "
      "llm.c's .bin. A build that was killed goes\non when the command is given again.",
      kExamples);
  line.positionals("SOURCE", a.sources, "files, folders, or - for standard input");
  line.text("--out", a.out, "STORE", "folder to make");
  line.text("--tokenizer", a.tokenizer, "KIND", "bpe, char, byte, or the file of a tokenizer (bpe)");
  line.count("--vocab", a.vocab, {258, kMostBpeIds}, "ids of a bpe tokenizer (by the size of the text)");
  line.number("--val-fraction", a.validation_fraction, {0, 0.9},
              "part of the text kept for validation (0.1)");
  line.flag("--dedup", a.deduplicate, "leave out documents that are equal to an earlier one");
  line.heading("Sources");
  a.reading.add_to(line);
  line.heading("Run");
  line.threads(a.threads);
  line.flag("--json", a.json, "one JSON object at the end");
  if (!line.parse(words)) return false;
  check_use(!a.sources.empty(), "tril data build: give a file, a folder, or - for standard input");
  check_use(!a.out.empty(), "tril data build: give --out STORE, the folder to make");
  check_use(a.tokenizer == "bpe" || !line.given("--vocab"),
            "--vocab {}: only a bpe tokenizer that is made here has a size to choose", a.vocab);
  return true;
}

void report(const BuildArguments& a, const BuildResult& r, double seconds) {
  const BuildProgress& p = r.progress;
  if (a.json) {
    const Json json = {{"out", a.out},
                       {"finished", r.finished},
                       {"resumed", r.resumed},
                       {"train_tokens", r.train_tokens},
                       {"validation_tokens", r.validation_tokens},
                       {"train_documents", r.train_documents},
                       {"validation_documents", r.validation_documents},
                       {"text_bytes", p.text_bytes},
                       {"duplicates", r.duplicates},
                       {"skipped_empty", r.skipped_empty},
                       {"skipped_broken", r.skipped_broken},
                       {"seconds", seconds}};
    std::puts(to_text(json).c_str());
    return;
  }
  const std::string out = one_line(a.out);
  if (!r.finished) {
    fmt::print("stopped after {} of text; the same command goes on\n",
               format_bytes(static_cast<double>(p.text_bytes)));
    return;
  }
  fmt::print("{}: {} tokens to train on in {} documents, {} to validate in {}{}\n", out,
             format_count(r.train_tokens), format_count(r.train_documents), format_count(r.validation_tokens),
             format_count(r.validation_documents),
             r.split_by_ends ? " (few documents: the end of each is for validation)" : "");
  fmt::print("{} of text, {:.2f} bytes a token, in {}\n", format_bytes(static_cast<double>(p.text_bytes)),
             static_cast<double>(p.text_bytes) /
                 static_cast<double>(std::max<int64_t>(r.train_tokens + r.validation_tokens, 1)),
             format_duration(seconds));
  if (r.duplicates > 0) fmt::print("left out: {} duplicates\n", format_count(r.duplicates));
  if (r.skipped_empty + r.skipped_broken > 0)
    fmt::print("skipped: {} empty, {} broken\n", format_count(r.skipped_empty),
               format_count(r.skipped_broken));
  fmt::print("\nlook at it, then train:\n  tril data lint {0}\n  tril train {0}\n", shell_quote(a.out));
}

}  // namespace

int data_build_command(const Arguments& words) {
  BuildArguments a;
  if (!parse(words, a)) return 0;
  ThreadPool pool(static_cast<int>(a.threads));
  BuildOptions options;
  options.sources = a.reading.options();
  options.validation_fraction = a.validation_fraction;
  options.deduplicate = a.deduplicate;
  std::optional<Tokenizer> given;
  if (!is_kind(a.tokenizer)) given.emplace(Tokenizer::load(a.tokenizer));
  options.identity = given ? given->fingerprint() : fmt::format("{} {}", a.tokenizer, a.vocab);
  install_stop_signals();
  const double start = BuildLine::seconds();
  BuildResult result;
  {
    BuildLine progress(a.json);
    result = build_token_store(
        {a.sources.begin(), a.sources.end()},
        [&](const std::vector<SourceFile>& files) {
          return given ? std::move(*given) : make_tokenizer(a, options.sources, files, pool);
        },
        options, a.out, pool,
        [&](const BuildProgress& p) {
          progress.show(p);
          return !stop_requested();
        });
  }
  if (result.started_anew && !a.json)
    fmt::print("what an earlier build had begun was of other sources or options: started anew\n");
  report(a, result, BuildLine::seconds() - start);
  return 0;
}

}  // namespace tril::cli
