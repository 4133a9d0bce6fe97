#include "tril/text/tokenizer_impl.h"

#include <array>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/normalization.h"
#include "tril/text/split_patterns.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

std::string describe_character(std::string_view text, size_t at) {
  const std::string_view bytes = text.substr(at, static_cast<size_t>(utf8_length(text, at)));
  const char32_t code_point = utf8_decode(text, at);
  return fmt::format("'{}' (U+{:04X})", printable(bytes), static_cast<uint32_t>(code_point));
}

}  // namespace

Tokenizer::Impl::Impl(TokenizerParts from)
    : parts(std::move(from)),
      plain_specials(parts.specials, [](const SpecialToken& token) { return !token.control; }),
      controls(parts.specials, [](const SpecialToken& token) { return token.control; }) {
  special.resize(parts.tokens.size());
  for (const SpecialToken& token : parts.specials) special[static_cast<size_t>(token.id)] = &token;
  for (size_t id = 0; id < parts.tokens.size(); ++id) {
    if (special[id] == nullptr && !parts.tokens[id].empty())
      index(parts.tokens[id], static_cast<int32_t>(id));
  }
  if (parts.kind == Kind::kSentencePiece) sentencepiece = std::make_unique<SentencePieceEncoder>(parts);
  if (parts.kind != Kind::kBpe) return;
  find_lacking_bytes();
  bpe.emplace(plain_tokens(), byte_ids, parts.merges,
              BpeOptions{pretokenizer_of(parts.splits), parts.whole_pieces});
}

void Tokenizer::Impl::find_lacking_bytes() {
  std::array<bool, 256> known{};
  for (size_t id = 0; id < parts.tokens.size(); ++id) {
    const std::string& token = parts.tokens[id];
    if (special[id] == nullptr && token.size() == 1) known[static_cast<unsigned char>(token[0])] = true;
  }
  for (size_t byte = 0; byte < 256; ++byte)
    if (!known[byte]) lacking += static_cast<char>(byte);
}

void Tokenizer::Impl::check_bytes(std::string_view text, int64_t offset) const {
  if (lacking.empty()) return;
  const size_t at = text.find_first_of(lacking);
  if (at == text.npos) return;
  fail(ErrorKind::kData, "text: the byte 0x{:02x} at {} has no token in this tokenizer; leave it out",
       static_cast<unsigned char>(text[at]), offset + static_cast<int64_t>(at));
}

void Tokenizer::Impl::index(std::string_view token, int32_t id) {
  if (parts.kind == Kind::kCharacter) {
    const auto code_point = static_cast<size_t>(utf8_decode(token, 0));
    if (code_point >= code_point_ids.size()) code_point_ids.resize(code_point + 1, -1);
    code_point_ids[code_point] = id;
  } else if (token.size() == 1) {
    byte_ids[static_cast<unsigned char>(token[0])] = id;
  }
}

// Without the special ones, which no piece becomes.
std::vector<std::string> Tokenizer::Impl::plain_tokens() const {
  std::vector<std::string> tokens = parts.tokens;
  for (const SpecialToken& token : parts.specials) tokens[static_cast<size_t>(token.id)].clear();
  return tokens;
}

bool Tokenizer::Impl::reachable() const {
  if (parts.kind != Kind::kBpe) return true;
  const BpeModel merging(plain_tokens(), byte_ids, parts.merges, {Pretokenizer(SplitPattern::kNone), false});
  std::vector<int32_t> made;
  for (size_t id = 0; id < parts.tokens.size(); ++id) {
    if (special[id] != nullptr || parts.tokens[id].empty()) continue;
    made.clear();
    merging.encode(parts.tokens[id], made);
    if (made.size() != 1 || made[0] != static_cast<int32_t>(id)) return false;
  }
  return true;
}

void Tokenizer::Impl::encode_bytes(std::string_view text, std::vector<int32_t>& out) const {
  for (const char byte : text) out.push_back(byte_ids[static_cast<unsigned char>(byte)]);
}

void Tokenizer::Impl::encode_characters(std::string_view text, int64_t offset,
                                        std::vector<int32_t>& out) const {
  for (size_t at = 0; at < text.size();) {
    const int length = utf8_length(text, at);
    const int64_t place = offset + static_cast<int64_t>(at);
    check_data(length > 0, "text: invalid UTF-8 at byte {}; a character tokenizer needs valid UTF-8", place);
    const auto code_point = static_cast<size_t>(utf8_decode(text, at));
    const int32_t id = code_point < code_point_ids.size() ? code_point_ids[code_point] : -1;
    if (id < 0) {
      fail(ErrorKind::kData,
           "text: the character {} at byte {} is not among the {} characters of this tokenizer; "
           "leave it out, or train a model with --tokenizer byte or bpe",
           describe_character(text, at), place, parts.tokens.size() - parts.specials.size());
    }
    out.push_back(id);
    at += static_cast<size_t>(length);
  }
}

// Text without special tokens, from `offset` of the whole on.
void Tokenizer::Impl::encode_stretch(std::string_view text, size_t offset, std::vector<int32_t>& out) const {
  std::string normalized;
  if (parts.nfc && !is_surely_nfc(text)) text = normalized = to_nfc(text);
  switch (parts.kind) {
    case Kind::kBpe:
      check_bytes(text, static_cast<int64_t>(offset));
      return bpe->encode(text, out);
    case Kind::kCharacter:
      return encode_characters(text, static_cast<int64_t>(offset), out);
    case Kind::kSentencePiece:
      return sentencepiece->encode(text, offset == 0, out);
    case Kind::kByte:
      return encode_bytes(text, out);
  }
}

void Tokenizer::Impl::encode(const SpecialFinder& finder, std::string_view text,
                             std::vector<int32_t>& out) const {
  if (out.empty())
    out.reserve(text.size() / (parts.kind == Kind::kBpe || parts.kind == Kind::kSentencePiece ? 3 : 1));
  size_t at = 0;
  for (SpecialFinder::Found found; (found = finder.next(text, at)).token != nullptr; at = found.end) {
    encode_stretch(text.substr(at, found.begin - at), at, out);
    out.push_back(found.token->id);
  }
  encode_stretch(text.substr(at), at, out);
}

}  // namespace tril
