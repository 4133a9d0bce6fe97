// Conversations as people store them, one a JSON value:
//
//   {"messages": [{"role": "user", "content": "..."}, ...]}          roles system, user, assistant
//   [{"role": ...}, ...]                                             the list alone
//   {"prompt": "...", "completion": "..."}                           each text, or a list of messages
//   {"instruction": "...", "input": "...", "output": "..."}          Alpaca's; the input may be missing
//   {"conversations": [{"from": "human", "value": "..."}, ...]}      ShareGPT's; human, gpt, system
//
// Formats as in TRL's documentation, "Dataset formats and types". A content may be a list of parts of
// type text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tril/data/sources.h"
#include "tril/text/chat_template.h"

namespace tril {

// Returns what is wrong, or nothing: no JSON, none of these formats, turns that are out of order, no answer.
// `out` is then undefined.
std::string read_messages(std::string_view json, std::vector<ChatMessage>& out);

// Whether a file of JSON lines holds conversations: its first line has one of these formats and no string
// under `field`.
bool holds_conversations(const SourceFile& file, const SourceOptions& options);

// A conversation, and where it stands, for messages: "chat.jsonl, line 3".
struct SourceConversation {
  std::string name;
  std::vector<ChatMessage> messages;
};
// Of files of JSON lines, all in memory. Broken ones are told to options.on_broken and counted; without it
// kData is thrown. Throws kData if none is left.
std::vector<SourceConversation> read_conversations(const std::vector<SourceFile>& files,
                                                   SourceOptions options, int64_t* skipped_broken = nullptr);

}  // namespace tril
