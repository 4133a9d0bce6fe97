// Sources: which files a user's paths stand for, and what is in them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/files.h"

namespace tril {

enum class SourceFormat { kText, kJsonLines, kNumPy, kHdf5, kTokenBin };
enum class TextEncoding { kUtf8, kUtf16, kUtf16Le, kUtf16Be, kLatin1, kWindows1252 };
enum class SourceSide { kBySplit, kTrain, kValidation };  // kBySplit: the split decides

struct SourceFile {
  Path path;  // "-" is standard input
  SourceFormat format = SourceFormat::kText;
  bool in_folder = false;  // found, not named: may be empty
  SourceSide side = SourceSide::kBySplit;
};

struct SourceOptions {
  // Of text files: a document ends where this stands; empty: a file is one document.
  std::string separator;
  std::string field = "text";  // of JSON lines; "a.b" is b within a
  bool whole_lines = false;    // of JSON lines: the line itself, as it stands
  TextEncoding encoding = TextEncoding::kUtf8;
  // Names of files that folders are searched for, each ".cc" or the like, beside text, Markdown and JSON
  // lines.
  std::vector<std::string> extensions;
  // A document that is no valid text is left out, and told here with its place; without it kData is thrown.
  std::function<void(const std::string& problem)> on_broken;
  // Of files of token ids: how they are read.
  int64_t vocabulary = 0;
  int32_t end_of_text = -1;     // ends or begins documents, -1: a file is one document
  std::vector<bool> undefined;  // by id: it stands for nothing; empty: there is none
  // Longer documents come in pieces: text is cut before a line that begins with a letter (or with what is
  // beyond U+00C0 and no space), where no known pattern of a tokenizer has a token across; in want of one, at
  // a space; else between characters.
  int64_t piece_bytes = int64_t{1} << 17;
};

// Files as given; folders are searched in sorted order, sub-folders included, for text (.txt, .text),
// Markdown, JSON lines, each perhaps with .gz or .zst behind, and `extensions`; what begins with a full stop
// is left out. A folder with none of them but a train.bin is nanoGPT's: train.bin, and val.bin for
// validation. Throws kUse without paths; kData: a path that is missing, a folder without such files, a format
// that is not read (Parquet, Arrow, archives), with what to do instead.
std::vector<SourceFile> find_sources(const std::vector<Path>& paths, const SourceOptions& options);

// The format by the name alone, ".gz" and ".zst" left out.
SourceFormat format_of_name(const Path& path);
inline bool has_token_ids(SourceFormat format) {
  return format != SourceFormat::kText && format != SourceFormat::kJsonLines;
}

// Standard input, a pipe or a device: its bytes come once.
bool is_read_once(const Path& path);

// "utf-8", "utf-16", "utf-16le", "utf-16be", "latin-1", "windows-1252". Throws kUse listing them.
TextEncoding parse_encoding(std::string_view name);
// What programs are written in: .c, .cc, .py and so on.
const std::vector<std::string>& code_extensions();

}  // namespace tril
