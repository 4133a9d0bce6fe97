#include "tril/data/token_file_writer.h"

#include <algorithm>
#include <cstring>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/containers/checksum.h"
#include "tril/text/hash.h"

namespace tril {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr int64_t kPieceTokens = int64_t{1} << 20;  // of the last pass
constexpr int64_t kForgetEvery = 16;                // pieces: what was read need not stay in memory
constexpr int64_t kAlignment = 64;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

Path ends_of(Path path) {
  path += ".ends";
  return path;
}

}  // namespace

TokenFileWriter::TokenFileWriter(const Path& path, TokenFileHeader header, const Kept& kept)
    : path_(path),
      header_(std::move(header)),
      tokens_(kept.tokens),
      documents_(kept.documents),
      begin_(kept.document_begin) {
  const auto bytes_to = [&](int64_t token) {
    return tokens_ + documents_ == 0 ? 0 : token_store::kHeaderBytes + token * header_.token_bytes;
  };
  const int64_t there = bytes_to(tokens_);
  file_ = std::make_unique<GrowingFile>(path, there, bytes_to(begin_));
  ends_ = std::make_unique<GrowingFile>(ends_of(path), 8 * documents_);
  if (there == 0) file_->write(bytes_of(std::string(token_store::kHeaderBytes, '\0')));
}

void TokenFileWriter::append(std::span<const int32_t> tokens) {
  const size_t before = buffer_.size();
  buffer_.resize(before + tokens.size() * static_cast<size_t>(header_.token_bytes));
  char* to = buffer_.data() + before;
  if (header_.token_bytes == 2) {
    for (const int32_t token : tokens) {
      const auto narrow = static_cast<uint16_t>(token);
      std::memcpy(to, &narrow, 2);
      to += 2;
    }
  } else if (!tokens.empty()) {
    std::memcpy(to, tokens.data(), tokens.size_bytes());
  }
  tokens_ += std::ssize(tokens);
  if (buffer_.size() >= kBufferBytes) flush();
}

void TokenFileWriter::end_document() {
  begin_ = tokens_;
  ++documents_;
  end_buffer_.push_back(static_cast<uint64_t>(tokens_));
}

void TokenFileWriter::drop_document() {
  const auto bytes = static_cast<size_t>((tokens_ - begin_) * header_.token_bytes);
  if (bytes <= buffer_.size()) {
    buffer_.resize(buffer_.size() - bytes);
  } else {
    buffer_.clear();
    file_->truncate(token_store::kHeaderBytes + begin_ * header_.token_bytes);
  }
  tokens_ = begin_;
}

void TokenFileWriter::flush() {
  file_->write(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
  ends_->write(std::as_bytes(std::span(end_buffer_)));
  end_buffer_.clear();
}

void TokenFileWriter::sync() {
  flush();
  file_->sync();
  ends_->sync();
}

void TokenFileWriter::pad() {
  const auto missing = static_cast<size_t>((kAlignment - file_->size() % kAlignment) % kAlignment);
  file_->write(bytes_of(std::string(missing, '\0')));
}

void TokenFileWriter::append_table(uint32_t& crc) {
  const uint64_t zero = 0;
  const auto first = std::as_bytes(std::span(&zero, 1));
  crc = crc32(first);
  file_->write(first);
  const MappedFile ends(ends_of(path_));
  for (size_t at = 0; at < ends.bytes().size(); at += kBufferBytes) {
    const auto piece = ends.bytes().subspan(at, std::min(kBufferBytes, ends.bytes().size() - at));
    crc = crc32(piece, crc);
    file_->write(piece);
    ends.forget();
  }
}

void TokenFileWriter::finish(Executor& executor, int64_t text_bytes) {
  flush();
  header_.tokens = tokens_;
  header_.documents = documents_;
  header_.text_bytes = text_bytes;
  std::vector<uint64_t> counts(static_cast<size_t>(header_.vocabulary));
  uint32_t tokens_crc = 0;
  if (tokens_ > 0) {
    const MappedFile file(path_);
    const auto all = file.bytes().subspan(token_store::kHeaderBytes);
    const int64_t pieces = divide_up(tokens_, kPieceTokens);
    std::vector<uint32_t> crcs(static_cast<size_t>(pieces));
    std::vector<std::vector<uint64_t>> partial(static_cast<size_t>(executor.threads()));
    executor.run(pieces, [&](int64_t piece, int worker) {
      std::vector<uint64_t>& mine = partial[static_cast<size_t>(worker)];
      mine.resize(counts.size());
      const int64_t begin = piece * kPieceTokens, count = std::min(kPieceTokens, tokens_ - begin);
      const auto bytes = all.subspan(static_cast<size_t>(begin * header_.token_bytes),
                                     static_cast<size_t>(count * header_.token_bytes));
      crcs[static_cast<size_t>(piece)] = crc32(bytes);
      TokenView view;
      if (header_.token_bytes == 2)
        view = std::span(reinterpret_cast<const uint16_t*>(bytes.data()), static_cast<size_t>(count));
      else
        view = std::span(reinterpret_cast<const int32_t*>(bytes.data()), static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) {
        const int32_t id = view[i];
        if (id < 0 || id >= header_.vocabulary) [[unlikely]]
          fail(ErrorKind::kData, "{}: token {} has id {}, the vocabulary is {}", printable(path_.string()),
               begin + i, id, header_.vocabulary);
        ++mine[static_cast<size_t>(id)];
      }
      if (piece % kForgetEvery == 0) file.forget();
    });
    for (const std::vector<uint64_t>& mine : partial)
      for (size_t id = 0; id < mine.size(); ++id) counts[id] += mine[id];
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t count = std::min(kPieceTokens, tokens_ - piece * kPieceTokens);
      tokens_crc = crc32_combined(tokens_crc, crcs[static_cast<size_t>(piece)], count * header_.token_bytes);
    }
  }
  pad();
  uint32_t documents_crc = 0;
  append_table(documents_crc);
  pad();
  file_->write(std::as_bytes(std::span(counts)));
  const uint32_t counts_crc = crc32(std::as_bytes(std::span(counts)));
  file_->overwrite(0, bytes_of(token_store::format_header(header_, tokens_crc, documents_crc, counts_crc)));
  file_->sync();
}

std::string token_fingerprint(const TokenView& train, const TokenView& validation,
                              const std::function<void()>& forget) {
  Hash64 hash;
  std::vector<int32_t> wide;
  for (const TokenView& view : {train, validation}) {
    // Hash64::add over the whole as 32-bit numbers, in pieces of whole words.
    hash.add(static_cast<uint64_t>(4 * view.size()));
    const int64_t whole = view.size() / 2 * 2;
    for (int64_t at = 0; at < whole; at += kPieceTokens) {
      const int64_t count = std::min(kPieceTokens, whole - at);
      wide.resize(static_cast<size_t>(count));
      view.copy(at, count, wide.data());
      for (int64_t i = 0; i < count; i += 2) {
        uint64_t word = 0;
        std::memcpy(&word, wide.data() + i, 8);
        hash.add(word);
      }
      if (forget) forget();
    }
    const bool odd = view.size() > whole;
    hash.add(odd ? uint64_t{static_cast<uint32_t>(view[whole])} : uint64_t{0});
  }
  return hash.hex();
}

}  // namespace tril
