// A side of a token store as a file that other programs read.
#pragma once

#include <functional>
#include <string_view>

#include "tril/data/token_store.h"
#include "tril/text/tokenizer.h"

namespace tril {

// kText: documents, after each a line "<|endoftext|>" if there are several. kJsonLines: {"text": ...} a line.
// kNumPy: .npy, 16 or 32 bits. kNanoGpt: 16-bit tokens alone. kLlmc: a shard with its header, end-of-text
// before each document.
enum class ExportFormat { kText, kJsonLines, kNumPy, kNanoGpt, kLlmc };
ExportFormat parse_export_format(std::string_view name);  // txt, jsonl, npy, nanogpt, llmc; throws kUse

// Throws kUse where the format cannot hold the tokens, with what can.
void export_tokens(const TokenFile& side, const Tokenizer& tokenizer, ExportFormat format,
                   const std::function<void(std::string_view)>& write);

}  // namespace tril
