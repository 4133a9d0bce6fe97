#include "tril/data/nanogpt.h"

#include <cstring>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

constexpr size_t kLongestText = 64;

// One value on the pickle machine's stack: a mark, a string, a number, or a dictionary, of which the content
// is kept beside.
struct Value {
  enum class Kind { kMark, kText, kNumber, kDictionary } kind = Kind::kMark;
  std::string text;
  int64_t number = 0;
  size_t dictionary = 0;
};

// Python's pickle, protocols 2 to 5 (PEP 307, 3154), as far as {'stoi': {'a': 0}, 'vocab_size': 1} needs it.
class Pickle {
 public:
  Pickle(std::string_view bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  using Dictionary = std::vector<std::pair<Value, Value>>;

  const Dictionary& read() {
    while (true) {
      const auto code = static_cast<unsigned char>(take(1)[0]);
      if (code == '.') break;
      step(code);
    }
    check_data(stack_.size() == 1 && stack_[0].kind == Value::Kind::kDictionary, "{}: is no dictionary",
               name_);
    return dictionaries_[stack_[0].dictionary];
  }
  const Dictionary* find(const Dictionary& in, std::string_view key) const {
    for (const auto& [name, value] : in)
      if (name.text == key && value.kind == Value::Kind::kDictionary) return &dictionaries_[value.dictionary];
    return nullptr;
  }

 private:
  std::string_view take(size_t n) {
    check_data(n <= bytes_.size() - at_, "{}: cut or damaged at byte {}", name_, at_);
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  uint64_t number(size_t n) {
    uint64_t value = 0;
    std::memcpy(&value, take(n).data(), n);
    return value;
  }
  void push(Value value) { stack_.push_back(std::move(value)); }
  void push_text(size_t n) {
    check_data(n <= kLongestText, "{}: has a text of {} bytes at byte {}, which names no character", name_, n,
               at_);
    push({Value::Kind::kText, std::string(take(n)), 0, 0});
  }
  void push_number(int64_t n) { push({Value::Kind::kNumber, "", n, 0}); }
  void remember(uint64_t place) {
    check_data(!stack_.empty() && place <= memo_.size(), "{}: damaged at byte {}", name_, at_);
    if (place == memo_.size()) memo_.emplace_back();
    memo_[place] = stack_.back();
  }
  void recall(uint64_t place) {
    check_data(place < memo_.size(), "{}: damaged at byte {}", name_, at_);
    push(memo_[place]);
  }

  void set_items(size_t from) {
    check_data(
        from >= 1 && stack_[from - 1].kind == Value::Kind::kDictionary && (stack_.size() - from) % 2 == 0,
        "{}: damaged at byte {}", name_, at_);
    // In a file that is whole each item takes bytes of its own.
    items_ += stack_.size() - from;
    check_data(items_ <= bytes_.size(), "{}: damaged at byte {}", name_, at_);
    Dictionary& dictionary = dictionaries_[stack_[from - 1].dictionary];
    for (size_t i = from; i < stack_.size(); i += 2)
      dictionary.emplace_back(std::move(stack_[i]), std::move(stack_[i + 1]));
    stack_.resize(from);
  }

  void step(unsigned char code) {
    switch (code) {
      case 0x80:  // PROTO
        take(1);
        return;
      case 0x95:  // FRAME
        take(8);
        return;
      case '}':  // EMPTY_DICT
        dictionaries_.emplace_back();
        return push({Value::Kind::kDictionary, "", 0, dictionaries_.size() - 1});
      case '(':  // MARK
        return push({});
      case 0x94:  // MEMOIZE
        return remember(memo_.size());
      case 'q':  // BINPUT
        return remember(number(1));
      case 'r':  // LONG_BINPUT
        return remember(number(4));
      case 'h':  // BINGET
        return recall(number(1));
      case 'j':  // LONG_BINGET
        return recall(number(4));
      case 'X':  // BINUNICODE
        return push_text(number(4));
      case 0x8C:  // SHORT_BINUNICODE
        return push_text(number(1));
      case 'K':  // BININT1
        return push_number(static_cast<int64_t>(number(1)));
      case 'M':  // BININT2
        return push_number(static_cast<int64_t>(number(2)));
      case 'J':  // BININT
        return push_number(static_cast<int32_t>(number(4)));
      case 's':  // SETITEM
        check_data(stack_.size() >= 3, "{}: damaged at byte {}", name_, at_);
        return set_items(stack_.size() - 2);
      case 'u': {  // SETITEMS
        size_t mark = stack_.size();
        while (mark > 0 && stack_[mark - 1].kind != Value::Kind::kMark) --mark;
        check_data(mark >= 2, "{}: damaged at byte {}", name_, at_);
        stack_.erase(stack_.begin() + static_cast<std::ptrdiff_t>(mark) - 1);
        return set_items(mark - 1);
      }
      default:
        fail(ErrorKind::kData,
             "{}: the pickle has the operation 0x{:02x} at byte {}; only dictionaries of strings and numbers "
             "are "
             "read; name the tokenizer with --tokenizer FILE",
             name_, code, at_ - 1);
    }
  }

  std::string_view bytes_;
  std::string name_;
  size_t at_ = 0, items_ = 0;
  std::vector<Value> stack_, memo_;
  std::vector<Dictionary> dictionaries_;
};

}  // namespace

std::optional<Tokenizer> nanogpt_tokenizer(const Path& bin) {
  const Path path = bin.parent_path() / "meta.pkl";
  std::error_code ignored;
  if (bin.extension() != ".bin" || !std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  const MappedFile file(path);
  const std::string name = printable(path.string());
  Pickle pickle(file.text(), name);
  const Pickle::Dictionary* const characters = pickle.find(pickle.read(), "stoi");
  check_data(characters != nullptr && !characters->empty(), "{}: names no characters ('stoi')", name);
  std::vector<std::string> by_id(characters->size());
  for (const auto& [character, id] : *characters) {
    const bool one = character.kind == Value::Kind::kText && !character.text.empty() &&
                     utf8_length(character.text, 0) == static_cast<int>(character.text.size());
    check_data(one && id.kind == Value::Kind::kNumber && id.number >= 0 && id.number < std::ssize(by_id) &&
                   by_id[static_cast<size_t>(id.number)].empty(),
               "{}: '{}' with id {} is no character of {} with ids of their own", name,
               printable(character.text, 20), id.number, by_id.size());
    by_id[static_cast<size_t>(id.number)] = character.text;
  }
  std::string all;
  for (const std::string& character : by_id) all += character;
  const std::string_view view = all;
  Tokenizer tokenizer = Tokenizer::characters(std::span(&view, 1), /*with_end_of_text=*/false);
  for (size_t id = 0; id < by_id.size(); ++id)
    check_data(tokenizer.token_bytes(static_cast<int32_t>(id)) == by_id[id],
               "{}: its ids are not in the order of the characters; write the text and give that", name);
  return tokenizer;
}

}  // namespace tril
