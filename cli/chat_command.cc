#include <cstdio>

#include "cli/chat_model.h"
#include "cli/chat_session.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/line_editor.h"
#include "cli/sampler_options.h"
#include "cli/signals.h"
#include "cli/weights_option.h"
#include "tril/base/error.h"

namespace tril::cli {
namespace {

constexpr const char* kExamples =
    "  tril chat runs/assistant\n"
    "  tril chat runs/assistant --system \"Answer in one sentence.\" --temperature 0.5\n"
    "  tril chat runs/book --template plain                       a model that was never told how to chat\n"
    "  printf 'Who are you?\\n' | tril chat runs/assistant --json   an answer for each line, as JSON";

}  // namespace

int chat_command(const Arguments& words) {
  std::string folder, system, name, file;
  SamplerArguments sampler;
  WeightsOption weights;
  sampler.max_tokens = 1000;
  bool json = false;
  int64_t threads = 0;
  CommandLine line("chat", "A conversation with a model: a line is a question, /help shows the commands.",
                   kExamples);
  line.positional("MODEL", folder, "folder of a model or a run, or a model file");
  line.text("--system", system, "TEXT", "what the model is told before the conversation");
  line.text("--template", name, "NAME",
            "how messages are written: " + chat_template_names() + " (as the model's own says)");
  line.text("--load", file, "FILE", "go on with a conversation that /save wrote");
  sampler.add_to(line);
  line.seed("--seed", sampler.seed, "of the random choices (1)");
  weights.add_to(line);
  line.flag("--json", json, "a JSON object for each answer, a line each");
  line.threads(threads);
  if (!line.parse(words)) return 0;
  check_use(!folder.empty(), "tril chat: no model given; usage: tril chat MODEL (tril chat --help)");
  ChatOptions options{.stops = sampler.stop_strings(), .json = json};
  ThreadPool pool(static_cast<int>(threads));
  const LoadedModel loaded = weights.load(folder, pool);
  check_data(loaded.tokenizer != nullptr, "{}: there is no tokenizer.json, so text cannot be written",
             folder);
  options.generate = sampler.options(loaded);
  const ChosenTemplate chosen = choose_chat_template(name, loaded.text.chat_template, *loaded.tokenizer);
  const ChatTemplate chat_template(chosen.name, *loaded.tokenizer);

  LineEditor editor("> ");
  options.terminal = editor.in_terminal();
  std::fprintf(stderr, "template %s\n", one_line(describe(chosen, *loaded.tokenizer)).c_str());
  if (options.terminal) std::fprintf(stderr, "/help shows the commands\n");
  ChatSession session(*loaded.model, *loaded.tokenizer, pool, chat_template, system, std::move(options));
  if (!file.empty()) session.load(file);
  install_interrupt_count();
  bool interrupted = false;  // at the prompt, just before
  std::string text;
  while (!session.output_gone()) {
    clear_interrupts();
    const LineEditor::Got got = editor.read(text);
    clear_interrupts();
    if (got == LineEditor::Got::kEnd) {
      if (editor.in_terminal()) std::puts("");
      break;
    }
    if (got == LineEditor::Got::kInterrupt) {
      if (interrupted || !editor.in_terminal()) break;
      interrupted = true;
      std::fprintf(stderr, "[Ctrl-C again, or /quit, ends]\n");
      continue;
    }
    interrupted = false;
    if (!session.line(text)) break;
  }
  return editor.in_terminal() ? 0 : session.failure();
}

}  // namespace tril::cli
