#include "cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cwchar>

#include "cli/signals.h"
#include "cli/terminal.h"

namespace tril::cli {

struct LineEditor::Impl {
  std::string prompt;
  std::string buffer;  // read and not yet given, outside a terminal
  EditLine* editor = nullptr;
  History* history = nullptr;

  static const char* prompt_of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return static_cast<Impl*>(self)->prompt.c_str();
  }

  // libedit's own reader goes on after the first signal; this one tells it.
  static int next_character(EditLine*, wchar_t* out) {
    std::mbstate_t state = {};
    while (true) {
      char byte = 0;
      const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
      if (got < 0 && errno == EINTR && interrupts() == 0) continue;  // the window has another size
      if (got <= 0) return static_cast<int>(got);
      const size_t used = std::mbrtowc(out, &byte, 1, &state);
      if (used == static_cast<size_t>(-2)) continue;  // more bytes of the character follow
      if (used == static_cast<size_t>(-1)) *out = L'?';
      return 1;
    }
  }

  Got read_edited(std::string& line) {
    int count = 0;
    const char* const text = el_gets(editor, &count);
    if (interrupts() > 0) {
      el_reset(editor);
      std::puts("");
      return Got::kInterrupt;
    }
    if (text == nullptr || count <= 0) return Got::kEnd;
    line.assign(text, static_cast<size_t>(count));
    if (line.ends_with('\n')) line.pop_back();
    HistEvent event = {};
    if (!line.empty()) ::history(history, &event, H_ENTER, line.c_str());
    return Got::kLine;
  }

  Got read_plain(std::string& line) {
    size_t end = 0;
    while ((end = buffer.find('\n')) == buffer.npos) {
      char bytes[4096];
      const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) {
        if (interrupts() == 0) continue;
        return Got::kInterrupt;
      }
      if (got <= 0) {
        if (buffer.empty()) return Got::kEnd;
        end = buffer.size();
        break;
      }
      buffer.append(bytes, static_cast<size_t>(got));
    }
    line = buffer.substr(0, end);
    buffer.erase(0, end + 1);
    if (line.ends_with('\r')) line.pop_back();
    return Got::kLine;
  }
};

LineEditor::LineEditor(std::string prompt) : impl_(std::make_unique<Impl>()) {
  impl_->prompt = std::move(prompt);
  if (isatty(STDIN_FILENO) == 0 || !output_is_terminal()) return;
  // Characters of several bytes are one to the editor.
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
  impl_->editor = el_init("tril", stdin, stdout, stderr);
  if (impl_->editor == nullptr) return;
  impl_->history = history_init();
  HistEvent event = {};
  history(impl_->history, &event, H_SETSIZE, 1000);
  el_set(impl_->editor, EL_CLIENTDATA, impl_.get());
  el_set(impl_->editor, EL_PROMPT, &Impl::prompt_of);
  el_set(impl_->editor, EL_EDITOR, "emacs");
  el_set(impl_->editor, EL_SIGNAL, 0);
  el_set(impl_->editor, EL_HIST, history, impl_->history);
  el_set(impl_->editor, EL_GETCFN, &Impl::next_character);
}

LineEditor::~LineEditor() {
  if (impl_->editor == nullptr) return;
  history_end(impl_->history);
  el_end(impl_->editor);
}

bool LineEditor::in_terminal() const { return impl_->editor != nullptr; }

LineEditor::Got LineEditor::read(std::string& line) {
  return in_terminal() ? impl_->read_edited(line) : impl_->read_plain(line);
}

}  // namespace tril::cli
