// Writes one side of a token store, document by document, so that it can go on after a kill.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tril/base/parallel.h"
#include "tril/data/token_store.h"

namespace tril {

class TokenFileWriter {
 public:
  struct Kept {  // what stands already
    int64_t tokens = 0, documents = 0;
    int64_t document_begin = 0;  // of the document that is being written
  };
  // `header` says width, vocabulary, end of text and tokenizer. What the files hold beyond `kept` is cut off.
  // Of the document that is being written tokens may be missing: the caller dropped it later, and will again.
  TokenFileWriter(const Path& path, TokenFileHeader header, const Kept& kept);

  void append(std::span<const int32_t> tokens);
  void end_document();
  void drop_document();  // all that was appended since the last end
  Kept kept() const { return {tokens_, documents_, begin_}; }
  void sync();  // what was appended survives the machine
  // Writes offsets, counts and header; the file is then complete. "<path>.ends" stays: until the other side
  // is complete too, a killed build goes on from it. Throws kData for an id outside the vocabulary.
  void finish(Executor& executor, int64_t text_bytes);

 private:
  void flush();
  void append_table(uint32_t& crc);
  void pad();
  Path path_;
  TokenFileHeader header_;
  std::unique_ptr<GrowingFile> file_, ends_;  // ends_: where each document ends
  std::string buffer_;                        // of tokens, not yet in the file
  std::vector<uint64_t> end_buffer_;
  int64_t tokens_ = 0, documents_ = 0, begin_ = 0;
};

// The hash by which a run knows its tokens: of both sides as 32-bit numbers (Corpus::fingerprint). `forget`
// is called now and then, to give back memory of mapped files.
std::string token_fingerprint(const TokenView& train, const TokenView& validation,
                              const std::function<void()>& forget = {});

}  // namespace tril
