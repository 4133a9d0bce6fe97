// Python's pickle, protocols 2 to 5 (PEP 307, 3154, 574), read as a tree of values. Nothing is imported,
// called or constructed: names of functions and classes, and calls of them, are values like others, and what
// they mean is the reader's affair.
//
// Values may contain themselves. Nothing here or in a destructor follows them, so neither depth nor cycles
// cost anything; who walks the tree goes down by keys. Memory is in proportion to the bytes: texts are views
// of them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

struct PickleValue {
  enum class Kind {
    kNone,
    kFlag,        // integer: 0 or 1
    kInteger,     // integer
    kNumber,      // number
    kText,        // text: UTF-8, as in the file
    kBytes,       // text
    kList,        // items
    kTuple,       // items
    kDictionary,  // items: key, value, key, value, ...; collections.OrderedDict and defaultdict are of these
    kGlobal,      // text: "module.name" of a function or class
    kObject,      // items: what is called, its arguments, the state if there is one
    kPersistent,  // items: the id of a thing kept elsewhere
    kOther,       // sets, integers beyond 64 bits
  };
  Kind kind = Kind::kNone;
  union {
    int64_t integer = 0;
    double number;
  };
  std::string_view text;
  std::vector<const PickleValue*> items;

  bool is_text(std::string_view expected) const { return kind == Kind::kText && text == expected; }
  bool is_global(std::string_view name) const { return kind == Kind::kGlobal && text == name; }
  // The value of a dictionary's key, of equal ones the last, or of an object's attribute; null if there is
  // none.
  const PickleValue* find(std::string_view key) const;
  // Itself if it is a dictionary, the attributes of an object that has nothing else; or null.
  const PickleValue* dictionary() const;
};

class Pickle {
 public:
  // The bytes must outlive this object; `where` names them in messages. Throws kData for bytes that are cut
  // or damaged, protocols 0 and 1, and more than four million values.
  Pickle(std::string_view bytes, std::string where);
  const PickleValue& root() const { return *root_; }
  const std::string& where() const { return where_; }

 private:
  friend class PickleReader;
  std::string where_;
  std::deque<PickleValue> values_;
  std::deque<std::string> names_;  // of globals
  const PickleValue* root_ = nullptr;
};

// Writes a pickle of protocol 2, value after value, that Python reads without running anything of its own.
class PickleWriter {
 public:
  PickleWriter() : bytes_("\x80\x02") {}
  // Keys and values come between the two, one after the other.
  void begin_dictionary() { bytes_ += "}("; }
  void end_dictionary() { bytes_ += 'u'; }
  void begin_tuple() { bytes_ += '('; }
  void end_tuple() { bytes_ += 't'; }
  void empty_tuple() { bytes_ += ')'; }
  void none() { bytes_ += 'N'; }
  void flag(bool value) { bytes_ += value ? '\x88' : '\x89'; }
  void integer(int64_t value);
  void number(double value);
  void text(std::string_view utf8);
  void global(std::string_view module, std::string_view name);
  void call() { bytes_ += 'R'; }        // of the global before the last value, with that as its arguments
  void persistent() { bytes_ += 'Q'; }  // the last value is an id
  std::string finish() { return std::move(bytes_) + '.'; }

 private:
  std::string bytes_;
};

}  // namespace tril
