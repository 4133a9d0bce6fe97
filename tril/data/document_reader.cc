#include "tril/data/document_reader.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/containers/json_field.h"
#include "tril/data/text_stream.h"
#include "tril/data/token_array.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

constexpr size_t kLongestLine = size_t{64} << 20;
constexpr int64_t kBlockTokens = 1 << 14;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Whether the line break at `at`, within the text, stands alone before something like a letter.
bool ends_line(std::string_view text, size_t at) {
  size_t before = at - 1;
  while (before > 0 && at - before < 4 && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
  const char32_t next = utf8_decode(text, at + 1);
  return !is_space(utf8_decode(text, before)) && (next >= 0xC0 ? !is_space(next) : is_letter(text[at + 1]));
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

std::string name_of_path(const Path& path) {
  return path == "-" ? "standard input" : printable(path.string());
}

// UTF-16 without a mark: every other byte of its Latin letters is 0.
bool looks_like_utf16(std::string_view text) {
  text = text.substr(0, 200);
  size_t zeros[2] = {};
  for (size_t i = 0; i < text.size(); ++i) zeros[i % 2] += text[i] == '\0';
  const size_t pairs = text.size() / 2;
  return pairs >= 4 &&
         ((zeros[0] == 0 && zeros[1] >= pairs * 3 / 4) || (zeros[1] == 0 && zeros[0] >= pairs * 3 / 4));
}

constexpr const char* kUtf16Advice =
    "looks like UTF-16; add --encoding utf-16, or convert it first: iconv -f UTF-16 -t UTF-8";

// What is wrong with a text as a document, or nothing.
std::string text_problem(std::string_view text, int64_t offset, bool utf16_mark) {
  if (utf16_mark) return kUtf16Advice;
  if (const size_t nul = text.find('\0'); nul != text.npos) {
    if (offset == 0 && looks_like_utf16(text)) return kUtf16Advice;
    return fmt::format("not a text file (a NUL byte at offset {}); give plain UTF-8 text",
                       offset + static_cast<int64_t>(nul));
  }
  const auto invalid = first_invalid_utf8(text);
  if (!invalid) return "";
  return fmt::format(
      "invalid UTF-8 at byte offset {} (0x{:02x}); if it is Latin-1, add --encoding latin-1, or convert it "
      "first: iconv "
      "-f LATIN1 -t UTF-8",
      offset + static_cast<int64_t>(*invalid), static_cast<unsigned char>(text[*invalid]));
}

std::string utf16_problem(int64_t offset) {
  return fmt::format(
      "damaged UTF-16 at byte {} of the file (half of a pair, or half a unit at the end); is it another "
      "encoding, or cut?",
      offset);
}

// Zstd and gzip data that were not decompressed have no such begins; what people rename is this.
void refuse_content(std::string_view start, const std::string& name) {
  check_data(
      !start.starts_with("PAR1"),
      "{}: this is Parquet, which is not read here; write its text column as JSON lines first (pandas: "
      "read_parquet, to_json with orient='records' and lines=True)",
      name);
  check_data(!start.starts_with("ARROW1"),
             "{}: this is Arrow, which is not read here; write it as JSON lines", name);
}

}  // namespace

size_t piece_end(std::string_view text, size_t want) {
  const size_t most = 2 * want;
  for (size_t at = want; (at = text.find('\n', at)) < most; ++at)
    if (ends_line(text, at)) return at + 1;
  for (size_t at = want; (at = text.find(' ', at)) < most; ++at)
    if (is_letter(text[at - 1]) && is_letter(text[at + 1])) return at;
  size_t at = most;
  while (at > most - 3 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

struct DocumentReader::OpenFile {
  std::string name;  // as messages show it
  std::unique_ptr<TextStream> text;
  std::unique_ptr<TokenArray> tokens;
  std::vector<int64_t> block;  // of the tokens, from block_begin
  int64_t block_begin = 0;
  int64_t utf16_fault = -1;  // of the piece taken last: the byte of the file, -1: there is none

  int64_t token(int64_t i) {
    if (i < block_begin || i >= block_begin + std::ssize(block)) {
      block.resize(static_cast<size_t>(std::min(kBlockTokens, tokens->size() - i)));
      tokens->read(i, block);
      block_begin = i;
    }
    return block[static_cast<size_t>(i - block_begin)];
  }
};

DocumentReader::DocumentReader(std::vector<SourceFile> files, SourceOptions options,
                               const ReaderPosition& from)
    : files_(std::move(files)), options_(std::move(options)), position_(from) {
  check_use(options_.piece_bytes >= 64, "pieces of {} bytes are too small; at least 64",
            options_.piece_bytes);
  for (size_t i = 0; i < files_.size(); ++i) {
    std::error_code unknown;
    const auto size = files_[i].path == "-" ? 0 : std::filesystem::file_size(files_[i].path, unknown);
    const bool known = !unknown && files_[i].path != "-";
    total_ = known && total_ >= 0 ? total_ + static_cast<int64_t>(size) : -1;
    if (static_cast<int64_t>(i) < from.file) done_ += static_cast<int64_t>(size);
  }
  in_file_ = from.offset > 0;
}

DocumentReader::~DocumentReader() = default;

std::string DocumentReader::name_of(const DocumentPiece& piece) const {
  const SourceFile& file = files_[static_cast<size_t>(piece.file)];
  const std::string name = name_of_path(file.path);
  if (file.format == SourceFormat::kJsonLines) return fmt::format("{}, line {}", name, piece.place);
  if (piece.place == 0) return name;
  return fmt::format("{}, from {} {}", name, piece.is_tokens ? "token" : "byte", piece.place);
}

int64_t DocumentReader::bytes_read() const {
  if (!open_) return done_;
  if (open_->text) return done_ + open_->text->bytes().file_position();
  return done_ + position_.offset * open_->tokens->item_bytes();
}

void DocumentReader::open() {
  const SourceFile& file = files_[static_cast<size_t>(position_.file)];
  open_ = std::make_unique<OpenFile>();
  open_->name = name_of_path(file.path);
  if (has_token_ids(file.format)) {
    check_use(options_.vocabulary > 0,
              "{}: holds token ids, not text; name the tokenizer that made them with --tokenizer FILE",
              name_of_path(file.path));
    open_->tokens = std::make_unique<TokenArray>(file.path, file.format);
    return;
  }
  open_->text = std::make_unique<TextStream>(file.path, options_.encoding, position_.offset);
  if (position_.offset == 0) refuse_content(open_->text->ahead(8), name_of_path(file.path));
}

void DocumentReader::close() {
  const SourceFile& file = files_[static_cast<size_t>(position_.file)];
  if (in_file_ == 0) {
    check_data(file.in_folder, "{}: empty; give a file with text", name_of_path(file.path));
    ++position_.skipped_empty;
  }
  std::error_code unknown;
  const auto size = file.path == "-" ? 0 : std::filesystem::file_size(file.path, unknown);
  if (!unknown) done_ += static_cast<int64_t>(size);
  open_.reset();
  ++position_.file;
  position_.offset = position_.line = in_file_ = 0;
  position_.in_document = false;
}

bool DocumentReader::next(DocumentPiece& piece) {
  while (position_.file < std::ssize(files_)) {
    if (!open_) open();
    if (next_in_file(piece)) return true;
    close();
  }
  return false;
}

bool DocumentReader::next_in_file(DocumentPiece& piece) {
  const SourceFormat format = files_[static_cast<size_t>(position_.file)].format;
  piece = {};
  piece.file = position_.file;
  piece.first = !position_.in_document;
  bool found = false;
  if (open_->tokens)
    found = next_tokens(piece);
  else
    found = format == SourceFormat::kJsonLines ? next_line(piece) : next_text(piece);
  if (!found) return false;
  ++in_file_;
  position_.in_document = !piece.last;
  return true;
}

void DocumentReader::broken(const std::string& problem) {
  if (!options_.on_broken) throw Error(ErrorKind::kData, problem);
  options_.on_broken(problem);
  ++position_.skipped_broken;
  ++in_file_;
}

// Moves the next piece of the document into `piece`; false where the text ends before it.
bool DocumentReader::take_text(DocumentPiece& piece) {
  TextStream& stream = *open_->text;
  const auto want = static_cast<size_t>(options_.piece_bytes);
  const std::string& separator = options_.separator;
  const size_t window = 2 * want + 4 + separator.size();
  const std::string_view text = stream.ahead(window);
  piece.place = stream.offset();
  if (text.empty()) return false;
  const std::string_view near = text.substr(0, window);
  const size_t found = separator.empty() ? near.npos : near.find(separator);
  size_t size = 0, skip = 0;
  if (found != near.npos && (found <= 2 * want || text.size() < window)) {
    size = found;
    skip = separator.size();
  } else if (text.size() < window) {
    size = text.size();
  } else {
    size = piece_end(text, want);
    piece.last = false;
  }
  piece.text.assign(text.data(), size);
  const auto fault = stream.is_utf16() ? first_invalid_utf8(piece.text) : std::nullopt;
  open_->utf16_fault = fault ? stream.utf16_offset(*fault) : -1;
  stream.consume(size + skip);
  position_.offset = stream.offset();
  return true;
}

bool DocumentReader::next_text(DocumentPiece& piece) {
  const std::string& name = open_->name;
  const DocumentPiece fresh = piece;
  while (take_text(piece)) {
    const bool mark = piece.place == 0 && open_->text->has_mark_of_utf16();
    const std::string problem = open_->utf16_fault >= 0 ? utf16_problem(open_->utf16_fault)
                                                        : text_problem(piece.text, piece.place, mark);
    if (!problem.empty()) {
      broken(name + ": " + problem);
      const bool begun = !piece.first;
      // What is broken is one document and not the file: over the rest of it.
      for (bool last = piece.last; !last; last = piece.last) {
        piece = {};
        if (!take_text(piece)) break;
      }
      piece = fresh;
      piece.first = !begun;
      piece.broken = begun;
      if (begun) return true;
      continue;
    }
    const bool empty = piece.text.empty() || (!options_.separator.empty() && is_blank(piece.text));
    if (!empty || !piece.first || !piece.last) return true;
    ++position_.skipped_empty;  // between two separators
    ++in_file_;
    piece = fresh;
  }
  return !piece.first;
}

// The line ahead without its end; false at the end of the text. A line that is too long is left out.
bool DocumentReader::take_line(std::string_view& line, const std::string& name) {
  TextStream& stream = *open_->text;
  std::string_view text = stream.ahead(1);
  if (text.empty()) return false;
  ++position_.line;
  size_t end = text.find('\n'), size = text.size();
  while (end == text.npos && size <= kLongestLine) {
    text = stream.ahead(size + 1);
    if (text.size() == size) break;  // the last line
    end = text.find('\n', size);
    size = text.size();
  }
  if (end == text.npos && size > kLongestLine) {
    broken(fmt::format("{}, line {}: longer than {} bytes; is this a file of JSON lines?", name,
                       position_.line, kLongestLine));
    for (; end == text.npos && !text.empty(); end = text.find('\n')) {
      stream.consume(text.size());
      text = stream.ahead(1);
    }
    stream.consume(std::min(end, text.size()));
    line = {};
    return true;
  }
  line = text.substr(0, end);
  return true;
}

bool DocumentReader::next_line(DocumentPiece& piece) {
  TextStream& stream = *open_->text;
  const std::string& name = open_->name;
  std::string_view line;
  while (take_line(line, name)) {
    std::string problem;
    const bool blank = is_blank(line);
    if (position_.line == 1 && stream.has_mark_of_utf16())
      problem = kUtf16Advice;
    else if (const auto fault = stream.is_utf16() ? first_invalid_utf8(line) : std::nullopt)
      problem = utf16_problem(stream.utf16_offset(*fault));
    else if (!blank && options_.whole_lines)
      piece.text.assign(line);
    else if (!blank)
      problem = read_json_field(line, options_.field, piece.text);
    if (!blank && problem.empty()) {
      problem = text_problem(piece.text, 0, false);
      if (!problem.empty()) problem = "in the text: " + problem;
    }
    const bool more = stream.ahead(line.size() + 1).size() > line.size();
    stream.consume(line.size() + (more ? 1 : 0));
    position_.offset = stream.offset();
    if (!problem.empty()) {
      broken(fmt::format("{}, line {}: {}", name, position_.line, problem));
    } else if (!blank && piece.text.empty()) {
      ++position_.skipped_empty;
      ++in_file_;
    } else if (!blank) {
      piece.place = position_.line;
      return true;
    }
  }
  return false;
}

bool DocumentReader::next_tokens(DocumentPiece& piece) {
  OpenFile& file = *open_;
  const int64_t most = options_.piece_bytes / 4, size = file.tokens->size();
  piece.is_tokens = true;
  const auto at_end_of_text = [&](int64_t i) {
    const int64_t id = file.token(i);
    check_data(
        id >= 0 && id < options_.vocabulary,
        "{}: token {} has id {}, outside the tokenizer's vocabulary of {}; give the tokenizer that made it",
        open_->name, i, id, options_.vocabulary);
    check_data(options_.undefined.empty() || !options_.undefined[static_cast<size_t>(id)],
               "{}: token {} has id {}, which stands for nothing in this tokenizer; give the tokenizer that "
               "made it",
               open_->name, i, id);
    return id == options_.end_of_text;
  };
  int64_t at = position_.offset;
  if (piece.first)
    while (at < size && at_end_of_text(at)) ++at;
  piece.place = at;
  piece.last = false;
  while (at < size && std::ssize(piece.tokens) < most && !piece.last) {
    piece.last = at_end_of_text(at);
    if (!piece.last) piece.tokens.push_back(static_cast<int32_t>(file.token(at)));
    ++at;
  }
  if (at == size) piece.last = true;
  position_.offset = at;
  return !piece.tokens.empty() || !piece.first;
}

}  // namespace tril
