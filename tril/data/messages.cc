#include "tril/data/messages.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/containers/json.h"
#include "tril/data/document_reader.h"
#include "tril/data/text_stream.h"

namespace tril {
namespace {

const Json* find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

bool is_conversation(const Json& json) {
  if (!json.is_object()) return json.is_array() && !json.empty() && json.front().is_object();
  for (const char* key : {"messages", "conversations"})
    if (const Json* list = find(json, key); list != nullptr && list->is_array()) return true;
  return (json.contains("prompt") && json.contains("completion")) ||
         (json.contains("instruction") && json.contains("output"));
}

// A text, or the texts of a list of parts.
std::string read_content(const Json* content, std::string& out) {
  if (content == nullptr) return "has no content";
  if (content->is_array()) {
    for (const Json& part : *content) {
      const Json* const type = part.is_object() ? find(part, "type") : nullptr;
      const Json* const text = part.is_object() ? find(part, "text") : nullptr;
      if (type == nullptr || *type != "text" || text == nullptr || !text->is_string())
        return "has a part that is no text; only text is read";
      out += text->get<std::string>();
    }
  } else if (content->is_string()) {
    out = content->get<std::string>();
  } else {
    return "has a content that is no text";
  }
  return out.find('\0') == out.npos ? "" : "has a NUL in its content";
}

std::string role_of(const std::string& name) {
  if (name == "human") return "user";
  if (name == "gpt") return "assistant";
  return name;
}

std::string read_list(const Json& list, const char* role_key, const char* content_key,
                      std::vector<ChatMessage>& out) {
  for (const Json& entry : list) {
    const size_t number = out.size() + 1;
    const Json* const role = entry.is_object() ? find(entry, role_key) : nullptr;
    if (role == nullptr || !role->is_string())
      return fmt::format("message {} has no \"{}\" that is a text", number, role_key);
    ChatMessage message;
    message.role = role_of(role->get<std::string>());
    const std::string problem = read_content(find(entry, content_key), message.content);
    if (!problem.empty()) return fmt::format("message {} {}", number, problem);
    out.push_back(std::move(message));
  }
  return {};
}

// A text of this role, or a list of messages.
std::string read_side(const Json& json, const char* key, const char* role, std::vector<ChatMessage>& out) {
  const Json* const side = find(json, key);
  if (side->is_array()) return read_list(*side, "role", "content", out);
  ChatMessage message{role, {}};
  const std::string problem = read_content(side, message.content);
  if (!problem.empty()) return fmt::format("\"{}\" {}", key, problem);
  out.push_back(std::move(message));
  return {};
}

std::string read_any(const Json& json, std::vector<ChatMessage>& out) {
  if (json.is_array()) return read_list(json, "role", "content", out);
  const auto list = [&](const char* key) {
    const Json* const found = find(json, key);
    return found != nullptr && found->is_array() ? found : nullptr;
  };
  if (const Json* const messages = list("messages")) return read_list(*messages, "role", "content", out);
  if (const Json* const turns = list("conversations")) return read_list(*turns, "from", "value", out);
  const bool alpaca = json.contains("instruction") && json.contains("output");
  std::string problem = read_side(json, alpaca ? "instruction" : "prompt", "user", out);
  const Json* const input = alpaca ? find(json, "input") : nullptr;
  if (problem.empty() && input != nullptr && !input->is_null()) {
    std::string text;
    problem = read_content(input, text);
    if (!problem.empty()) return "\"input\" " + problem;
    if (!text.empty() && out.empty()) return "\"instruction\" is empty";
    if (!text.empty()) out.back().content += "\n\n" + text;
  }
  if (problem.empty()) problem = read_side(json, alpaca ? "output" : "completion", "assistant", out);
  return problem;
}

constexpr const char* kFormats =
    "it has no \"messages\", no \"conversations\", no \"prompt\" with \"completion\" and no "
    "\"instruction\" with \"output\"";

}  // namespace

std::string read_messages(std::string_view text, std::vector<ChatMessage>& out) {
  out.clear();
  const Json json = parse_json(text);
  if (json.is_discarded()) return "no valid JSON";
  if (!is_conversation(json)) return std::string("no conversation: ") + kFormats;
  std::string problem = read_any(json, out);
  if (problem.empty()) problem = messages_problem(out);
  const auto is_answer = [](const ChatMessage& message) { return message.role == "assistant"; };
  if (problem.empty() && std::ranges::none_of(out, is_answer)) problem = "nobody answers in it";
  return problem;
}

bool holds_conversations(const SourceFile& file, const SourceOptions& options) {
  constexpr size_t kLongest = size_t{64} << 20;
  if (file.format != SourceFormat::kJsonLines || is_read_once(file.path)) return false;
  TextStream stream(file.path, options.encoding, 0);
  std::string_view text;
  size_t begin = 0, end = 0;
  for (size_t size = 4096; size <= kLongest; size *= 4) {
    text = stream.ahead(size);
    begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    end = text.find('\n', begin);
    if (end != text.npos || text.size() < size) break;
  }
  const Json json = parse_json(text.substr(begin, std::min(end, text.size()) - begin));
  if (json.is_discarded() || !is_conversation(json)) return false;
  const Json* const field = json.is_object() ? find(json, options.field.c_str()) : nullptr;
  return field == nullptr || !field->is_string();
}

std::vector<SourceConversation> read_conversations(const std::vector<SourceFile>& files,
                                                   SourceOptions options, int64_t* skipped_broken) {
  options.whole_lines = true;
  DocumentReader reader(files, options);
  std::vector<SourceConversation> out;
  int64_t broken = 0;
  DocumentPiece piece;
  while (reader.next(piece)) {
    SourceConversation conversation{.name = reader.name_of(piece)};
    const std::string problem = read_messages(piece.text, conversation.messages);
    if (problem.empty()) {
      out.push_back(std::move(conversation));
      continue;
    }
    const std::string told = conversation.name + ": " + problem;
    check_data(options.on_broken != nullptr, "{}; mend it, or leave such lines out with --on-error skip",
               told);
    options.on_broken(told);
    ++broken;
  }
  broken += reader.position().skipped_broken;
  check_data(!out.empty(), "{}: no conversation is left of {} broken ones",
             printable(files.front().path.string()), broken);
  if (skipped_broken != nullptr) *skipped_broken = broken;
  return out;
}

}  // namespace tril
