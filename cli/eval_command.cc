#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "cli/command.h"
#include "cli/format.h"
#include "cli/source_options.h"
#include "cli/weights_option.h"
#include "tril/base/error.h"
#include "tril/containers/json.h"
#include "tril/data/build.h"
#include "tril/interop/model_folder.h"
#include "tril/train/text_loss.h"

namespace tril::cli {
namespace {

constexpr const char* kExamples =
    "  tril eval runs/book other.txt                  loss, perplexity and bits per byte of a text\n"
    "  tril eval runs/book texts/ --stride 32         each token sees more of what stands before it; slower\n"
    "  tril eval runs/book test.jsonl --json          one JSON object\n"
    "Bits per byte compare models with different tokenizers; losses per token do not.";

// Words are what white space separates, also where a document comes in pieces.
class WordCounter {
 public:
  void add(std::string_view text) {
    for (const char c : text) {
      const bool space = c == ' ' || (c >= '\t' && c <= '\r');
      words_ += !space && !in_word_;
      in_word_ = !space;
    }
  }
  int64_t words() const { return words_; }

 private:
  int64_t words_ = 0;
  bool in_word_ = false;
};

struct Scores {
  int64_t documents = 0, tokens = 0, bytes = 0, words = 0, broken = 0;
  double nats = 0, seconds = 0;
  double loss() const { return nats / static_cast<double>(tokens); }
  double bits_per_byte() const { return nats / std::numbers::ln2 / static_cast<double>(bytes); }
};

// What a document counts for; a broken one is known as such at its end.
struct OpenDocument {
  std::vector<int32_t> tokens;
  int64_t bytes = 0;
  WordCounter words;
};

// What the model is given before the first token of a document is no part of the text: begin-of-text, else
// end-of-text. Without either the first token of each is not predicted, and its bytes do not count.
Scores score(const Tokenizer& tokenizer, DocumentReader& reader, TextLoss& loss) {
  const auto start = std::chrono::steady_clock::now();
  const int32_t before = tokenizer.begin_of_text() >= 0 ? tokenizer.begin_of_text() : tokenizer.end_of_text();
  Scores out;
  OpenDocument open;
  for (DocumentPiece piece; reader.next(piece);) {
    check_use(!piece.is_tokens, "{}: token ids, whose bytes are not known; give text", reader.name_of(piece));
    if (piece.first) open = {};
    if (piece.first && before >= 0) open.tokens.push_back(before);
    tokenizer.encode(piece.text, open.tokens);
    open.bytes += std::ssize(piece.text);
    open.words.add(piece.text);
    if (!piece.last || piece.broken) continue;
    if (before < 0 && !open.tokens.empty())
      open.bytes -= std::ssize(tokenizer.token_bytes(open.tokens.front()));
    loss.add(open.tokens);
    loss.end_document();
    out.bytes += open.bytes;
    out.words += open.words.words();
    ++out.documents;
  }
  out.nats = loss.nats();
  out.tokens = loss.tokens();
  out.broken = reader.position().skipped_broken;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

void print(const Scores& s, const TextLossOptions& options, bool json) {
  const double per_word = s.words > 0 ? std::exp(s.nats / static_cast<double>(s.words)) : 0;
  if (json) {
    std::puts(to_text({{"loss_nats", s.loss()},
                       {"perplexity", std::exp(s.loss())},
                       {"word_perplexity", per_word},
                       {"byte_perplexity", std::exp2(s.bits_per_byte())},
                       {"bits_per_byte", s.bits_per_byte()},
                       {"tokens", s.tokens},
                       {"words", s.words},
                       {"bytes", s.bytes},
                       {"documents", s.documents},
                       {"skipped_documents", s.broken},
                       {"context", options.context},
                       {"stride", options.stride},
                       {"seconds", s.seconds}})
                  .c_str());
    return;
  }
  fmt::print(
      "loss        {:.4f} nats a token, each seen with at least {} tokens before it where there are as "
      "many\n",
      s.loss(), options.context - options.stride);
  fmt::print("perplexity  {:.4g} by token, {:.4g} by word, {:.4g} by byte\n", std::exp(s.loss()), per_word,
             std::exp2(s.bits_per_byte()));
  fmt::print("            {:.4f} bits per byte, which compares models with different tokenizers\n",
             s.bits_per_byte());
  fmt::print("text        {} document{}; {} tokens, {} words, {}; {:.2f} bytes a token{}\n",
             format_count(s.documents), s.documents == 1 ? "" : "s", format_count(s.tokens),
             format_count(s.words), format_bytes(static_cast<double>(s.bytes)),
             static_cast<double>(s.bytes) / static_cast<double>(s.tokens),
             s.broken > 0 ? fmt::format("; {} broken left out", format_count(s.broken)) : "");
  fmt::print("time        {}, {} tokens/s\n", format_duration(s.seconds),
             format_count(std::llround(static_cast<double>(s.tokens) / std::max(s.seconds, 1e-9))));
}

}  // namespace

int eval_command(const Arguments& words) {
  std::string folder;
  std::vector<std::string> paths;
  int64_t threads = 0;
  TextLossOptions options;
  SourceArguments sources;
  WeightsOption weights;
  bool json = false;
  CommandLine line(
      "eval",
      "Measures how well a model predicts text: loss, perplexity and bits per byte, every token\n"
      "predicted once from the tokens before it in its document; the first one from begin-of-text, else\n"
      "end-of-text, where the tokenizer has either; else it does not count.",
      kExamples);
  line.positional("MODEL", folder, "folder of a model or a run, or a model file");
  line.positionals("FILE", paths, "text files, folders, .jsonl, or - for standard input");
  line.count("--stride", options.stride, {1, 1'000'000'000},
             "tokens from one window to the next (half the context)");
  line.count("--context", options.context, {1, 1'000'000'000}, "tokens of a window (the model's context)");
  line.count("--batch", options.batch, {1, 1'000'000}, "windows at a time (about 4,096 tokens)");
  sources.add_to(line);
  weights.add_to(line);
  line.threads(threads);
  line.flag("--json", json, "report as one JSON object");
  if (!line.parse(words)) return 0;
  check_use(!folder.empty() && !paths.empty(),
            "tril eval: give a model and text; usage: tril eval MODEL FILE...");

  ThreadPool pool(static_cast<int>(threads));
  const LoadedModel loaded = weights.load(folder, pool);
  check_data(loaded.tokenizer != nullptr, "{}: there is no tokenizer.json, so text cannot be read", folder);
  TextLoss loss(*loaded.model, pool, options);
  const SourceOptions source_options = options_for(*loaded.tokenizer, sources.options());
  DocumentReader reader(find_sources({paths.begin(), paths.end()}, source_options), source_options);
  const Scores scores = score(*loaded.tokenizer, reader, loss);
  check_data(scores.tokens > 0, "{}: no token to predict; give at least two tokens of text", paths.front());
  if (!std::isfinite(scores.nats))
    fail(ErrorKind::kNumerics, "{}: the loss is {}; the weights are damaged (tril info {})", folder,
         scores.nats, folder);
  print(scores, loss.options(), json);
  return 0;
}

}  // namespace tril::cli
