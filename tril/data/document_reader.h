// DocumentReader: the documents of any sources, one after another, in pieces of bounded size.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tril/data/sources.h"
#include "tril/data/token_view.h"

namespace tril {

// A document, or a part of one that is large. Text is valid UTF-8 without NUL bytes.
struct DocumentPiece {
  std::string text;             // of a source of text
  std::vector<int32_t> tokens;  // of a source of token ids, within the vocabulary and defined
  bool is_tokens = false;
  bool first = true, last = true;
  bool broken = false;  // with last: what came of this document before must be dropped; it was reported
  int64_t file = 0;     // among the sources
  int64_t place = 0;    // line of JSON lines; of other files the byte (text) or token where the piece begins
};

// Where reading goes on: behind a piece.
struct ReaderPosition {
  int64_t file = 0;
  int64_t offset = 0;  // in the file's text, or in tokens
  int64_t line = 0;    // lines before
  bool in_document = false;
  int64_t skipped_empty = 0, skipped_broken = 0;
};

class DocumentReader {
 public:
  DocumentReader(std::vector<SourceFile> files, SourceOptions options, const ReaderPosition& from = {});
  ~DocumentReader();

  // False at the end. Empty documents are skipped and counted, except named files without anything, which are
  // refused. Throws kData naming file and place: no valid text (unless on_broken takes it), unreadable files,
  // ids outside the vocabulary or undefined.
  bool next(DocumentPiece& piece);

  const ReaderPosition& position() const { return position_; }  // behind the last piece
  const std::vector<SourceFile>& files() const { return files_; }
  std::string name_of(const DocumentPiece& piece) const;  // file and line, for messages
  // Bytes of the files that were read so far, and of all of them; -1: unknown.
  int64_t bytes_read() const;
  int64_t bytes_total() const { return total_; }

 private:
  struct OpenFile;
  bool next_in_file(DocumentPiece& piece);
  bool next_text(DocumentPiece& piece);
  bool next_line(DocumentPiece& piece);
  bool next_tokens(DocumentPiece& piece);
  bool take_text(DocumentPiece& piece);
  bool take_line(std::string_view& line, const std::string& name);
  void broken(const std::string& problem);
  void open();
  void close();

  std::vector<SourceFile> files_;
  SourceOptions options_;
  ReaderPosition position_;
  std::unique_ptr<OpenFile> open_;
  int64_t in_file_ = 0;  // documents and skipped ones of the open file so far
  int64_t total_ = 0, done_ = 0;
};

// Where a piece of about `want` bytes ends in a text that goes on behind it. It depends on the first 2 `want`
// + 4 bytes alone; there must be as many.
size_t piece_end(std::string_view text, size_t want);

}  // namespace tril
