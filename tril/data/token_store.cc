#include "tril/data/token_store.h"

#include <algorithm>
#include <cstring>

#include "tril/base/bytes.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/base/sizes.h"
#include "tril/containers/checksum.h"
#include "tril/text/tokenizer.h"

namespace tril {
namespace {

using token_store::kHeaderBytes;

constexpr std::string_view kMagic = "TRILTOK\n";
constexpr uint32_t kVersion = 1;
constexpr int64_t kAlignment = 64;
constexpr size_t kFingerprintBytes = 32;
constexpr int64_t kMost = int64_t{1} << 56;  // of any count: sums of a few stay within 64 bits

// Where each field of the header begins.
enum : size_t {
  kVersionAt = 8,
  kTokenBytesAt = 12,
  kVocabularyAt = 16,
  kTokensAt = 24,
  kDocumentsAt = 32,
  kTextBytesAt = 40,
  kEndOfTextAt = 48,
  kBeginOfTextAt = 52,  // plus 1: files of before have 0 here
  kFingerprintAt = 56,
  kTokensCrcAt = 88,
  kDocumentsCrcAt = 92,
  kCountsCrcAt = 96,
  kHeaderCrcAt = 124
};

template <class T>
void put(std::string& header, size_t at, T value) {
  std::memcpy(header.data() + at, &value, sizeof value);
}

std::string name_of(const Path& path) { return printable(path.string()); }

TokenFileHeader read_header(std::span<const std::byte> bytes, const Path& path) {
  const std::string name = name_of(path);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  check_data(text.starts_with(kMagic) && std::ssize(bytes) >= kHeaderBytes,
             "{}: not a token file of tril; build the store again with tril data build", name);
  const auto version = number_at<uint32_t>(bytes, kVersionAt);
  check_data(version == kVersion, "{}: version {} of the format, this tril reads {}; build the store again",
             name, version, kVersion);
  check_data(crc32(bytes.first(kHeaderCrcAt)) == number_at<uint32_t>(bytes, kHeaderCrcAt),
             "{}: the header is damaged (its checksum differs); build the store again", name);
  TokenFileHeader header;
  header.token_bytes = number_at<uint32_t>(bytes, kTokenBytesAt);
  header.vocabulary = number_at<int64_t>(bytes, kVocabularyAt);
  header.tokens = number_at<int64_t>(bytes, kTokensAt);
  header.documents = number_at<int64_t>(bytes, kDocumentsAt);
  header.text_bytes = number_at<int64_t>(bytes, kTextBytesAt);
  header.end_of_text = number_at<int32_t>(bytes, kEndOfTextAt);
  const auto begin_of_text = number_at<uint32_t>(bytes, kBeginOfTextAt);
  const std::string_view fingerprint = text.substr(kFingerprintAt, kFingerprintBytes);
  header.tokenizer = fingerprint.substr(0, fingerprint.find('\0'));
  const auto sane = [](int64_t count) { return count >= 0 && count <= kMost; };
  check_data((header.token_bytes == 2 || header.token_bytes == 4) && header.vocabulary <= INT32_MAX &&
                 sane(header.vocabulary) && sane(header.tokens) && sane(header.documents) &&
                 sane(header.text_bytes) && header.end_of_text >= -1 &&
                 header.end_of_text < header.vocabulary && begin_of_text <= header.vocabulary,
             "{}: the header has impossible numbers ({} tokens of {} bytes, {} documents, vocabulary {}); "
             "build the store again",
             name, header.tokens, header.token_bytes, header.documents, header.vocabulary);
  header.begin_of_text = static_cast<int32_t>(begin_of_text) - 1;
  check_data(std::ssize(bytes) == token_store::file_size(header),
             "{}: {} bytes, but the header tells of {}: cut or damaged; build the store again", name,
             bytes.size(), token_store::file_size(header));
  return header;
}

// In pieces, given back once they were read.
uint32_t checksum(const MappedFile& file, int64_t begin, int64_t size) {
  constexpr int64_t kPiece = int64_t{1} << 24;
  uint32_t crc = 0;
  for (int64_t at = 0; at < size; at += kPiece) {
    const auto piece = file.bytes().subspan(static_cast<size_t>(begin + at),
                                            static_cast<size_t>(std::min(kPiece, size - at)));
    crc = crc32(piece, crc);
    file.forget();
  }
  return crc;
}

}  // namespace

namespace token_store {

int64_t documents_offset(const TokenFileHeader& header) {
  return round_up(kHeaderBytes + header.tokens * header.token_bytes, kAlignment);
}

int64_t counts_offset(const TokenFileHeader& header) {
  return round_up(documents_offset(header) + 8 * (header.documents + 1), kAlignment);
}

int64_t file_size(const TokenFileHeader& header) { return counts_offset(header) + 8 * header.vocabulary; }

std::string format_header(const TokenFileHeader& header, uint32_t tokens_crc32, uint32_t documents_crc32,
                          uint32_t counts_crc32) {
  std::string out(kHeaderBytes, '\0');
  std::memcpy(out.data(), kMagic.data(), kMagic.size());
  put(out, kVersionAt, kVersion);
  put(out, kTokenBytesAt, static_cast<uint32_t>(header.token_bytes));
  put(out, kVocabularyAt, header.vocabulary);
  put(out, kTokensAt, header.tokens);
  put(out, kDocumentsAt, header.documents);
  put(out, kTextBytesAt, header.text_bytes);
  put(out, kEndOfTextAt, header.end_of_text);
  put(out, kBeginOfTextAt, header.begin_of_text + 1);
  std::memcpy(out.data() + kFingerprintAt, header.tokenizer.data(),
              std::min(header.tokenizer.size(), kFingerprintBytes));
  put(out, kTokensCrcAt, tokens_crc32);
  put(out, kDocumentsCrcAt, documents_crc32);
  put(out, kCountsCrcAt, counts_crc32);
  put(out, kHeaderCrcAt, crc32(std::as_bytes(std::span(out)).first(kHeaderCrcAt)));
  return out;
}

}  // namespace token_store

TokenFile::TokenFile(const Path& path)
    : path_(path), name_(name_of(path)), file_(path), header_(read_header(file_.bytes(), path)) {}

TokenView TokenFile::tokens() const {
  const std::byte* const begin = file_.bytes().data() + kHeaderBytes;
  const auto count = static_cast<size_t>(header_.tokens);
  if (header_.token_bytes == 2)
    return std::span<const uint16_t>(reinterpret_cast<const uint16_t*>(begin), count);
  return std::span<const int32_t>(reinterpret_cast<const int32_t*>(begin), count);
}

std::span<const uint64_t> TokenFile::table() const {
  const std::byte* const begin = file_.bytes().data() + token_store::documents_offset(header_);
  return {reinterpret_cast<const uint64_t*>(begin), static_cast<size_t>(header_.documents + 1)};
}

std::span<const uint64_t> TokenFile::counts() const {
  const std::byte* const begin = file_.bytes().data() + token_store::counts_offset(header_);
  return {reinterpret_cast<const uint64_t*>(begin), static_cast<size_t>(header_.vocabulary)};
}

int64_t TokenFile::document_begin(int64_t i) const {
  check_use(i >= 0 && i <= header_.documents, "{}: there is no document {}; the last is {}", name_, i,
            header_.documents - 1);
  const uint64_t begin = table()[static_cast<size_t>(i)];
  check_data(begin <= static_cast<uint64_t>(header_.tokens),
             "{}: document {} begins at token {} of {}: damaged; build the store again", name_, i, begin,
             header_.tokens);
  return static_cast<int64_t>(begin);
}

TokenView TokenFile::document(int64_t i) const {
  check_use(i >= 0 && i < header_.documents, "{}: there is no document {}; there are {}", name_, i,
            header_.documents);
  const int64_t begin = document_begin(i), end = document_begin(i + 1);
  check_data(begin <= end, "{}: document {} ends at token {} before it begins at {}: damaged", name_, i, end,
             begin);
  return tokens().part(begin, end - begin);
}

TokenView TokenFile::text_of(int64_t i) const {
  const TokenView view = document(i);
  const int64_t before = text_begin(i) - document_begin(i);
  const bool ended = view.size() > before && view[view.size() - 1] == header_.end_of_text;
  return view.part(before, view.size() - ended - before);
}

int64_t TokenFile::text_begin(int64_t i) const {
  const TokenView view = document(i);
  return document_begin(i) + (!view.empty() && view[0] == header_.begin_of_text);
}

void TokenFile::verify() const {
  const auto check = [&](std::string_view what, int64_t begin, int64_t size, size_t field) {
    check_data(checksum(file_, begin, size) == number_at<uint32_t>(file_.bytes(), field),
               "{}: the {} are damaged (their checksum differs); build the store again", name_, what);
  };
  check("tokens", kHeaderBytes, header_.tokens * header_.token_bytes, kTokensCrcAt);
  check("document offsets", token_store::documents_offset(header_), 8 * (header_.documents + 1),
        kDocumentsCrcAt);
  check("counts", token_store::counts_offset(header_), 8 * header_.vocabulary, kCountsCrcAt);
  const int64_t gaps[2][2] = {
      {kHeaderBytes + header_.tokens * header_.token_bytes, token_store::documents_offset(header_)},
      {token_store::documents_offset(header_) + 8 * (header_.documents + 1),
       token_store::counts_offset(header_)}};
  for (const auto& [begin, end] : gaps)
    for (int64_t at = begin; at < end; ++at)
      check_data(file_.bytes()[static_cast<size_t>(at)] == std::byte{0},
                 "{}: byte {} is not 0: damaged; build the store again", name_, at);
  const std::span<const uint64_t> begins = table();
  check_data(begins.front() == 0 && begins.back() == static_cast<uint64_t>(header_.tokens) &&
                 std::is_sorted(begins.begin(), begins.end()),
             "{}: the document offsets do not cover the tokens in order; build the store again", name_);
  const TokenView view = tokens();
  for (int64_t i = 0; i < view.size(); ++i) {
    const int32_t id = view[i];
    check_data(id >= 0 && id < header_.vocabulary,
               "{}: token {} has id {}, outside the vocabulary of {}; build the store again", name_, i, id,
               header_.vocabulary);
  }
  file_.forget();
}

TokenStore::TokenStore(const Path& path)
    : folder(path), train(path / "train.tokens"), validation(path / "validation.tokens") {
  description = read_text_file(path / "store.json");
  const TokenFileHeader &a = train.header(), &b = validation.header();
  check_data(a.vocabulary == b.vocabulary && a.tokenizer == b.tokenizer && a.end_of_text == b.end_of_text &&
                 a.begin_of_text == b.begin_of_text,
             "{}: train.tokens and validation.tokens are of different tokenizers; build the store again",
             name_of(path));
}

bool is_token_store(const Path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path / "train.tokens", ignored);
}

void check_ids(const TokenFile& side, int64_t begin, std::span<const int32_t> tokens,
               const Tokenizer& tokenizer) {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (!tokenizer.is_defined(tokens[i])) [[unlikely]]
      fail(ErrorKind::kData,
           "{}: token {} has id {}, which is none of the tokenizer's {}; tril data lint looks for damage",
           name_of(side.path()), begin + static_cast<int64_t>(i), tokens[i], tokenizer.vocabulary());
}

}  // namespace tril
