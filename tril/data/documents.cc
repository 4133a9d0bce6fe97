#include "tril/data/documents.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/hash.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Drops the byte order mark; refuses what is not text.
std::string checked_text(std::string text, const std::string& name) {
  check_data(!text.starts_with("\xFF\xFE") && !text.starts_with("\xFE\xFF"),
             "{}: looks like UTF-16; convert it first: iconv -f UTF-16 -t UTF-8", name);
  const size_t nul = text.find('\0');
  check_data(nul == std::string::npos, "{}: not a text file (a NUL byte at offset {}); give plain UTF-8 text",
             name, nul);
  const auto invalid = first_invalid_utf8(text);
  if (invalid.has_value()) {
    fail(ErrorKind::kData,
         "{}: invalid UTF-8 at byte offset {} (0x{:02x}); if it is Latin-1: iconv -f LATIN1 -t UTF-8", name,
         *invalid, static_cast<unsigned char>(text[*invalid]));
  }
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

// All *.txt below a folder, sorted, so that the order does not depend on the file system.
std::vector<Path> text_files(const Path& folder) {
  std::vector<Path> files;
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    if (at->path().extension() == ".txt" && at->is_regular_file(ignored)) files.push_back(at->path());
  }
  check_data(!error, "{}: the folder cannot be read: {}; check its permissions", printable(folder.string()),
             error.message());
  check_data(!files.empty(), "{}: no *.txt files in this folder or below; name the files themselves",
             printable(folder.string()));
  std::sort(files.begin(), files.end());
  return files;
}

void add_folder(const Path& folder, std::vector<Document>& out, int64_t& skipped) {
  const size_t before = out.size();
  const std::vector<Path> files = text_files(folder);
  for (const Path& file : files) {
    std::string text = checked_text(read_text_file(file), printable(file.string()));
    if (text.empty()) {
      ++skipped;
    } else {
      out.push_back({file.string(), std::move(text)});
    }
  }
  check_data(out.size() > before, "{}: all {} *.txt files are empty; give files with text",
             printable(folder.string()), files.size());
}

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
    Hash64 hash;
    hash.add(std::string_view(document.text));
    const double place = static_cast<double>(hash.value() >> 11) * 0x1p-53;
    add_piece(place < validation_fraction ? split.validation : split.train, document.text);
  }
  return split;
}

// The document that a piece was cut from, for messages.
std::string origin(std::span<const Document> documents, std::string_view piece) {
  for (const Document& document : documents) {
    const char* begin = document.text.data();
    if (piece.data() < begin || piece.data() >= begin + document.text.size()) continue;
    if (piece.data() == begin) return printable(document.name);
    return fmt::format("{}, from byte {}", printable(document.name), piece.data() - begin);
  }
  return "text";
}

std::vector<int32_t> encode_pieces(const std::vector<std::string_view>& pieces,
                                   std::span<const Document> documents, const Tokenizer& tokenizer,
                                   int32_t end_of_text) {
  std::vector<int32_t> out;
  for (const std::string_view piece : pieces) {
    try {
      const std::vector<int32_t> ids = tokenizer.encode(piece);
      out.insert(out.end(), ids.begin(), ids.end());
    } catch (const Error& error) {
      throw Error(error.kind(), origin(documents, piece) + ": " + error.what());
    }
    if (end_of_text >= 0) out.push_back(end_of_text);
  }
  return out;
}

int64_t total_bytes(const std::vector<std::string_view>& pieces) {
  int64_t bytes = 0;
  for (const std::string_view piece : pieces) bytes += std::ssize(piece);
  return bytes;
}

}  // namespace

std::vector<Document> read_documents(const std::vector<Path>& paths, int64_t* skipped_empty) {
  check_use(!paths.empty(), "no text given; name a file, a folder, or - for standard input");
  std::vector<Document> documents;
  int64_t skipped = 0;
  for (const Path& path : paths) {
    std::error_code ignored;
    if (path != "-" && std::filesystem::is_directory(path, ignored)) {
      add_folder(path, documents, skipped);
      continue;
    }
    const std::string name = path == "-" ? "standard input" : path.string();
    std::string text =
        checked_text(path == "-" ? read_standard_input() : read_text_file(path), printable(name));
    check_data(!text.empty(), "{}: empty; give a file with text", printable(name));
    documents.push_back({name, std::move(text)});
  }
  if (skipped_empty != nullptr) *skipped_empty = skipped;
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
  if (documents.size() > 1) corpus.end_of_text = tokenizer.end_of_text();
  corpus.train = encode_pieces(split.train, documents, tokenizer, corpus.end_of_text);
  corpus.validation = encode_pieces(split.validation, documents, tokenizer, corpus.end_of_text);
  check_data(std::ssize(corpus.train) > context,
             "the training text has {} tokens, but context {} needs at least {}; give more text or a smaller "
             "--context",
             corpus.train.size(), context, context + 1);
  check_data(
      validation_fraction == 0 || std::ssize(corpus.validation) > context,
      "the validation text has {} tokens, but context {} needs at least {} (the training text has {}); "
      "give more text, a smaller --context, a larger --val-fraction, or --val-fraction 0",
      corpus.validation.size(), context, context + 1, corpus.train.size());
  Hash64 hash;
  hash.add(std::span<const int32_t>(corpus.train));
  hash.add(std::span<const int32_t>(corpus.validation));
  corpus.fingerprint = hash.hex();
  return corpus;
}

}  // namespace tril
