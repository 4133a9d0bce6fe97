#include "cli/train_data.h"

#include "cli/data_commands.h"
#include "tril/base/error.h"
#include "tril/containers/checksum.h"
#include "tril/data/nanogpt.h"
#include "tril/train/trainer.h"

namespace tril::cli {
namespace {

Tokenizer make_tokenizer(const TrainOptions& options, const std::vector<Document>& documents) {
  std::vector<std::string_view> texts;
  for (const Document& document : documents) texts.emplace_back(document.text);
  const bool several = documents.size() > 1;
  if (options.tokenizer == "char") return Tokenizer::characters(texts, several);
  if (options.tokenizer == "byte") return Tokenizer::bytes(several);
  // Merges are learned from the training part alone.
  if (options.tokenizer == "bpe")
    return Tokenizer::train_bpe(split_documents(documents, options.val_fraction).train, options.vocab);
  return Tokenizer::load(options.tokenizer);
}

std::string crc32_of(const std::vector<Document>& documents) {
  uint32_t crc = 0;
  for (const Document& document : documents) crc = crc32(std::as_bytes(std::span(document.text)), crc);
  return fmt::format("{:08x}", crc);
}

std::string first_word(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  size_t end = 0;
  while (end < text.size() && end < 20 && letter(text[end])) ++end;
  return std::string(text.substr(0, end));
}

void read_text(const TrainArguments& arguments, const SourceOptions& options, TrainRun& run) {
  const std::vector<Document> documents =
      read_documents({arguments.data.begin(), arguments.data.end()}, &run.skipped_empty, options);
  run.text_crc32 = crc32_of(documents);
  const TextFacts facts = text_facts(documents);
  const bool own_model = run.tokenizer == nullptr;  // else that of --from
  if (own_model) {
    choose_tokenizer(run.options, facts);
    check_use(run.options.tokenizer == "bpe" || !arguments.given.contains("vocab"),
              "--vocab {}: only a bpe tokenizer has a size to choose, this run's is {}; add --tokenizer bpe",
              run.options.vocab, run.options.tokenizer);
    run.tokenizer = std::make_unique<Tokenizer>(make_tokenizer(run.options, documents));
  }
  choose_context(run.options, facts);
  run.corpus = tokenize(documents, *run.tokenizer, run.options.val_fraction, run.options.context);
  run.first_word = first_word(documents.front().text);
}

void check_same_tokenizer(const Tokenizer& tokenizer, const std::string& of_store, const std::string& what) {
  check_use(
      tokenizer.fingerprint() == of_store,
      "{}: another tokenizer than the one the store was built with; build the store again with this one",
      what);
}

// Nothing of the tokens is read here.
void read_store(const TrainArguments& arguments, TrainRun& run) {
  check_use(arguments.data.size() == 1,
            "{}: a token store goes alone; build one store of all sources with tril data build",
            arguments.data.front());
  const auto store = std::make_shared<const TokenStore>(open_store(arguments.data.front()));
  for (const char* name : {"val-fraction", "vocab"})
    check_use(!arguments.given.contains(name),
              "--{}: the store has decided it; leave it out, or build the store again", name);
  const std::string& of_store = store->train.header().tokenizer;
  if (run.tokenizer == nullptr) {
    run.tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(store->tokenizer_path()));
    check_same_tokenizer(*run.tokenizer, of_store, store->tokenizer_path().string());
    const bool given = arguments.given.contains("tokenizer");
    if (given && run.options.tokenizer != run.tokenizer->kind_name())
      check_same_tokenizer(Tokenizer::load(run.options.tokenizer), of_store,
                           "--tokenizer " + run.options.tokenizer);
    if (!given) run.options.tokenizer = store->tokenizer_path().string();
  } else {
    check_same_tokenizer(*run.tokenizer, of_store, "--from " + run.options.from);
  }
  const TokenFileHeader& header = store->train.header();
  choose_context(run.options, {.bytes = header.text_bytes + store->validation.header().text_bytes,
                               .documents = store->train.documents(),
                               .distinct_characters = 257});
  run.corpus = open_corpus(store, run.options.context);
  run.options.val_fraction = parse_json(store->description).value("validation_fraction", 0.1);
  std::vector<int32_t> start(static_cast<size_t>(std::min<int64_t>(header.tokens, 20)));
  store->train.tokens().copy(0, std::ssize(start), start.data());
  for (const int32_t id : start)
    check_data(id >= 0 && id < header.vocabulary, "{}: damaged; tril data lint says where",
               arguments.data.front());
  run.first_word = first_word(run.tokenizer->decode(start));
}

// Token ids that other programs wrote.
void read_tokens(const TrainArguments& arguments, const std::vector<SourceFile>& files,
                 const SourceOptions& options, TrainRun& run) {
  if (run.tokenizer == nullptr) {
    std::optional<Tokenizer> found;
    if (!arguments.given.contains("tokenizer")) found = nanogpt_tokenizer(files.front().path);
    const std::string& name = run.options.tokenizer;
    check_use(found || (!name.empty() && name != "bpe" && name != "char"),
              "{}: holds token ids, not text; name the tokenizer that made them with --tokenizer FILE",
              files.front().path.string());
    if (!found) found = name == "byte" ? Tokenizer::bytes(/*with_end_of_text=*/false) : Tokenizer::load(name);
    run.tokenizer = std::make_unique<Tokenizer>(std::move(*found));
    if (name.empty()) run.options.tokenizer = run.tokenizer->kind_name();
  }
  choose_context(run.options, {.bytes = int64_t{1} << 24, .documents = 1, .distinct_characters = 257});
  run.corpus = read_corpus(files, *run.tokenizer, options, run.options.val_fraction, run.options.context);
}

}  // namespace

void read_data(const TrainArguments& arguments, TrainRun& run) {
  run.has_text = true;
  if (is_token_store(arguments.data.front())) {
    read_store(arguments, run);
  } else {
    const SourceOptions options = arguments.reading.options();
    const std::vector<SourceFile> files =
        find_sources({arguments.data.begin(), arguments.data.end()}, options);
    bool ids = false;
    for (const SourceFile& file : files) ids |= has_token_ids(file.format);
    if (ids)
      read_tokens(arguments, files, options, run);
    else
      read_text(arguments, options, run);
  }
  check_documents(run.options, run.corpus);
  run.facts.vocabulary = run.options.from.empty() ? run.tokenizer->vocabulary() : run.config.vocabulary;
  run.facts.train_tokens = run.corpus.train_tokens().size();
  run.facts.validation_tokens = run.corpus.validation_tokens().size();
}

}  // namespace tril::cli
