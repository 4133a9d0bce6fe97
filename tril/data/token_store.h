// A token store: text that was tokenized once, in a folder.
//
//   train.tokens, validation.tokens   the tokens of each side, memory-mapped for reading; docs/data.md has
//                                     the format to the byte
//   tokenizer.json                    what made them
//   store.json                        sources, split, fingerprint: for people, and for `tril train`
//
// Opening reads headers alone, so that gigabytes open in a moment; verify() reads everything.
#pragma once

#include <span>
#include <string>

#include "tril/base/files.h"
#include "tril/data/token_view.h"

namespace tril {

class Tokenizer;

// What the header of a .tokens file says.
struct TokenFileHeader {
  int64_t token_bytes = 2;  // 2, or 4 where ids need more
  int64_t vocabulary = 0;   // of the tokenizer
  int64_t tokens = 0;
  int64_t documents = 0;
  int64_t text_bytes = 0;      // of the text that became these tokens
  int32_t end_of_text = -1;    // the token after each document, or -1: there is none
  int32_t begin_of_text = -1;  // the token before the text of each document that is not the rest of one
  std::string tokenizer;       // its fingerprint
};

// The token by which a model that reads documents knows that another begins; -1: there is none.
inline int32_t separator_of(int32_t begin_of_text, int32_t end_of_text) {
  return begin_of_text >= 0 ? begin_of_text : end_of_text;
}

// One side of a store. Throws kData naming the path: not such a file, another version, damaged or cut.
class TokenFile {
 public:
  explicit TokenFile(const Path& path);

  const TokenFileHeader& header() const { return header_; }
  const Path& path() const { return path_; }
  TokenView tokens() const;
  int64_t documents() const { return header_.documents; }
  // Where document i begins, 0 <= i <= documents(); document i ends where i + 1 begins, its end-of-text token
  // included. Throws kData if the table is damaged there.
  int64_t document_begin(int64_t i) const;
  TokenView document(int64_t i) const;
  // Document i without the begin-of-text token before and the end-of-text token behind it; where that begins.
  TokenView text_of(int64_t i) const;
  int64_t text_begin(int64_t i) const;
  // How often each id of the vocabulary occurs.
  std::span<const uint64_t> counts() const;
  // Reads all: checksums, the table of documents, the range of the ids. Throws kData with the first fault.
  void verify() const;
  void forget() const { file_.forget(); }  // as MappedFile

 private:
  std::span<const uint64_t> table() const;  // documents + 1
  Path path_;
  std::string name_;  // the path, as messages show it
  MappedFile file_;
  TokenFileHeader header_;
};

struct TokenStore {
  // Throws kData if a file is missing or damaged, or the two sides do not belong together.
  explicit TokenStore(const Path& folder);

  Path folder;
  TokenFile train, validation;
  std::string description;  // store.json
  Path tokenizer_path() const { return folder / "tokenizer.json"; }
};

bool is_token_store(const Path& path);  // a folder with a train.tokens

// Tokens of a side, from place `begin` on, before they become text. Throws kData naming the file, the place
// and the id of the first that is none of the tokenizer's.
void check_ids(const TokenFile& side, int64_t begin, std::span<const int32_t> tokens,
               const Tokenizer& tokenizer);

namespace token_store {

inline constexpr int64_t kHeaderBytes = 128;
std::string format_header(const TokenFileHeader& header, uint32_t tokens_crc32, uint32_t documents_crc32,
                          uint32_t counts_crc32);
int64_t documents_offset(const TokenFileHeader& header);
int64_t counts_offset(const TokenFileHeader& header);
int64_t file_size(const TokenFileHeader& header);

}  // namespace token_store
}  // namespace tril
