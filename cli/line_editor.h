// Lines that a user types: with libedit in a terminal (its keys, its history), else as they come.
#pragma once

#include <memory>
#include <string>

namespace tril::cli {

class LineEditor {
 public:
  explicit LineEditor(std::string prompt);
  ~LineEditor();

  enum class Got { kLine, kInterrupt, kEnd };
  // The next line without its end. kInterrupt: Ctrl-C was pressed (interrupts() of signals.h counts it).
  Got read(std::string& line);
  bool in_terminal() const;

 private:
  struct Impl;  // only line_editor.cc knows libedit
  std::unique_ptr<Impl> impl_;
};

}  // namespace tril::cli
