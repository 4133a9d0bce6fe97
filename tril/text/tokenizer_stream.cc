#include "tril/text/tokenizer_stream.h"

#include <algorithm>
#include <optional>
#include <string>

#include "tril/text/normalization.h"
#include "tril/text/tokenizer_impl.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

// Before the last ASCII character, which nothing before it is composed with.
size_t cut_for_nfc(std::string_view text) {
  size_t at = text.size();
  while (at > 0 && static_cast<unsigned char>(text[at - 1]) >= 0x80) --at;
  return at > 0 ? at - 1 : 0;
}

// Before a last character that is not whole yet.
size_t cut_for_characters(std::string_view text) {
  const size_t size = text.size();
  for (size_t back = 1; back <= std::min<size_t>(3, size); ++back) {
    const auto byte = static_cast<unsigned char>(text[size - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? size - back : size;
  }
  return size;
}

}  // namespace

struct TokenizerStream::Impl {
  Impl(const Tokenizer::Impl& from, bool with_controls)
      : tokenizer(from),
        specials(from.parts.specials,
                 [&](const SpecialToken& token) { return with_controls || !token.control; }),
        count_controls(!with_controls),
        longest(std::max(specials.longest(), from.controls.longest())) {
    if (from.bpe) bpe.emplace(*from.bpe);
  }

  const Tokenizer::Impl& tokenizer;
  const SpecialFinder specials;
  const bool count_controls;
  const size_t longest;  // bytes of a special token
  std::optional<BpeStream> bpe;

  std::string pending;                  // not yet searched to its end for special tokens
  size_t special_at = 0, count_at = 0;  // in `pending`: how far specials were found, and counted
  std::string stretch;                  // text between special tokens that waits for what follows
  int64_t offset = 0;                   // where in the whole text `stretch` begins
  bool stretch_begins = true;           // nothing of this stretch was encoded
  bool text_begins = true;              // nor of the text
  int64_t spellings = 0;

  void push(std::string_view block, bool last, std::vector<int32_t>& out) {
    pending.append(block);
    // A special token that begins before this place is there as a whole, and so is a longer one.
    const size_t held = last || longest == 0 ? 0 : longest - 1;
    const size_t limit = pending.size() - std::min(held, pending.size());
    const std::string_view text = pending;
    while (true) {
      const SpecialFinder::Found found = specials.next(text, special_at);
      if (found.token == nullptr || found.begin >= limit) break;
      add(text.substr(special_at, found.begin - special_at), out);
      end_stretch(out);
      out.push_back(found.token->id);
      offset += std::ssize(found.token->content);
      special_at = found.end;
      text_begins = false;
    }
    if (special_at < limit) {
      add(text.substr(special_at, limit - special_at), out);
      special_at = limit;
    }
    if (count_controls) count(limit);
    const size_t done = count_controls ? std::min(special_at, count_at) : special_at;
    pending.erase(0, done);
    special_at -= done;
    count_at -= std::min(count_at, done);
    if (!last) return;
    end_stretch(out);
    offset = 0;
    text_begins = true;
  }

  void count(size_t limit) {
    while (true) {
      const SpecialFinder::Found found = tokenizer.controls.next(pending, count_at);
      if (found.token == nullptr || found.begin >= limit) break;
      ++spellings;
      count_at = found.end;
    }
    count_at = std::max(count_at, limit);
  }

  void add(std::string_view text, std::vector<int32_t>& out) {
    if (text.empty()) return;
    if (bpe && !tokenizer.parts.nfc) {
      tokenizer.check_bytes(text, offset);
      bpe->push(text, out);
      offset += std::ssize(text);
      return;
    }
    stretch.append(text);
    encode(safe_cut(), out);
  }

  void end_stretch(std::vector<int32_t>& out) {
    encode(stretch.size(), out);
    if (bpe) bpe->finish(out);
    stretch_begins = true;
  }

  size_t safe_cut() const {
    switch (tokenizer.parts.kind) {
      case Tokenizer::Kind::kBpe:
        return cut_for_nfc(stretch);
      case Tokenizer::Kind::kCharacter:
        return cut_for_characters(stretch);
      case Tokenizer::Kind::kSentencePiece:
        return tokenizer.sentencepiece->last_safe_cut(stretch);
      case Tokenizer::Kind::kByte:
        break;
    }
    return stretch.size();
  }

  // The first `size` bytes of `stretch`.
  void encode(size_t size, std::vector<int32_t>& out) {
    if (size == 0) return;
    const std::string_view text = std::string_view(stretch).substr(0, size);
    switch (tokenizer.parts.kind) {
      case Tokenizer::Kind::kBpe: {
        const std::string normalized = is_surely_nfc(text) ? std::string(text) : to_nfc(text);
        tokenizer.check_bytes(normalized, offset);
        bpe->push(normalized, out);
        break;
      }
      case Tokenizer::Kind::kCharacter:
        tokenizer.encode_characters(text, offset, out);
        break;
      case Tokenizer::Kind::kSentencePiece:
        if (stretch_begins)
          tokenizer.sentencepiece->encode(text, text_begins, out);
        else
          tokenizer.sentencepiece->encode_rest(text, out);
        break;
      case Tokenizer::Kind::kByte:
        tokenizer.encode_bytes(text, out);
    }
    offset += static_cast<int64_t>(size);
    stretch.erase(0, size);
    stretch_begins = text_begins = false;
  }
};

TokenizerStream::TokenizerStream(const Tokenizer& tokenizer, bool controls)
    : impl_(std::make_unique<Impl>(*tokenizer.impl_, controls)) {}
TokenizerStream::~TokenizerStream() = default;

void TokenizerStream::push(std::string_view block, std::vector<int32_t>& out) {
  impl_->push(block, false, out);
}

void TokenizerStream::finish(std::vector<int32_t>& out) { impl_->push({}, true, out); }

int64_t TokenizerStream::control_spellings() const { return impl_->spellings; }

}  // namespace tril
