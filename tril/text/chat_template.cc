#include "tril/text/chat_template.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/special_tokens.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

// What Python's str.strip() takes away, as Jinja's `trim` does.
bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::string_view stripped(std::string_view text) {
  size_t begin = text.size(), end = 0;
  for (size_t at = 0; at < text.size();) {
    const int length = utf8_length(text, at);
    const size_t next = at + static_cast<size_t>(std::max(length, 1));
    if (length == 0 || !is_space(utf8_decode(text, at))) {
      begin = std::min(begin, at);
      end = next;
    }
    at = next;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

const SpecialToken* find_token(const Tokenizer& tokenizer, std::string_view content) {
  for (const SpecialToken& token : tokenizer.specials())
    if (token.content == content) return &token;
  return nullptr;
}

std::string content_of_id(const Tokenizer& tokenizer, int32_t id) {
  for (const SpecialToken& token : tokenizer.specials())
    if (token.id == id) return token.content;
  return {};
}

void replace(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += with.size())
    text.replace(at, what.size(), with);
}

bool begins_with(std::span<const int32_t> tokens, std::span<const int32_t> begin) {
  return begin.size() <= tokens.size() && std::equal(begin.begin(), begin.end(), tokens.begin());
}

// A string of Jinja.
std::string jinja_string(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c == '\n' ? "\\n" : std::string(1, c);
  }
  return out + "'";
}

// A sum of strings of Jinja without those that are empty.
std::string sum(std::initializer_list<std::string> terms) {
  std::string out;
  for (const std::string& term : terms)
    if (term != "''") out += (out.empty() ? "" : " + ") + term;
  return out;
}

}  // namespace

std::string messages_problem(std::span<const ChatMessage> messages) {
  bool user_next = true;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role == "system") {
      if (i > 0) return fmt::format("message {} is of the system, which may only speak first", i + 1);
      continue;
    }
    if (role != "user" && role != "assistant")
      return fmt::format("message {} has role '{}'; known are system, user and assistant", i + 1,
                         printable(role));
    if ((role == "user") != user_next)
      return fmt::format(
          "message {} is of the {}, but the {} is next; user and assistant speak in turns, the "
          "user first",
          i + 1, role, user_next ? "user" : "assistant");
    user_next = !user_next;
  }
  return {};
}

// Collects tokens: special ones of markers, and each run of text between them as a whole, as it would be cut
// if all were one text.
class ChatTemplate::Writer {
 public:
  explicit Writer(const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), finder_(tokenizer.specials(), [](const SpecialToken&) { return true; }) {}

  void add(const Piece& piece) {
    size_t at = 0;
    while (piece.is_marker) {
      const SpecialFinder::Found found = finder_.next(piece.text, at);
      if (found.token == nullptr) break;
      run_ += piece.text.substr(at, found.begin - at);
      end_run();
      tokens_.push_back(found.token->id);
      at = found.end;
    }
    run_ += piece.text.substr(at);
  }
  // The run that follows goes on from this text, which has tokens already.
  void go_on_from(std::string_view open) { open_ = open; }
  const std::string& run() const { return run_; }
  std::vector<int32_t> take() {
    end_run();
    return std::move(tokens_);
  }

 private:
  void end_run() {
    if (!run_.empty()) {
      std::vector<int32_t> ids;
      if (!open_.empty()) {
        // The tokens that a model would write behind `open`, unless one of them lies across the border.
        const std::vector<int32_t> before = tokenizer_.encode(open_);
        ids = tokenizer_.encode(open_ + run_);
        if (begins_with(ids, before))
          ids.erase(ids.begin(), ids.begin() + std::ssize(before));
        else
          ids.clear();
      }
      if (ids.empty()) ids = tokenizer_.encode(run_);
      tokens_.insert(tokens_.end(), ids.begin(), ids.end());
    }
    run_.clear();
    open_.clear();
  }

  const Tokenizer& tokenizer_;
  SpecialFinder finder_;
  std::vector<int32_t> tokens_;
  std::string run_, open_;
};

ChatTemplate::ChatTemplate(std::string_view name, const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  const auto tables = chat_template_tables();
  const auto found = std::ranges::find(tables, name, &ChatTemplateTable::name);
  check_use(found != tables.end(), "--template {}: unknown; known are {}", printable(name),
            chat_template_names());
  table_ = *found;
  std::string bos = content_of_id(tokenizer, tokenizer.begin_of_text());
  if (bos.empty() && find_token(tokenizer, table_.bos) != nullptr) bos = table_.bos;
  std::string eos = content_of_id(tokenizer, tokenizer.end_of_text());
  if (eos.empty()) eos = table_.eos;
  for (std::string* text : {&table_.begin, &table_.before_user, &table_.after_system, &table_.after_user,
                            &table_.before_assistant, &table_.end}) {
    replace(*text, "{bos}", bos);
    replace(*text, "{eos}", eos);
  }
  // Without such a token what stands behind an answer must end it.
  if (table_.end.empty()) table_.end.swap(table_.after_assistant);
}

std::vector<std::string> ChatTemplate::missing_tokens() const {
  std::vector<std::string> out;
  for (const std::string& token : table_.tokens)
    if (find_token(tokenizer_, token) == nullptr) out.push_back(token);
  return out;
}

