// Documents: from files and folders of UTF-8 text to train and validation tokens.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tril/data/packing.h"
#include "tril/data/sources.h"
#include "tril/data/token_store.h"
#include "tril/text/tokenizer.h"

namespace tril {

struct Document {
  std::string name;  // the path as found
  std::string text;
};

// The documents of sources of text, all in memory, as DocumentReader finds them. What is skipped in folders
// is counted in *skipped_empty, broken documents that were left out in *skipped_broken.
std::vector<Document> read_documents(const std::vector<Path>& paths, int64_t* skipped_empty = nullptr,
                                     const SourceOptions& options = {}, int64_t* skipped_broken = nullptr);

// The tokens of a run: in memory, those of a store, a mixture of such, or conversations.
struct Corpus {
  std::vector<int32_t> train;  // empty with a store
  std::vector<int32_t> validation;
  std::shared_ptr<const TokenStore> store;
  std::vector<Corpus> sources;   // of a mixture, which has no tokens of its own
  std::vector<int64_t> weights;  // of the sources: rows of training are read in these proportions
  std::shared_ptr<const ConversationCorpus> conversations;  // instead of all above
  int64_t train_bytes = 0;
  int64_t validation_bytes = 0;
  int64_t documents = 0;
  int64_t skipped_broken = 0;  // documents that read_corpus() left out
  int32_t end_of_text = -1;    // the token after each document, or -1: there is none
  int32_t begin_of_text = -1;  // the token before each document, or -1
  std::string fingerprint;     // of the tokens: resume refuses other data

  int32_t separator() const { return separator_of(begin_of_text, end_of_text); }

  // Not of a mixture, and not of conversations.
  TokenView train_tokens() const { return store ? store->train.tokens() : TokenView(train); }
  TokenView validation_tokens() const { return store ? store->validation.tokens() : TokenView(validation); }
  // Tokens of all sources.
  int64_t train_size() const;
  int64_t validation_size() const;
};

// With fewer than kFewDocuments documents the last `validation_fraction` of each is for validation, cut at a
// character border by bytes; with many, a document is for validation if a fixed hash of its first 64 KiB
// falls below the fraction (if that leaves one side empty, their ends are taken as with few). Before each
// document comes begin-of-text if the tokenizer has it, but not before its end on the validation side; after
// it end-of-text if the tokenizer has one and there is more than one document. Throws kData if
// either side has fewer than `context` + 1 tokens, naming the counts and what to do; fraction 0 gives no
// validation tokens.
inline constexpr int64_t kFewDocuments = 20;
struct TextSplit {
  std::vector<std::string_view> train;  // pieces of documents, in order
  std::vector<std::string_view> validation;
};
TextSplit split_documents(std::span<const Document> documents, double validation_fraction);
Corpus tokenize(std::span<const Document> documents, const Tokenizer& tokenizer, double validation_fraction,
                int64_t context);

// The same of sources that may hold token ids, without the text in memory.
Corpus read_corpus(const std::vector<SourceFile>& files, const Tokenizer& tokenizer, SourceOptions options,
                   double validation_fraction, int64_t context);
// Corpora as one, whose training windows are read in these proportions; validation text is that of all, one
// after another. The fingerprint is that of corpora and weights. Throws kUse unless each has a weight, and
// the documents of all begin with the same token, or none.
Corpus mix_corpora(std::vector<Corpus> corpora, std::vector<int64_t> weights);
// Of conversations, whose bytes are those that are learned.
Corpus conversation_corpus(std::shared_ptr<const ConversationCorpus> conversations);
// Of a store, whose tokens stay where they are; its split is what it was built with.
Corpus open_corpus(std::shared_ptr<const TokenStore> store, int64_t context);

}  // namespace tril
