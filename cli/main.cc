// tril: finds the command, runs it, and turns every failure into one line and an exit code:
// 1 use, 2 data or file, 3 numerics.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>

#include "cli/command.h"
#include "cli/near_name.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril::cli {
namespace {

constexpr Command kCommands[] = {
    {"train", "Models", "train a model from text files", train_command},
    {"plan", "Models", "memory, time and size of a training run, before it starts", plan_command},
    {"lr-find", "Models", "which learning rate suits a model and its text: a short test", lr_find_command},
    {"generate", "Models", "write text with a model", generate_command},
    {"chat", "Models", "talk with a model", chat_command},
    {"eval", "Models", "loss, perplexity and bits per byte of a text", eval_command},
    {"attention", "Models", "which tokens each head looks at, as a page for the browser", attention_command},
    {"plot", "Models", "training and validation loss of runs, here or as a page for the browser",
     plot_command},
    {"info", "Models", "what is in a model", info_command},
    {"convert", "Models", "a model in another format: Hugging Face's folders, GGUF, PyTorch, llama2.c",
     convert_command},
    {"logits", "Models", "a model's logits for given tokens, as a file", logits_command},
    {"data", "Data", "text as tokens, made once: build, info, lint, show, export", data_command},
    {"corpus", "Data", "the built-in stories, as text to train on", corpus_command},
    {"tokenizer", "Data", "train, use, look into and convert tokenizers", tokenizer_command},
    {"doctor", "This machine", "what the machine can do, and whether tril computes correctly on it",
     doctor_command},
    {"bench", "This machine", "speed of matrix products, attention and whole training steps", bench_command},
};

void print_help() {
  std::string text =
      "tril trains transformer language models from scratch on CPUs.\n\n"
      "Examples:\n"
      "  tril train book.txt                                   train on your own text\n"
      "  tril generate runs/book --prompt \"Once upon a time\"   let the model write\n"
      "  tril corpus --stories 2000 --out stories.txt          a small text to try it on\n";
  std::string_view group;
  for (const Command& command : kCommands) {
    if (command.group != group) text += fmt::format("\n{}:\n", group = command.group);
    text += fmt::format("  {:<10} {}\n", command.name, command.summary);
  }
  text += "\ntril COMMAND --help shows examples and every option. tril --version prints the version.\n";
  std::fputs(text.c_str(), stdout);
}

int run(int argc, char** argv) {
  if (argc < 2) {
    print_help();
    return 1;
  }
  const std::string word = argv[1];
  if (word == "--help" || word == "-h" || word == "help") {
    print_help();
    return 0;
  }
  if (word == "--version") {
    std::puts("tril " TRIL_VERSION);
    return 0;
  }
  std::vector<std::string> names = {"--help", "--version"};
  for (const Command& command : kCommands) {
    if (command.name == word) return command.run({argv[0], {argv + 2, argv + argc}});
    names.emplace_back(command.name);
  }
  fail(ErrorKind::kUse, "unknown {} '{}'{} (tril --help lists all)", word[0] == '-' ? "option" : "command",
       word, suggestion(word, names));
}

// Whatever a message quotes (file names, bytes of a file), it stays one line that a terminal can show.
int report(const std::string& message, int code) {
  std::fflush(stdout);
  std::fprintf(stderr, "tril: %s\n", printable(message, 2000).c_str());
  return code;
}

}  // namespace
}  // namespace tril::cli

int main(int argc, char** argv) {
  using tril::cli::report;
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is a full disk like any other
  try {
    const int code = tril::cli::run(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      return report("standard output cannot be written", 2);
    return code;
  } catch (const tril::Error& error) {
    return report(error.what(), static_cast<int>(error.kind()));
  } catch (const std::bad_alloc&) {
    return report("not enough memory; use smaller sizes", 2);
  } catch (const std::filesystem::filesystem_error& error) {
    return report(fmt::format("{}: {}; check the path and its permissions", error.path1().string(),
                              error.code().message()),
                  2);
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return report("standard output cannot be written", 2);
    return report(fmt::format("unexpected failure: {}", error.what()), 2);
  }
}
