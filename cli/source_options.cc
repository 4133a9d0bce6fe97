#include "cli/source_options.h"

#include <algorithm>
#include <cstdio>

#include "cli/format.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril::cli {
namespace {

std::vector<std::string> extensions_of(const std::string& list) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string word = list.substr(begin, end - begin);
    begin = end + 1;
    if (word == "code") {
      out.insert(out.end(), code_extensions().begin(), code_extensions().end());
    } else if (!word.empty()) {
      out.push_back(word.starts_with('.') ? word : "." + word);
    }
  }
  return out;
}

}  // namespace

void SourceArguments::add_to(CommandLine& line) {
  line.text(
      "--separator", separator, "TEXT",
      "of text files: where a document ends, such as '<|endoftext|>' or '\\n\\n' (a file is a document)");
  line.text("--field", field, "NAME", "of JSON lines: the string that is the text; a.b is b within a (text)");
  line.text("--encoding", encoding, "NAME",
            "utf-8, utf-16, utf-16le, utf-16be, latin-1 or windows-1252 (utf-8)");
  line.text("--extensions", extensions, "LIST",
            "what else folders are searched for, such as cc,h or code (txt, md and jsonl always)");
  line.text("--on-error", on_error, "WHAT", "stop or skip, at a document that is no valid text (stop)");
}

SourceOptions SourceArguments::options() const {
  check_use(on_error == "stop" || on_error == "skip", "--on-error {}: give stop or skip",
            printable(on_error));
  SourceOptions out;
  out.separator = unescaped(separator);
  out.field = field;
  out.encoding = parse_encoding(encoding);
  out.extensions = extensions_of(extensions);
  if (on_error == "skip") {
    out.on_broken = [told = 0](const std::string& problem) mutable {
      constexpr int kTold = 10;
      if (++told <= kTold)
        fmt::print(stderr, "skipped: {}{}\n", one_line(problem),
                   told == kTold ? " (more are only counted)" : "");
    };
  }
  return out;
}

}  // namespace tril::cli
