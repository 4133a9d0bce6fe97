#include "tril/text/tokenizer.h"

#include <optional>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/bpe_train.h"
#include "tril/text/byte_alphabet.h"
#include "tril/text/hash.h"
#include "tril/text/tokenizer_parts.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

void add_end_of_text(TokenizerParts& parts) {
  parts.specials.push_back({static_cast<int32_t>(parts.tokens.size()), std::string(kEndOfText)});
  parts.tokens.emplace_back();
}

std::string describe_character(std::string_view text, size_t at) {
  const std::string_view bytes = text.substr(at, static_cast<size_t>(utf8_length(text, at)));
  const char32_t code_point = utf8_decode(text, at);
  return fmt::format("'{}' (U+{:04X})", printable(bytes), static_cast<uint32_t>(code_point));
}

}  // namespace

struct Tokenizer::Impl {
  TokenizerParts parts;
  int32_t end_of_text = -1;
  ByteIds byte_ids{};                   // kByte, kBpe
  std::optional<BpeModel> bpe;          // kBpe
  std::vector<int32_t> code_point_ids;  // kCharacter: -1 where there is none
  std::vector<bool> special;            // by id

  explicit Impl(TokenizerParts from) : parts(std::move(from)) {
    special.resize(parts.tokens.size());
    for (const SpecialToken& token : parts.specials) {
      special[static_cast<size_t>(token.id)] = true;
      if (token.content == kEndOfText) end_of_text = token.id;
    }
    for (size_t id = 0; id < parts.tokens.size(); ++id) {
      if (!special[id]) index(parts.tokens[id], static_cast<int32_t>(id));
    }
    if (parts.kind == Kind::kBpe) bpe.emplace(parts.tokens, byte_ids, parts.merges);
  }

  void index(std::string_view token, int32_t id) {
    if (parts.kind == Kind::kCharacter) {
      const auto code_point = static_cast<size_t>(utf8_decode(token, 0));
      if (code_point >= code_point_ids.size()) code_point_ids.resize(code_point + 1, -1);
      code_point_ids[code_point] = id;
    } else if (token.size() == 1) {
      byte_ids[static_cast<unsigned char>(token[0])] = id;
    }
  }

