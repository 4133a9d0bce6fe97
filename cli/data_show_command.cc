// tril data show: what a model would read, as text.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/data_commands.h"
#include "cli/data_show_batch.h"
#include "cli/data_show_messages.h"
#include "cli/format.h"
#include "tril/base/error.h"
#include "tril/data/sampler.h"
#include "tril/text/tokenizer.h"

namespace tril::cli {
namespace {

struct ShowArguments {
  std::string store;
  int64_t document = -1, batch = -1, rows = 4, context = 64;
  uint64_t seed = 1;
  std::string sampling = "random";
  bool validation = false, document_mask = false, json = false;
  std::string from, tokenizer, chat_template;  // of conversations
};

// Conversations are not stored; they are shown as a run would make them.
void show_conversations(const ShowArguments& a, bool sampling_given) {
  show_messages({.file = a.store,
                 .from = a.from,
                 .tokenizer = a.tokenizer,
                 .chat_template = a.chat_template,
                 .conversation = std::max<int64_t>(a.document, 0),
                 .batch = a.batch,
                 .rows = a.rows,
                 .context = a.context,
                 .seed = a.seed,
                 .sampling = sampling_given ? a.sampling : "epochs",
                 .validation = a.validation,
                 .json = a.json});
}

void show_document(const ShowArguments& a, const TokenFile& side, const Tokenizer& tokenizer) {
  const TokenView view = side.document(a.document);
  std::vector<int32_t> tokens(static_cast<size_t>(view.size()));
  view.copy(0, view.size(), tokens.data());
  check_ids(side, side.document_begin(a.document), tokens, tokenizer);
  const std::string text = tokenizer.decode(tokens);
  if (a.json) {
    std::puts(to_text({{"document", a.document},
                       {"begin", side.document_begin(a.document)},
                       {"tokens", tokens},
                       {"text", text}})
                  .c_str());
    return;
  }
  fmt::print("document {} of {}: tokens {} to {} ({})\n", a.document, format_count(side.documents()),
             side.document_begin(a.document), side.document_begin(a.document) + view.size(),
             format_count(view.size()));
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::puts("");
}

void show_batch(const ShowArguments& a, const TokenFile& side, const Tokenizer& tokenizer) {
  const TokenFileHeader& header = side.header();
  const int32_t separator = a.document_mask ? separator_of(header.begin_of_text, header.end_of_text) : -1;
  check_use(!a.document_mask || separator >= 0,
            "--document-mask: no end-of-text token separates documents in this store");
  WindowSampler sampler({{side.tokens(), 1}}, {.batch = a.rows,
                                               .time = a.context,
                                               .seed = a.seed,
                                               .end_of_text = separator,
                                               .sampling = sampling_of(a.sampling)});
  const Batch& batch = sampler.sample(a.batch);
  for (int64_t n = 0; n < batch.rows(); ++n)
    check_data(tokenizer.is_defined(batch.tokens[n]) && tokenizer.is_defined(batch.targets[n]),
               "{}: an id is none of the tokenizer's {}; tril data lint looks for damage",
               one_line(side.path().string()), tokenizer.vocabulary());
  print_batch(batch, tokenizer, a.json);
}

}  // namespace

int data_show_command(const Arguments& words) {
  ShowArguments a;
  CommandLine line(
      "data show",
      "A document of a store as text, or a batch as training reads it; of conversations, what is learned.",
      "  tril data show book.store --document 0\n"
      "  tril data show book.store --batch 0 --context 64 --rows 2 --document-mask\n"
      "  tril data show chat.jsonl --from runs/book --document 2");
  line.positional("STORE", a.store, "a folder that tril data build made, or JSON lines with messages");
  line.count("--document", a.document, {.least = 0}, "which document (0, without --batch)");
  line.count("--batch", a.batch, {.least = 0}, "the micro-batch of this number of a run with the same sizes");
  line.count("--rows", a.rows, {1, 1 << 16}, "windows of the batch (4)");
  line.count("--context", a.context, {1, 1 << 20}, "tokens of a window (64)");
  line.seed("--seed", a.seed, "of the run (1)");
  line.text("--sampling", a.sampling, "NAME", "random or epochs, as with this option of tril train (random)");
  line.flag("--document-mask", a.document_mask, "as with this option of tril train");
  line.flag("--validation", a.validation, "of the validation side (training)");
  line.text("--from", a.from, "MODEL", "of conversations: the model that would learn them");
  line.text("--tokenizer", a.tokenizer, "FILE", "of conversations: a tokenizer in place of --from");
  line.text("--template", a.chat_template, "NAME", "of conversations, as with this option of tril train");
  line.flag("--json", a.json, "one JSON object");
  if (!line.parse(words)) return 0;
  check_use(!a.store.empty(), "tril data show: give a store, such as book.store");
  check_use(a.document < 0 || a.batch < 0, "--document and --batch: give one of them");
  if (is_messages_file(a.store)) {
    show_conversations(a, line.given("--sampling"));
    return 0;
  }
  const TokenStore store = open_store(a.store);
  for (const char* name : {"--from", "--tokenizer", "--template"})
    check_use(!line.given(name), "{}: a store has its tokenizer; this is of JSON lines with messages", name);
  const Tokenizer tokenizer = Tokenizer::load(store.tokenizer_path());
  const TokenFile& side = a.validation ? store.validation : store.train;
  if (a.batch >= 0) {
    show_batch(a, side, tokenizer);
  } else {
    a.document = std::max<int64_t>(a.document, 0);
    show_document(a, side, tokenizer);
  }
  return 0;
}

}  // namespace tril::cli