std::vector<ChatTemplate::Piece> ChatTemplate::prompt_pieces(std::string_view user, bool first,
                                                             std::string_view system) const {
  std::vector<Piece> out;
  const auto marker = [&](std::string_view text) { out.push_back({text, true}); };
  const auto content = [&](std::string_view text) {
    out.push_back({table_.trims ? stripped(text) : text, false});
  };
  const auto put_system = [&] {
    if (system.empty() || !first) return;
    marker(table_.before_system), content(system), marker(table_.after_system);
  };
  marker(first ? table_.begin : table_.after_assistant);
  if (!table_.system_in_user) put_system();
  marker(table_.before_user);
  if (table_.system_in_user) put_system();
  content(user);
  marker(table_.after_user);
  return out;
}

ChatTemplate::Prompt ChatTemplate::prompt(std::string_view user, bool first, std::string_view system) const {
  Writer writer(tokenizer_);
  for (const Piece& piece : prompt_pieces(user, first, system)) writer.add(piece);
  writer.add({table_.before_assistant, true});
  Prompt out;
  out.open = writer.run();
  out.tokens = writer.take();
  return out;
}

std::vector<int32_t> ChatTemplate::answer(const Prompt& prompt, std::string_view content) const {
  Writer writer(tokenizer_);
  writer.go_on_from(prompt.open);
  writer.add({table_.lead, false});
  writer.add({table_.trims ? stripped(content) : content, false});
  writer.add({table_.end, true});
  return writer.take();
}

ChatTemplate::Encoded ChatTemplate::encode(std::span<const ChatMessage> messages) const {
  const std::string problem = messages_problem(messages);
  check_use(problem.empty(), "{}", problem);
  Encoded out;
  const auto add = [&](std::span<const int32_t> tokens, uint8_t learned) {
    out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
    out.learned.resize(out.tokens.size(), learned);
  };
  std::string_view system;
  bool first = true;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role == "system") system = messages[i].content;
    if (messages[i].role != "user") continue;
    if (i + 1 == messages.size()) {  // nobody answers
      Writer writer(tokenizer_);
      for (const Piece& piece : prompt_pieces(messages[i].content, first, system)) writer.add(piece);
      add(writer.take(), 0);
      return out;
    }
    const Prompt before = prompt(messages[i].content, first, system);
    add(before.tokens, 0);
    add(answer(before, messages[i + 1].content), 1);
    first = false;
  }
  Writer writer(tokenizer_);
  writer.add({table_.after_assistant, true});
  add(writer.take(), 0);
  return out;
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, bool ask) const {
  std::string out;
  std::string_view system;
  bool first = true;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string_view content = messages[i].content;
    if (messages[i].role == "system") system = content;
    if (messages[i].role == "user")
      for (const Piece& piece : prompt_pieces(content, first, system)) out += piece.text;
    if (messages[i].role != "assistant") continue;
    first = false;
    out += table_.before_assistant + table_.lead;
    out += table_.trims ? stripped(content) : content;
    out += table_.end;
    if (i + 1 == messages.size()) out += table_.after_assistant;
  }
  return ask ? out + table_.before_assistant : out;
}

std::vector<int32_t> ChatTemplate::stop_ids() const {
  std::vector<int32_t> out;
  const SpecialFinder finder(tokenizer_.specials(), [](const SpecialToken&) { return true; });
  const SpecialFinder::Found found = finder.next(table_.end, 0);
  if (found.token != nullptr) out.push_back(found.token->id);
  return out;
}

std::vector<std::string> ChatTemplate::stop_strings() const {
  std::vector<std::string> out;
  if (stop_ids().empty()) {
    const std::string_view text = stripped(table_.end);
    out.emplace_back(text.empty() ? table_.end : text);
  }
  for (const std::string& stop : table_.stops)
    if (find_token(tokenizer_, stop) == nullptr) out.push_back(stop);
  return out;
}

std::string ChatTemplate::content_of(std::string_view written) const {
  if (table_.trims) return std::string(stripped(written));
  return std::string(written);
}

std::string ChatTemplate::jinja() const {
  const ChatTemplateTable& t = table_;
  const std::string content = t.trims ? "m['content'] | trim" : "m['content']";
  const auto write = [](const std::string& what) { return what.empty() ? "" : "{{ " + what + " }}"; };
  const std::string system = sum(
      {jinja_string(t.before_system), t.trims ? "(" + content + ")" : content, jinja_string(t.after_system)});
  const std::string text = t.trims ? "(" + content + ")" : content;
  std::string out = "{# tril: " + t.name + " #}" + write(sum({jinja_string(t.begin)}));
  if (t.system_in_user) out += "{% set ns = namespace(system='') %}";
  out += "{% for m in messages %}{% if m['role'] == 'system' %}";
  out += t.system_in_user ? "{% set ns.system = " + system + " %}" : write(system);
  out += "{% elif m['role'] == 'user' %}";
  out += write(sum({jinja_string(t.before_user), t.system_in_user ? "ns.system" : "''", text,
                    jinja_string(t.after_user)}));
  if (t.system_in_user) out += "{% set ns.system = '' %}";
  out += "{% elif m['role'] == 'assistant' %}";
  out +=
      write(sum({jinja_string(t.before_assistant + t.lead), text, jinja_string(t.end + t.after_assistant)}));
  out += "{% endif %}{% endfor %}";
  if (!t.before_assistant.empty())
    out += "{% if add_generation_prompt %}" + write(jinja_string(t.before_assistant)) + "{% endif %}";
  return out;
}

}  // namespace tril
