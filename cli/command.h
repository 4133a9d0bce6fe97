// What the commands share: the table of commands, and a command line whose every fault is one line.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tril::cli {

// The program's arguments after the name of the command; `program` is the program as it was called.
struct Arguments {
  std::string program;
  std::vector<std::string> words;
};

struct Command {
  std::string_view name;
  std::string_view group;
  std::string_view summary;
  int (*run)(const Arguments&);  // returns the exit code
};

int train_command(const Arguments&);
int plan_command(const Arguments&);
int lr_find_command(const Arguments&);
int generate_command(const Arguments&);
int chat_command(const Arguments&);
int eval_command(const Arguments&);
int logits_command(const Arguments&);
int attention_command(const Arguments&);
int plot_command(const Arguments&);
int info_command(const Arguments&);
int convert_command(const Arguments&);
int corpus_command(const Arguments&);
int tokenizer_command(const Arguments&);
int data_command(const Arguments&);
int doctor_command(const Arguments&);
int bench_command(const Arguments&);

// Of a command with parts, such as tril data: runs the one that the first word names, or prints `about`, the
// list of parts and `notes`. Throws kUse for an unknown part, with the nearest name.
int run_part(std::string_view command, std::string_view about, std::span<const Command> parts,
             std::string_view notes, const Arguments& arguments);

template <class T>
struct Range {
  T least = std::numeric_limits<T>::lowest();
  T most = std::numeric_limits<T>::max();
};

// `where` names the option or the line of a file. Throws kUse with the text and what is allowed.
int64_t parse_count(std::string_view where, std::string_view text, Range<int64_t> range);
double parse_number(std::string_view where, std::string_view text, Range<double> range);

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& description, const std::string& examples);
  ~CommandLine();

  void positional(const std::string& name, std::string& target, const std::string& help);
  void positionals(const std::string& name, std::vector<std::string>& target, const std::string& help);
  // Options that follow stand under this heading in --help.
  void heading(std::string_view text);
  void count(const std::string& name, int64_t& target, Range<int64_t> range, const std::string& help);
  void seed(const std::string& name, uint64_t& target, const std::string& help);
  void number(const std::string& name, double& target, Range<double> range, const std::string& help);
  void text(const std::string& name, std::string& target, std::string_view value, const std::string& help);
  // May be given more than once: each value is one of the list.
  void texts(const std::string& name, std::vector<std::string>& target, std::string_view value,
             const std::string& help);
  void flag(const std::string& name, bool& target, const std::string& help);
  void threads(int64_t& target);

  // False when help was asked for and printed. Throws kUse: unknown options with the nearest name.
  bool parse(const Arguments& arguments);
  bool given(const std::string& name) const;  // false for options that this command does not have

 private:
  struct Impl;  // only command.cc knows CLI11
  std::unique_ptr<Impl> impl_;
};

}  // namespace tril::cli
