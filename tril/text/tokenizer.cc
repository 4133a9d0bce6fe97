#include "tril/text/tokenizer.h"

#include <algorithm>
#include <bit>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/bpe_train.h"
#include "tril/text/hash.h"
#include "tril/text/split_patterns.h"
#include "tril/text/tokenizer_files.h"
#include "tril/text/tokenizer_impl.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

void add_end_of_text(TokenizerParts& parts) {
  parts.end_of_text = static_cast<int32_t>(parts.tokens.size());
  parts.specials.push_back({parts.end_of_text, std::string(kEndOfText), true});
  parts.tokens.emplace_back();
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::train_bpe(std::span<const std::string_view> texts, int64_t vocabulary) {
  SerialExecutor executor;
  return train_bpe(BpeRecipe{.vocabulary = vocabulary}, executor, [&](BpeTrainer& trainer) {
    for (const std::string_view text : texts) {
      trainer.add(text);
      trainer.end_document();
    }
  });
}

Tokenizer Tokenizer::train_bpe(const BpeRecipe& recipe, Executor& executor,
                               FunctionRef<void(BpeTrainer&)> feed) {
  return Tokenizer(std::make_unique<Impl>(train_bpe_parts(recipe, executor, feed)));
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

Tokenizer Tokenizer::load(const Path& path, std::string_view pattern) {
  return Tokenizer(std::make_unique<Impl>(load_tokenizer_parts(path, pattern)));
}

void Tokenizer::save(const Path& path) const { export_to(path, TokenizerFormat::kTokenizerJson); }

void Tokenizer::export_to(const Path& path, TokenizerFormat format) const {
  check_expressible(impl_->parts, format, impl_->reachable());
  write_tokenizer(impl_->parts, format, path);
}

void Tokenizer::add_to(GgufHeader& header, int64_t rows) const {
  check_expressible(impl_->parts, TokenizerFormat::kGguf, impl_->reachable());
  add_gguf_tokenizer(with_scores(impl_->parts, "a GGUF file"), rows, header);
}

Tokenizer::Kind Tokenizer::kind() const { return impl_->parts.kind; }

std::string_view Tokenizer::kind_name() const {
  switch (kind()) {
    case Kind::kBpe:
      return "bpe";
    case Kind::kCharacter:
      return "char";
    case Kind::kSentencePiece:
      return "sentencepiece";
    case Kind::kByte:
      break;
  }
  return "byte";
}

std::string Tokenizer::pattern() const { return name_of_splits(impl_->parts.splits); }

int64_t Tokenizer::vocabulary() const { return std::ssize(impl_->parts.tokens); }

int32_t Tokenizer::end_of_text() const { return impl_->parts.end_of_text; }

int32_t Tokenizer::begin_of_text() const { return impl_->parts.begin_of_text; }

std::span<const SpecialToken> Tokenizer::specials() const { return impl_->parts.specials; }

bool Tokenizer::is_defined(int32_t id) const {
  return id >= 0 && id < vocabulary() &&
         (impl_->special[static_cast<size_t>(id)] != nullptr ||
          !impl_->parts.tokens[static_cast<size_t>(id)].empty());
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> out;
  encode(text, out);
  return out;
}

void Tokenizer::encode(std::string_view text, std::vector<int32_t>& out) const {
  impl_->encode(impl_->plain_specials, text, out);
}

std::vector<int32_t> Tokenizer::encode_with_specials(std::string_view text,
                                                     std::span<const std::string_view> allowed) const {
  for (const std::string_view name : allowed) {
    const bool known = std::any_of(specials().begin(), specials().end(),
                                   [&](const SpecialToken& token) { return token.content == name; });
    check_use(known, "the special token \"{}\" does not exist in this tokenizer", printable(name));
  }
  const SpecialFinder finder(specials(), [&](const SpecialToken& token) {
    return !token.control || std::find(allowed.begin(), allowed.end(), token.content) != allowed.end();
  });
  std::vector<int32_t> out;
  impl_->encode(finder, text, out);
  return out;
}

std::vector<int32_t> Tokenizer::encode_with_specials(std::string_view text) const {
  std::vector<int32_t> out;
  impl_->encode(SpecialFinder(specials(), [](const SpecialToken&) { return true; }), text, out);
  return out;
}

int64_t Tokenizer::count_specials(std::string_view text) const {
  int64_t count = 0;
  size_t at = 0;
  for (SpecialFinder::Found found; (found = impl_->controls.next(text, at)).token != nullptr; at = found.end)
    ++count;
  return count;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, Controls controls) const {
  std::string out;
  bool text_begins = true;
  for (size_t i = 0; i < ids.size(); ++i) {
    check_use(ids[i] >= 0 && ids[i] < vocabulary(),
              "decode: id {} at place {} is outside the vocabulary, 0 to {}; is this the model's tokenizer?",
              ids[i], i, vocabulary() - 1);
    check_use(is_defined(ids[i]),
              "decode: id {} at place {} stands for nothing in this tokenizer; leave it out", ids[i], i);
    const SpecialToken* const special = impl_->special[static_cast<size_t>(ids[i])];
    if (special != nullptr && special->control) {
      if (controls == Controls::kShow) out += special->content;
      continue;
    }
    std::string_view bytes = impl_->parts.tokens[static_cast<size_t>(ids[i])];
    if (text_begins && impl_->parts.strips_space && bytes.starts_with(' ')) bytes.remove_prefix(1);
    text_begins = false;
    out += bytes;
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
    if (!token.control) hash.add("text");
  }
  for (const Merge& merge : parts.merges) {
    hash.add(uint64_t{static_cast<uint32_t>(merge.left)} << 32 | static_cast<uint32_t>(merge.right));
  }
  // What GPT-2's tokenizer does not have, so that its hash is the one that older runs stored.
  if (parts.kind == Kind::kBpe && pattern() != "gpt2")
    for (const std::string& split : parts.splits) hash.add(std::string_view(split));
  if (parts.whole_pieces) hash.add("whole pieces");
  if (parts.nfc) hash.add("NFC");
  if (parts.kind != Kind::kSentencePiece) return hash.hex();
  for (const float score : parts.scores) hash.add(uint64_t{std::bit_cast<uint32_t>(score)});
  hash.add(uint64_t{static_cast<uint32_t>(parts.prefix)} << 1 | uint64_t{parts.metaspace});
  return hash.hex();
}

}  // namespace tril
