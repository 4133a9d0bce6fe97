#include "cli/train_data.h"

#include <algorithm>
#include <iterator>

#include "cli/data_commands.h"
#include "cli/format.h"
#include "cli/train_conversations.h"
#include "tril/base/error.h"
#include "tril/containers/checksum.h"
#include "tril/data/mixture.h"
#include "tril/data/nanogpt.h"
#include "tril/train/trainer.h"

namespace tril::cli {
namespace {

using Documents = std::span<const Document>;

// What is read on its own: all paths together, or with --mix each.
struct Group {
  std::vector<Path> paths;
  bool is_store = false, has_ids = false;
  std::vector<SourceFile> files;  // unless a store
  Corpus corpus;
};

Tokenizer make_tokenizer(const TrainOptions& options, const std::vector<Documents>& sources) {
  std::vector<std::string_view> texts, training;
  bool several = false;
  for (const Documents& documents : sources) {
    several |= documents.size() > 1;
    for (const Document& document : documents) texts.emplace_back(document.text);
  }
  if (options.tokenizer == "char") return Tokenizer::characters(texts, several);
  if (options.tokenizer == "byte") return Tokenizer::bytes(several);
  if (options.tokenizer != "bpe") return Tokenizer::load(options.tokenizer);
  // Merges are learned from the training part alone.
  for (const Documents& documents : sources) {
    const TextSplit split = split_documents(documents, options.val_fraction);
    training.insert(training.end(), split.train.begin(), split.train.end());
  }
  return Tokenizer::train_bpe(training, options.vocab);
}

std::string first_word(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  size_t end = 0;
  while (end < text.size() && end < 20 && letter(text[end])) ++end;
  return std::string(text.substr(0, end));
}

// In a mixture the sources that have too little text are told apart by name.
template <class Read>
Corpus read_named(const TrainRun& run, const Group& group, Read&& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (run.options.mix.empty()) throw;
    throw Error(error.kind(), one_line(group.paths.front().string()) + ": " + error.what());
  }
}

void read_text(const TrainArguments& arguments, const SourceOptions& options,
               const std::vector<Group*>& groups, TrainRun& run) {
  std::vector<Document> documents;
  std::vector<size_t> ends;
  for (const Group* group : groups) {
    int64_t empty = 0, broken = 0;
    std::vector<Document> more = read_documents(group->paths, &empty, options, &broken);
    run.skipped_empty += empty;
    run.skipped_broken += broken;
    std::move(more.begin(), more.end(), std::back_inserter(documents));
    ends.push_back(documents.size());
  }
  std::vector<Documents> sources;
  for (size_t g = 0; g < groups.size(); ++g) {
    const size_t begin = g == 0 ? 0 : ends[g - 1];
    sources.push_back(Documents(documents).subspan(begin, ends[g] - begin));
  }
  const TextFacts facts = text_facts(documents);
  take_text(arguments, documents, facts, run);
  if (run.tokenizer == nullptr)  // else that of --from, or of a source before
    run.tokenizer = std::make_unique<Tokenizer>(make_tokenizer(run.options, sources));
  choose_context(run.options, facts);
  for (size_t g = 0; g < groups.size(); ++g)
    groups[g]->corpus = read_named(run, *groups[g], [&] {
      return tokenize(sources[g], *run.tokenizer, run.options.val_fraction, run.options.context);
    });
  if (run.first_word.empty()) run.first_word = first_word(documents.front().text);
}

void check_same_tokenizer(const Tokenizer& tokenizer, const std::string& of_store, const std::string& what) {
  check_use(
      tokenizer.fingerprint() == of_store,
      "{}: another tokenizer than the one the store was built with; build the store again with this one",
      what);
}

// Nothing of the tokens is read here.
void read_store(const TrainArguments& arguments, bool stores_alone, Group& group, TrainRun& run) {
  const std::string path = group.paths.front().string();
  const auto store = std::make_shared<const TokenStore>(open_store(path));
  for (const char* name : {"val-fraction", "vocab"})
    check_use(!arguments.given.contains(name) || (name == std::string_view("val-fraction") && !stores_alone),
              "--{}: the store has decided it; leave it out, or build the store again", name);
  const std::string& of_store = store->train.header().tokenizer;
  if (run.tokenizer == nullptr) {
    run.tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(store->tokenizer_path()));
    check_same_tokenizer(*run.tokenizer, of_store, store->tokenizer_path().string());
    const bool given = arguments.given.contains("tokenizer");
    const std::string& asked = run.options.tokenizer;
    if (given && asked != run.tokenizer->kind_name()) {
      check_use(
          asked != "bpe" && asked != "char" && asked != "byte",
          "--tokenizer {}: the store was built with a {} tokenizer; leave it out, or build the store again",
          asked, run.tokenizer->kind_name());
      check_same_tokenizer(Tokenizer::load(asked), of_store, "--tokenizer " + asked);
    }
    if (!given) run.options.tokenizer = store->tokenizer_path().string();
  } else {
    check_same_tokenizer(*run.tokenizer, of_store,
                         run.options.from.empty() ? one_line(path) + ", with the other sources' tokenizer"
                                                  : "--from " + run.options.from);
  }
  const TokenFileHeader& header = store->train.header();
  choose_context(run.options, {.bytes = header.text_bytes + store->validation.header().text_bytes,
                               .documents = store->train.documents(),
                               .distinct_characters = 257});
  group.corpus = read_named(run, group, [&] { return open_corpus(store, run.options.context); });
  if (stores_alone)
    run.options.val_fraction = parse_json(store->description).value("validation_fraction", 0.1);
  std::vector<int32_t> start(static_cast<size_t>(std::min<int64_t>(header.tokens, 20)));
  store->train.tokens().copy(0, std::ssize(start), start.data());
  for (const int32_t id : start)
    check_data(id >= 0 && id < header.vocabulary, "{}: damaged; tril data lint says where", one_line(path));
  if (run.first_word.empty()) run.first_word = first_word(run.tokenizer->decode(start));
}

