#include "tril/containers/pickle.h"

#include <bit>
#include <cstring>

#include "tril/base/bytes.h"
#include "tril/base/error.h"

namespace tril {
namespace {

constexpr size_t kMostValues = size_t{1} << 22, kLongestName = 256;

}  // namespace

// The pickle machine (Python's pickletools.py documents each operation): a stack, marks in it, a memo.
class PickleReader {
 public:
  using Kind = PickleValue::Kind;

  PickleReader(std::string_view bytes, Pickle& out) : bytes_(bytes), out_(out) {}

  const PickleValue* read() {
    check_data(bytes_.size() >= 2 && bytes_[0] == '\x80' && bytes_[1] >= 2 && bytes_[1] <= 5,
               "{}: is no pickle of protocol 2 to 5; write it again with pickle.dump(value, file, 4)",
               out_.where_);
    while (true) {
      const auto code = static_cast<unsigned char>(take(1)[0]);
      if (code == '.') break;
      if (!constant(code) && !collection(code) && !memory(code) && !object(code))
        fail(ErrorKind::kData,
             "{}: the pickle has the operation 0x{:02x} at byte {}, which is not read; the file is damaged: "
             "get it again",
             out_.where_, code, at_ - 1);
    }
    check(stack_.size() == 1 && marks_.empty());
    return stack_[0];
  }