  void encode_characters(std::string_view text, std::vector<int32_t>& out) const {
    for (size_t at = 0; at < text.size();) {
      const int length = utf8_length(text, at);
      check_data(length > 0, "text: invalid UTF-8 at byte {}; a character tokenizer needs valid UTF-8", at);
      const auto code_point = static_cast<size_t>(utf8_decode(text, at));
      const int32_t id = code_point < code_point_ids.size() ? code_point_ids[code_point] : -1;
      if (id < 0) {
        fail(ErrorKind::kData,
             "text: the character {} at byte {} is not among the {} characters of this tokenizer; "
             "leave it out, or train a model with --tokenizer byte or bpe",
             describe_character(text, at), at, parts.tokens.size() - parts.specials.size());
      }
      out.push_back(id);
      at += static_cast<size_t>(length);
    }
  }
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::train_bpe(std::span<const std::string_view> texts, int64_t vocabulary) {
  check_use(vocabulary >= 257 && vocabulary <= INT32_MAX,
            "bpe: a vocabulary of {} is impossible; at least 257 (256 bytes and {}) are needed", vocabulary,
            kEndOfText);
  TokenizerParts parts;
  parts.kind = Kind::kBpe;
  ByteIds byte_ids{};
  for (const uint8_t byte : byte_alphabet().order) {
    byte_ids[byte] = static_cast<int32_t>(parts.tokens.size());
    parts.tokens.emplace_back(1, static_cast<char>(byte));
  }
  parts.merges = train_merges(texts, byte_ids, vocabulary - 257);
  for (const Merge& merge : parts.merges) {
    parts.tokens.push_back(parts.tokens[static_cast<size_t>(merge.left)] +
                           parts.tokens[static_cast<size_t>(merge.right)]);
  }
  add_end_of_text(parts);
  return Tokenizer(std::make_unique<Impl>(std::move(parts)));
}

Tokenizer Tokenizer::characters(std::span<const std::string_view> texts, bool with_end_of_text) {
  std::vector<bool> seen(0x110000);
  for (const std::string_view text : texts) {
    for (size_t at = 0; at < text.size();) {
      const int length = utf8_length(text, at);
      check_data(length > 0, "text: invalid UTF-8 at byte {}; convert it to UTF-8, or use --tokenizer byte",
                 at);
      seen[utf8_decode(text, at)] = true;
      at += static_cast<size_t>(length);
    }
  }
  TokenizerParts parts;
  parts.kind = Kind::kCharacter;
  for (char32_t c = 0; c < seen.size(); ++c) {
    if (seen[c]) utf8_append(parts.tokens.emplace_back(), c);
  }
  check_data(!parts.tokens.empty(),
             "text: no characters to make a tokenizer of; give text that is not empty");
  if (with_end_of_text) add_end_of_text(parts);
  return Tokenizer(std::make_unique<Impl>(std::move(parts)));
}

Tokenizer Tokenizer::bytes(bool with_end_of_text) {
  TokenizerParts parts;
  parts.kind = Kind::kByte;
  for (int byte = 0; byte < 256; ++byte) parts.tokens.emplace_back(1, static_cast<char>(byte));
  if (with_end_of_text) add_end_of_text(parts);
  return Tokenizer(std::make_unique<Impl>(std::move(parts)));
}

Tokenizer Tokenizer::load(const Path& path) {
  const MappedFile file(path);
  return Tokenizer(std::make_unique<Impl>(parse_tokenizer_json(file.text(), printable(path.string()))));
}

void Tokenizer::save(const Path& path) const { write_file_atomic(path, format_tokenizer_json(impl_->parts)); }

Tokenizer::Kind Tokenizer::kind() const { return impl_->parts.kind; }

std::string_view Tokenizer::kind_name() const {
  switch (kind()) {
    case Kind::kBpe:
      return "bpe";
    case Kind::kCharacter:
      return "char";
    case Kind::kByte:
      break;
  }
  return "byte";
}

int64_t Tokenizer::vocabulary() const { return std::ssize(impl_->parts.tokens); }

int32_t Tokenizer::end_of_text() const { return impl_->end_of_text; }

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> out;
  switch (kind()) {
    case Kind::kBpe:
      out.reserve(text.size() / 3);
      impl_->bpe->encode(text, out);
      break;
    case Kind::kCharacter:
      out.reserve(text.size());
      impl_->encode_characters(text, out);
      break;
    case Kind::kByte:
      out.reserve(text.size());
      for (const char byte : text) out.push_back(impl_->byte_ids[static_cast<unsigned char>(byte)]);
      break;
  }
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string out;
  for (size_t i = 0; i < ids.size(); ++i) {
    check_use(ids[i] >= 0 && ids[i] < vocabulary(),
              "decode: id {} at place {} is outside the vocabulary, 0 to {}; is this the model's tokenizer?",
              ids[i], i, vocabulary() - 1);
    out += impl_->parts.tokens[static_cast<size_t>(ids[i])];
  }
  return out;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  check_use(id >= 0 && id < vocabulary(), "token_bytes: id {} is outside the vocabulary, 0 to {}", id,
            vocabulary() - 1);
  return impl_->parts.tokens[static_cast<size_t>(id)];
}

std::string Tokenizer::fingerprint() const {
  const TokenizerParts& parts = impl_->parts;
  Hash64 hash;
  hash.add(kind_name());
  for (const std::string& token : parts.tokens) hash.add(std::string_view(token));
  for (const SpecialToken& token : parts.specials) {
    hash.add(static_cast<uint64_t>(token.id));
    hash.add(std::string_view(token.content));
  }
  for (const Merge& merge : parts.merges) {
    hash.add(uint64_t{static_cast<uint32_t>(merge.left)} << 32 | static_cast<uint32_t>(merge.right));
  }
  return hash.hex();
}

}  // namespace tril