// Token ids that other programs wrote.
void read_tokens(const TrainArguments& arguments, const SourceOptions& options, Group& group, TrainRun& run) {
  const std::vector<SourceFile>& files = group.files;
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
  group.corpus = read_named(run, group, [&] {
    return read_corpus(files, *run.tokenizer, options, run.options.val_fraction, run.options.context);
  });
  run.skipped_broken += group.corpus.skipped_broken;
}

std::vector<Group> find_groups(const TrainArguments& arguments, const SourceOptions& options, bool mixed) {
  std::vector<Group> groups(mixed ? arguments.data.size() : 1);
  for (size_t i = 0; i < arguments.data.size(); ++i)
    groups[mixed ? i : 0].paths.emplace_back(arguments.data[i]);
  for (Group& group : groups) {
    for (const Path& path : group.paths) {
      group.is_store |= is_token_store(path);
      check_use(
          !group.is_store || group.paths.size() == 1,
          "{}: a token store goes alone, or with other sources and --mix; or build one store of all with "
          "tril data build",
          one_line(path.string()));
    }
    if (group.is_store) continue;
    group.files = find_sources(group.paths, options);
    for (const SourceFile& file : group.files) group.has_ids |= has_token_ids(file.format);
  }
  return groups;
}

void set_facts(TrainRun& run) {
  run.facts.vocabulary = run.options.from.empty() ? run.tokenizer->vocabulary() : run.config.vocabulary;
  run.facts.train_tokens = run.corpus.train_size();
  run.facts.validation_tokens = run.corpus.validation_size();
}

}  // namespace

void take_text(const TrainArguments& arguments, std::span<const Document> documents, const TextFacts& facts,
               TrainRun& run) {
  uint32_t crc = 0;
  for (const Document& document : documents) crc = crc32(std::as_bytes(std::span(document.text)), crc);
  run.text_crc32 = fmt::format("{:08x}", crc);
  if (run.tokenizer != nullptr) return;
  choose_tokenizer(run.options, facts);
  check_use(run.options.tokenizer == "bpe" || !arguments.given.contains("vocab"),
            "--vocab {}: only a bpe tokenizer has a size to choose, this run's is {}; add --tokenizer bpe",
            run.options.vocab, run.options.tokenizer);
}

void read_data(const TrainArguments& arguments, TrainRun& run) {
  run.has_text = true;
  std::vector<int64_t> weights;
  if (!run.options.mix.empty()) {
    weights = parse_mixture(run.options.mix);
    check_use(weights.size() == arguments.data.size(),
              "--mix {}: {} weight{} for {} source{}; give one for each FILE, in their order",
              run.options.mix, weights.size(), weights.size() == 1 ? "" : "s", arguments.data.size(),
              arguments.data.size() == 1 ? "" : "s");
  }
  const SourceOptions options = arguments.reading.options();
  std::vector<Group> groups = find_groups(arguments, options, !weights.empty());
  if (groups.size() == 1 && !groups.front().is_store && are_conversations(groups.front().files, options)) {
    read_conversation_data(arguments, groups.front().files, options, run);
    return set_facts(run);
  }
  for (const Group& group : groups)
    check_use(group.is_store || weights.empty() || !are_conversations(group.files, options),
              "--mix: {} holds conversations, which are not mixed with other text",
              one_line(group.paths.front().string()));
  check_use(
      run.options.chat_template.empty(),
      "--template {}: only conversations are written in one, and {} holds none (JSON lines with messages)",
      run.options.chat_template, one_line(arguments.data.front()));
  const bool stores_alone = std::ranges::all_of(groups, &Group::is_store);
  // Who has a tokenizer comes first: the others' text is cut by it.
  for (Group& group : groups)
    if (group.is_store) read_store(arguments, stores_alone, group, run);
  for (Group& group : groups)
    if (group.has_ids) read_tokens(arguments, options, group, run);
  std::vector<Group*> texts;
  for (Group& group : groups)
    if (!group.is_store && !group.has_ids) texts.push_back(&group);
  if (!texts.empty()) read_text(arguments, options, texts, run);
  std::vector<Corpus> corpora;
  for (Group& group : groups) corpora.push_back(std::move(group.corpus));
  run.corpus = weights.empty() ? std::move(corpora.front()) : mix_corpora(std::move(corpora), weights);
  check_documents(run.options, run.corpus);
  set_facts(run);
}

}  // namespace tril::cli