 private:
  void check(bool ok) const {
    check_data(ok, "{}: the pickle is damaged at byte {}: get the file again", out_.where_, at_);
  }
  std::string_view take(uint64_t n) {
    check_data(n <= bytes_.size() - at_,
               "{}: the pickle is cut off or damaged at byte {}: get the file again", out_.where_, at_);
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  uint64_t number(size_t n) {
    uint64_t value = 0;
    std::memcpy(&value, take(n).data(), n);
    return value;
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    check(end != bytes_.npos);
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }

  PickleValue* make(Kind kind) {
    check_data(out_.values_.size() < kMostValues,
               "{}: the pickle has more than {} values; save the model's state dict alone", out_.where_,
               kMostValues);
    out_.values_.emplace_back().kind = kind;
    return &out_.values_.back();
  }
  bool push(PickleValue* value) {
    stack_.push_back(value);
    return true;
  }
  bool push_text(Kind kind, std::string_view text) {
    PickleValue* const value = make(kind);
    value->text = text;
    return push(value);
  }
  bool push_integer(int64_t integer, Kind kind = Kind::kInteger) {
    PickleValue* const value = make(kind);
    value->integer = integer;
    return push(value);
  }
  // None, True and False are one value each.
  bool push_shared(PickleValue*& value, Kind kind, int64_t integer = 0) {
    if (value == nullptr) value = make(kind), value->integer = integer;
    return push(value);
  }
  bool push_long(std::string_view bytes) {
    if (bytes.size() > sizeof(int64_t)) return push(make(Kind::kOther));
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    const size_t unused = 64 - 8 * bytes.size();  // the sign is that of the last byte
    return push_integer(unused == 64 ? 0 : static_cast<int64_t>(value << unused) >> unused);
  }
  bool push_number() {
    PickleValue* const value = make(Kind::kNumber);
    value->number = std::bit_cast<double>(__builtin_bswap64(number(sizeof(double))));
    return push(value);
  }
  bool push_global(std::string_view module, std::string_view name) {
    check_data(module.size() + name.size() < kLongestName,
               "{}: the pickle has a name of {} bytes at byte {}; the file is damaged: get it again",
               out_.where_, module.size() + name.size(), at_);
    return push_text(Kind::kGlobal, out_.names_.emplace_back(fmt::format("{}.{}", module, name)));
  }

  // What lies above the last mark is all that operations other than those that take the mark may touch.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* top() const {
    check(stack_.size() > floor());
    return stack_.back();
  }
  PickleValue* pop() {
    PickleValue* const value = top();
    stack_.pop_back();
    return value;
  }
  // Takes the last mark away; what lay above it begins at the place returned.
  size_t pop_mark() {
    check(!marks_.empty());
    const size_t begin = marks_.back();
    marks_.pop_back();
    return begin;
  }
  bool gather(Kind kind, size_t begin) {
    check(kind != Kind::kDictionary || (stack_.size() - begin) % 2 == 0);
    PickleValue* const value = make(kind);
    value->items.assign(stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
    return push(value);
  }
  bool gather_last(size_t count) {
    check(stack_.size() - floor() >= count);
    return gather(Kind::kTuple, stack_.size() - count);
  }
  // Moves what lies from `begin` on into the collection below it. What an unknown object would do with it is
  // not known.
  bool extend(size_t begin, Kind kind) {
    check(begin > floor() && begin <= stack_.size());
    PickleValue* const value = stack_[begin - 1];
    check(value->kind == kind || value->kind == Kind::kObject || value->kind == Kind::kOther);
    check(kind != Kind::kDictionary || (stack_.size() - begin) % 2 == 0);
    if (value->kind == kind)
      value->items.insert(value->items.end(), stack_.begin() + static_cast<std::ptrdiff_t>(begin),
                          stack_.end());
    stack_.resize(begin);
    return true;
  }
  bool extend_last(size_t count, Kind kind) {
    check(stack_.size() - floor() > count);
    return extend(stack_.size() - count, kind);
  }

  // Calls callable(*arguments), so to speak.
  bool call() {
    const PickleValue* const arguments = pop();
    const PickleValue* const callable = pop();
    const bool empty = arguments->kind == Kind::kTuple && arguments->items.empty();
    if ((callable->is_global("collections.OrderedDict") && empty) ||
        callable->is_global("collections.defaultdict"))
      return push(make(Kind::kDictionary));
    PickleValue* const value = make(Kind::kObject);
    value->items = {callable, arguments};
    return push(value);
  }
  bool set_state() {
    const PickleValue* const state = pop();
    PickleValue* const value = top();
    if (value->kind == Kind::kObject && value->items.size() == 2) value->items.push_back(state);
    return true;
  }
  bool remember(uint64_t place) {
    check(place < kMostValues && place < bytes_.size());
    if (place >= memo_.size()) memo_.resize(place + 1);
    memo_[place] = top();
    memo_next_ = std::max(memo_next_, place + 1);
    return true;
  }
  bool recall(uint64_t place) {
    check(place < memo_.size() && memo_[place] != nullptr);
    return push(memo_[place]);
  }

  // Each of these does an operation, or says that it is not one of its own.
  bool constant(unsigned char code) {
    switch (code) {
      case 'N':  // NONE
        return push_shared(none_, Kind::kNone);
      case 0x88:  // NEWTRUE
        return push_shared(true_, Kind::kFlag, 1);
      case 0x89:  // NEWFALSE
        return push_shared(false_, Kind::kFlag, 0);
      case 'J':  // BININT
        return push_integer(static_cast<int32_t>(number(4)));
      case 'K':  // BININT1
        return push_integer(static_cast<int64_t>(number(1)));
      case 'M':  // BININT2
        return push_integer(static_cast<int64_t>(number(2)));
      case 0x8A:  // LONG1
        return push_long(take(number(1)));
      case 0x8B:  // LONG4
        return push_long(take(number(4)));
      case 'G':  // BINFLOAT
        return push_number();
      case 'X':  // BINUNICODE
        return push_text(Kind::kText, take(number(4)));
      case 0x8C:  // SHORT_BINUNICODE
        return push_text(Kind::kText, take(number(1)));
      case 0x8D:  // BINUNICODE8
        return push_text(Kind::kText, take(number(8)));
      case 'U':  // SHORT_BINSTRING, Python 2's text
        return push_text(Kind::kText, take(number(1)));
      case 'T':  // BINSTRING
        return push_text(Kind::kText, take(number(4)));
      case 'C':  // SHORT_BINBYTES
        return push_text(Kind::kBytes, take(number(1)));
      case 'B':  // BINBYTES
        return push_text(Kind::kBytes, take(number(4)));
      case 0x8E:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return push_text(Kind::kBytes, take(number(8)));
      default:
        return false;
    }
  }

  bool collection(unsigned char code) {
    switch (code) {
      case '}':  // EMPTY_DICT
        return push(make(Kind::kDictionary));
      case ']':  // EMPTY_LIST
        return push(make(Kind::kList));
      case ')':  // EMPTY_TUPLE
        return push(make(Kind::kTuple));
      case 0x8F:  // EMPTY_SET
        return push(make(Kind::kOther));
      case '(':  // MARK
        marks_.push_back(stack_.size());
        return true;
      case 'd':  // DICT
        return gather(Kind::kDictionary, pop_mark());
      case 'l':  // LIST
        return gather(Kind::kList, pop_mark());
      case 't':  // TUPLE
        return gather(Kind::kTuple, pop_mark());
      case 0x91:  // FROZENSET
        return gather(Kind::kOther, pop_mark());
      case 0x85:  // TUPLE1, TUPLE2, TUPLE3
      case 0x86:
      case 0x87:
        return gather_last(code - size_t{0x84});
      case 's':  // SETITEM
        return extend_last(2, Kind::kDictionary);
      case 'u':  // SETITEMS
        return extend(pop_mark(), Kind::kDictionary);
      case 'a':  // APPEND
        return extend_last(1, Kind::kList);
      case 'e':  // APPENDS
        return extend(pop_mark(), Kind::kList);
      case 0x90:  // ADDITEMS
        return extend(pop_mark(), Kind::kOther);
      default:
        return false;
    }
  }

  bool memory(unsigned char code) {
    switch (code) {
      case 0x80:  // PROTO
        take(1);
        return true;
      case 0x95:  // FRAME
        take(8);
        return true;
      case '0':  // POP
        pop();
        return true;
      case '1':  // POP_MARK
        stack_.resize(pop_mark());
        return true;
      case '2':  // DUP
        return push(top());
      case 0x94:  // MEMOIZE
        return remember(memo_next_);
      case 'q':  // BINPUT
        return remember(number(1));
      case 'r':  // LONG_BINPUT
        return remember(number(4));
      case 'h':  // BINGET
        return recall(number(1));
      case 'j':  // LONG_BINGET
        return recall(number(4));
      default:
        return false;
    }
  }

  bool object(unsigned char code) {
    switch (code) {
      case 'c': {  // GLOBAL
        const std::string_view module = line();
        return push_global(module, line());
      }
      case 0x93: {  // STACK_GLOBAL
        const PickleValue* const name = pop();
        const PickleValue* const module = pop();
        check(name->kind == Kind::kText && module->kind == Kind::kText);
        return push_global(module->text, name->text);
      }
      case 0x92:  // NEWOBJ_EX: a class, arguments, named arguments
        pop();
        return call();
      case 'R':   // REDUCE
      case 0x81:  // NEWOBJ
        return call();
      case 'b':  // BUILD
        return set_state();
      case 'Q': {  // BINPERSID
        const PickleValue* const id = pop();
        PickleValue* const value = make(Kind::kPersistent);
        value->items = {id};
        return push(value);
      }
      default:
        return false;
    }
  }

  std::string_view bytes_;
  Pickle& out_;
  size_t at_ = 0;
  std::vector<PickleValue*> stack_, memo_;
  std::vector<size_t> marks_;  // sizes of the stack
  uint64_t memo_next_ = 0;
  PickleValue *none_ = nullptr, *true_ = nullptr, *false_ = nullptr;
};

Pickle::Pickle(std::string_view bytes, std::string where) : where_(std::move(where)) {
  root_ = PickleReader(bytes, *this).read();
}

const PickleValue* PickleValue::dictionary() const {
  if (kind == Kind::kDictionary) return this;
  if (kind == Kind::kObject && items.size() == 3 && items[2]->kind == Kind::kDictionary) return items[2];
  return nullptr;
}

const PickleValue* PickleValue::find(std::string_view key) const {
  const PickleValue* const in = dictionary();
  if (in == nullptr) return nullptr;
  for (size_t i = in->items.size(); i >= 2; i -= 2)
    if (in->items[i - 2]->is_text(key)) return in->items[i - 1];
  return nullptr;
}

}  // namespace tril
