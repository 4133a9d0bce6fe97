// The serial half of a build: documents in order, each piece with its side of the split. Private to build.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tril/data/build.h"
#include "tril/data/split.h"

namespace tril {

// 128-bit hashes seen so far: open addressing, at most two thirds full.
class HashSet {
 public:
  bool insert(DocumentHash::Value hash);  // false if it was there
  int64_t size() const { return size_; }

 private:
  std::vector<DocumentHash::Value> slots_ = std::vector<DocumentHash::Value>(1024);
  int64_t size_ = 0;
};

// What must be known of the sources before the first token is written.
struct SplitPlan {
  bool several = false;  // documents: end-of-text tokens stand between them
  bool by_ends = false;
  std::vector<int64_t> sizes;  // by_ends: bytes or tokens of each document, -1: it is left out
};
// Reads on until it is known: enough documents, and one on each side; or to the end.
SplitPlan plan_split(const std::vector<SourceFile>& files, const BuildOptions& options);

enum Side { kTrainSide = 0, kValidationSide = 1 };

struct EncodingWork {
  std::string text;
  std::vector<int32_t> tokens;  // of the text, when it is encoded
  bool is_tokens = false;
  Side side = kTrainSide;
  bool begins = false;   // the document: begin-of-text stands before it
  bool ends = false;     // the document, on this side
  bool drops = false;    // instead of ending, it is left out
  DocumentPiece origin;  // without its content
};

// The text's tokens, unless it is tokens; with begin-of-text before those of a document, where the tokenizer
// has it and they do not begin with it. Errors begin with the name of the document. For several threads.
void encode_work(EncodingWork& work, const Tokenizer& tokenizer, const DocumentReader& reader);

// Where the serial half stands between two batches.
struct BatchState {
  ReaderPosition position;
  int64_t documents = 0;  // begun, those left out too
  Side side = kTrainSide;
  int64_t done = 0;  // bytes or tokens of the open document
  DocumentHash hash;
  int64_t duplicates = 0;
};

class Batches {
 public:
  Batches(std::vector<SourceFile> files, const BuildOptions& options, SplitPlan plan, const BatchState& from,
          HashSet seen);

  // The next works, of some MB together; none at the end.
  std::vector<EncodingWork> next();
  const BatchState& state() const { return state_; }
  std::vector<DocumentHash::Value> take_hashes() { return std::exchange(new_hashes_, {}); }
  DocumentReader& reader() { return reader_; }

 private:
  void add(DocumentPiece piece, std::vector<EncodingWork>& out);
  void add_by_ends(DocumentPiece piece, std::vector<EncodingWork>& out);
  bool is_duplicate(const DocumentPiece& piece);

  BuildOptions options_;
  SplitPlan plan_;
  DocumentReader reader_;
  BatchState state_;
  HashSet seen_;
  std::vector<DocumentHash::Value> new_hashes_;
};

}  // namespace tril
