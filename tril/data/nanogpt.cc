#include "tril/data/nanogpt.h"

#include <vector>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/containers/pickle.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

using Kind = PickleValue::Kind;

// The id of one character of `count`, each with its own.
size_t checked_id(const PickleValue& character, const PickleValue& id, size_t count,
                  const std::string& name) {
  const std::string_view text = character.kind == Kind::kText ? character.text : std::string_view{};
  const bool one = !text.empty() && utf8_length(text, 0) == static_cast<int>(text.size());
  const int64_t number = id.kind == Kind::kInteger ? id.integer : -1;
  check_data(one && number >= 0 && number < static_cast<int64_t>(count),
             "{}: '{}' with id {} is no character of {} with ids of their own", name, printable(text, 20),
             number, count);
  return static_cast<size_t>(number);
}

}  // namespace

std::optional<Tokenizer> nanogpt_tokenizer(const Path& bin) {
  const Path path = bin.parent_path() / "meta.pkl";
  std::error_code ignored;
  if (bin.extension() != ".bin" || !std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  const MappedFile file(path);
  const std::string name = printable(path.string());
  const Pickle pickle(file.text(), name);
  const PickleValue* const stoi = pickle.root().find("stoi");
  const PickleValue* const characters = stoi != nullptr ? stoi->dictionary() : nullptr;
  check_data(characters != nullptr && !characters->items.empty(),
             "{}: names no characters ('stoi'); name the tokenizer with --tokenizer FILE", name);
  std::vector<std::string_view> by_id(characters->items.size() / 2);
  for (size_t i = 0; i + 1 < characters->items.size(); i += 2) {
    const PickleValue& character = *characters->items[i];
    const size_t id = checked_id(character, *characters->items[i + 1], by_id.size(), name);
    check_data(by_id[id].empty(), "{}: '{}' and '{}' both have id {}", name, printable(by_id[id]),
               printable(character.text), id);
    by_id[id] = character.text;
  }
  std::string all;
  for (const std::string_view character : by_id) all += character;
  const std::string_view view = all;
  Tokenizer tokenizer = Tokenizer::characters(std::span(&view, 1), /*with_end_of_text=*/false);
  for (size_t id = 0; id < by_id.size(); ++id)
    check_data(tokenizer.token_bytes(static_cast<int32_t>(id)) == by_id[id],
               "{}: its ids are not in the order of the characters; write the text and give that", name);
  return tokenizer;
}

}  // namespace tril
