#include "tril/data/export.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/containers/integer_array.h"
#include "tril/containers/json.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

constexpr int64_t kPieceTokens = int64_t{1} << 16;

using Write = std::function<void(std::string_view)>;

// Gathers numbers of `bytes` each and hands them on in pieces.
class Numbers {
 public:
  Numbers(int64_t bytes, const Write& write) : bytes_(bytes), write_(write) {}
  void add(int32_t token) {
    buffer_.append(reinterpret_cast<const char*>(&token), static_cast<size_t>(bytes_));  // little-endian
    if (std::ssize(buffer_) >= 2 * kPieceTokens) flush();
  }
  void add(const TokenView& tokens) {
    for (int64_t i = 0; i < tokens.size(); ++i) add(tokens[i]);
  }
  void flush() {
    write_(buffer_);
    buffer_.clear();
  }

 private:
  int64_t bytes_;
  const Write& write_;
  std::string buffer_;
};

void export_llmc(const TokenFile& side, const Write& write) {
  const bool wide = side.header().token_bytes == 4;
  const int32_t end_of_text = side.header().end_of_text;
  check_use(side.header().tokens < INT32_MAX,
            "{}: {} tokens are more than a shard of llm.c holds (2^31 - 1); export a smaller store",
            printable(side.path().string()), side.header().tokens);
  int64_t tokens = 0;
  for (int64_t i = 0; i < side.documents(); ++i) tokens += side.text_of(i).size() + (end_of_text >= 0);
  std::string header(1024, '\0');
  const int32_t fields[3] = {wide ? 20240801 : 20240520, wide ? 7 : 1, static_cast<int32_t>(tokens)};
  std::memcpy(header.data(), fields, sizeof fields);
  write(header);
  Numbers numbers(wide ? 4 : 2, write);
  for (int64_t i = 0; i < side.documents(); ++i) {
    if (end_of_text >= 0) numbers.add(end_of_text);
    numbers.add(side.text_of(i));
  }
  numbers.flush();
}

void export_text(const TokenFile& side, const Tokenizer& tokenizer, bool json, const Write& write) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < side.documents(); ++i) {
    const TokenView view = side.text_of(i);
    std::string text;
    for (int64_t at = 0; at < view.size(); at += kPieceTokens) {
      tokens.resize(static_cast<size_t>(std::min(kPieceTokens, view.size() - at)));
      view.copy(at, std::ssize(tokens), tokens.data());
      check_ids(side, side.text_begin(i) + at, tokens, tokenizer);
      // A space in front is left out of a text, not of its parts.
      if (at == 0)
        text += tokenizer.decode(tokens);
      else
        for (const int32_t id : tokens) text += tokenizer.token_bytes(id);
      if (json) continue;
      write(text);
      text.clear();
    }
    if (json) {
      check_data(!first_invalid_utf8(text),
                 "{}: document {} is no valid UTF-8, which JSON needs; export it as txt or npy",
                 printable(side.path().string()), i);
      write(to_text({{"text", text}}) + "\n");
    } else if (side.documents() > 1) {
      write("\n" + std::string(kEndOfText) + "\n");
    }
  }
}

}  // namespace

ExportFormat parse_export_format(std::string_view name) {
  constexpr std::string_view kNames[] = {"txt", "jsonl", "npy", "nanogpt", "llmc"};
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  check_use(found != std::end(kNames), "--to {}: not known; give txt, jsonl, npy, nanogpt or llmc",
            printable(name));
  return static_cast<ExportFormat>(found - std::begin(kNames));
}

void export_tokens(const TokenFile& side, const Tokenizer& tokenizer, ExportFormat format,
                   const Write& write) {
  const int64_t width = side.header().token_bytes;
  switch (format) {
    case ExportFormat::kText:
    case ExportFormat::kJsonLines:
      return export_text(side, tokenizer, format == ExportFormat::kJsonLines, write);
    case ExportFormat::kLlmc:
      return export_llmc(side, write);
    case ExportFormat::kNumPy:
      write(format_npy_header({static_cast<int>(width), width == 4}, side.header().tokens));
      break;
    case ExportFormat::kNanoGpt:
      check_use(width == 2,
                "nanoGPT's files hold 16-bit tokens, but this vocabulary has {} ids; export npy or llmc",
                side.header().vocabulary);
      break;
  }
  Numbers numbers(width, write);
  numbers.add(side.tokens());
  numbers.flush();
}

}  // namespace tril
