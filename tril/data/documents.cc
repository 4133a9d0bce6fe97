#include "tril/data/documents.h"

#include <algorithm>
#include <cmath>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/containers/json.h"
#include "tril/data/build_batches.h"
#include "tril/data/document_reader.h"
#include "tril/data/split.h"
#include "tril/data/token_file_writer.h"

namespace tril {
namespace {

// The largest character border at or below `at`; text is valid UTF-8.
size_t character_border(std::string_view text, size_t at) {
  while (at < text.size() && at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

void add_piece(std::vector<std::string_view>& pieces, std::string_view piece) {
  if (!piece.empty()) pieces.push_back(piece);
}

TextSplit split_ends(std::span<const Document> documents, double validation_fraction) {
  TextSplit split;
  for (const Document& document : documents) {
    const std::string_view text = document.text;
    const double kept = static_cast<double>(text.size()) * (1.0 - validation_fraction);
    const size_t cut = character_border(text, static_cast<size_t>(kept));
    add_piece(split.train, text.substr(0, cut));
    add_piece(split.validation, text.substr(cut));
  }
  return split;
}

TextSplit split_whole(std::span<const Document> documents, double validation_fraction) {
  TextSplit split;
  for (const Document& document : documents) {
    add_piece(split_place(document.text) < validation_fraction ? split.validation : split.train,
              document.text);
  }
  return split;
}

// How far into the document the piece begins; -1: it is of another.
int64_t place_in(const Document& document, std::string_view piece) {
  const char* begin = document.text.data();
  return piece.data() >= begin && piece.data() < begin + document.text.size() ? piece.data() - begin : -1;
}

std::string name_of_piece(const Document& document, int64_t place) {
  const std::string name = printable(document.name);
  return place == 0 ? name : fmt::format("{}, from byte {}", name, place);
}

// Pieces are in the order of the documents.
std::vector<int32_t> encode_pieces(const std::vector<std::string_view>& pieces,
                                   std::span<const Document> documents, const Tokenizer& tokenizer,
                                   const Corpus& corpus) {
  std::vector<int32_t> out;
  size_t of = 0;
  for (const std::string_view piece : pieces) {
    while (of + 1 < documents.size() && place_in(documents[of], piece) < 0) ++of;
    const int64_t place = place_in(documents[of], piece);
    if (corpus.begin_of_text >= 0 && place == 0) out.push_back(corpus.begin_of_text);
    try {
      tokenizer.encode(piece, out);
    } catch (const Error& error) {
      throw Error(error.kind(), name_of_piece(documents[of], place) + ": " + error.what());
    }
    if (corpus.end_of_text >= 0) out.push_back(corpus.end_of_text);
  }
  return out;
}

void check_enough(const Corpus& corpus, double validation_fraction, int64_t context) {
  check_data(corpus.train_tokens().size() > context,
             "the training text has {} tokens, but context {} needs at least {}; give more text or a smaller "
             "--context",
             corpus.train_tokens().size(), context, context + 1);
  check_data(
      validation_fraction == 0 || corpus.validation_tokens().size() > context,
      "the validation text has {} tokens, but context {} needs at least {} (the training text has {}); "
      "give more text, a smaller --context, a larger --val-fraction, or --val-fraction 0",
      corpus.validation_tokens().size(), context, context + 1, corpus.train_tokens().size());
}

int64_t total_bytes(const std::vector<std::string_view>& pieces) {
  int64_t bytes = 0;
  for (const std::string_view piece : pieces) bytes += std::ssize(piece);
  return bytes;
}

}  // namespace

int64_t Corpus::train_size() const {
  if (conversations) return std::ssize(conversations->train.tokens);
  int64_t size = train_tokens().size();
  for (const Corpus& source : sources) size += source.train_size();
  return size;
}

int64_t Corpus::validation_size() const {
  if (conversations) return std::ssize(conversations->validation.tokens);
  int64_t size = validation_tokens().size();
  for (const Corpus& source : sources) size += source.validation_size();
  return size;
}

std::vector<Document> read_documents(const std::vector<Path>& paths, int64_t* skipped_empty,
                                     const SourceOptions& options, int64_t* skipped_broken) {
  DocumentReader reader(find_sources(paths, options), options);
  std::vector<Document> documents;
  DocumentPiece piece;
  while (reader.next(piece)) {
    if (piece.first) {
      documents.push_back({reader.name_of(piece), std::move(piece.text)});
    } else if (piece.broken) {
      documents.pop_back();
    } else {
      documents.back().text += piece.text;
    }
  }
  const ReaderPosition& end = reader.position();
  check_data(!documents.empty(), "{}: all {} files or documents are empty; give files with text",
             printable(paths.front().string()), end.skipped_empty + end.skipped_broken);
  if (skipped_empty != nullptr) *skipped_empty = end.skipped_empty;
  if (skipped_broken != nullptr) *skipped_broken = end.skipped_broken;
  return documents;
}

TextSplit split_documents(std::span<const Document> documents, double validation_fraction) {
  check_use(validation_fraction >= 0 && validation_fraction < 1,
            "validation fraction {} is not in [0, 1); 0.1 is usual, 0 for none", validation_fraction);
  if (std::ssize(documents) >= kFewDocuments) {
    TextSplit split = split_whole(documents, validation_fraction);
    const bool both = !split.train.empty() && !split.validation.empty();
    if (both || validation_fraction == 0) return split;
  }
  return split_ends(documents, validation_fraction);
}

Corpus tokenize(std::span<const Document> documents, const Tokenizer& tokenizer, double validation_fraction,
                int64_t context) {
  const TextSplit split = split_documents(documents, validation_fraction);
  Corpus corpus;
  corpus.documents = std::ssize(documents);
  corpus.train_bytes = total_bytes(split.train);
  corpus.validation_bytes = total_bytes(split.validation);
  corpus.end_of_text = end_of_documents(tokenizer, documents.size() > 1);
  corpus.begin_of_text = tokenizer.begin_of_text();
  corpus.train = encode_pieces(split.train, documents, tokenizer, corpus);
  corpus.validation = encode_pieces(split.validation, documents, tokenizer, corpus);
  check_enough(corpus, validation_fraction, context);
  corpus.fingerprint = token_fingerprint(corpus.train, corpus.validation);
  return corpus;
}

Corpus read_corpus(const std::vector<SourceFile>& files, const Tokenizer& tokenizer, SourceOptions options,
                   double validation_fraction, int64_t context) {
  for (const SourceFile& file : files)
    check_use(
        !is_read_once(file.path),
        "{}: beside token ids a source is read twice, which a pipe cannot be; write it to a file first, "
        "or build a store with tril data build",
        file.path == "-" ? "standard input" : printable(file.path.string()));
  BuildOptions build;
  build.sources = options_for(tokenizer, std::move(options));
  build.validation_fraction = validation_fraction;
  const SplitPlan plan = plan_split(files, build);
  Corpus corpus;
  corpus.end_of_text = end_of_documents(tokenizer, plan.several);
  corpus.begin_of_text = tokenizer.begin_of_text();
  Batches batches(files, build, plan, {}, {});
  int64_t bytes[2] = {}, open_tokens = 0, documents[2] = {};
  for (std::vector<EncodingWork> works = batches.next(); !works.empty(); works = batches.next()) {
    for (EncodingWork& work : works) {
      std::vector<int32_t>& side = work.side == kTrainSide ? corpus.train : corpus.validation;
      encode_work(work, tokenizer, batches.reader());
      side.insert(side.end(), work.tokens.begin(), work.tokens.end());
      open_tokens += std::ssize(work.tokens);
      if (!work.ends) continue;
      if (work.drops) {
        side.resize(side.size() - static_cast<size_t>(open_tokens));
      } else {
        if (corpus.end_of_text >= 0) side.push_back(corpus.end_of_text);
        ++documents[work.side];
      }
      open_tokens = 0;
    }
  }
  for (const int32_t id : corpus.train) bytes[0] += std::ssize(tokenizer.token_bytes(id));
  for (const int32_t id : corpus.validation) bytes[1] += std::ssize(tokenizer.token_bytes(id));
  corpus.train_bytes = bytes[0];
  corpus.validation_bytes = bytes[1];
  corpus.skipped_broken = batches.state().position.skipped_broken;
  corpus.documents = plan.by_ends ? std::max(documents[0], documents[1]) : documents[0] + documents[1];
  check_enough(corpus, validation_fraction, context);
  corpus.fingerprint = token_fingerprint(corpus.train, corpus.validation);
  return corpus;
}

Corpus mix_corpora(std::vector<Corpus> corpora, std::vector<int64_t> weights) {
  check_use(!corpora.empty() && corpora.size() == weights.size(), "a mixture of {} sources has {} weights",
            corpora.size(), weights.size());
  Corpus out;
  for (size_t s = 0; s < corpora.size(); ++s) {
    const Corpus& source = corpora[s];
    out.train_bytes += source.train_bytes;
    out.validation_bytes += source.validation_bytes;
    out.documents += source.documents;
    out.end_of_text = std::max(out.end_of_text, source.end_of_text);
    check_use(
        source.begin_of_text == corpora[0].begin_of_text,
        "documents of one source begin with id {}, those of another with {} (-1: none): build the older "
        "store again",
        corpora[0].begin_of_text, source.begin_of_text);
    out.begin_of_text = source.begin_of_text;
    out.fingerprint += fmt::format("{}{} x {}", s == 0 ? "" : " + ", weights[s], source.fingerprint);
  }
  out.sources = std::move(corpora);
  out.weights = std::move(weights);
  return out;
}

Corpus conversation_corpus(std::shared_ptr<const ConversationCorpus> conversations) {
  Corpus corpus;
  corpus.train_bytes = conversations->train.learned_bytes;
  corpus.validation_bytes = conversations->validation.learned_bytes;
  corpus.documents = conversations->train.count() + conversations->validation.count();
  corpus.fingerprint = conversations->fingerprint;
  corpus.conversations = std::move(conversations);
  return corpus;
}

Corpus open_corpus(std::shared_ptr<const TokenStore> store, int64_t context) {
  const Json json = parse_json(store->description);
  const bool whole = json.is_object() && json.contains("fingerprint") && json["fingerprint"].is_string() &&
                     json.contains("documents") && json["documents"].is_number_integer() &&
                     json.contains("validation_fraction") && json["validation_fraction"].is_number();
  check_data(whole, "{}: store.json is damaged; build the store again", printable(store->folder.string()));
  Corpus corpus;
  corpus.train_bytes = store->train.header().text_bytes;
  corpus.validation_bytes = store->validation.header().text_bytes;
  corpus.documents = json["documents"];
  corpus.end_of_text = store->train.header().end_of_text;
  corpus.begin_of_text = store->train.header().begin_of_text;
  corpus.fingerprint = json["fingerprint"];
  corpus.store = std::move(store);
  check_enough(corpus, json["validation_fraction"], context);
  return corpus;
}

}  // namespace tril
