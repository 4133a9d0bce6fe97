#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <functional>

#include "cli/near_name.h"
#include "tril/base/error.h"
#include "tril/base/parallel.h"
#include "tril/base/printable.h"

namespace tril::cli {
namespace {

class ExamplesFirst : public CLI::Formatter {
 public:
  explicit ExamplesFirst(std::string examples) : examples_(std::move(examples)) { column_width(32); }
  std::string make_description(const CLI::App* app) const override {
    return app->get_description() + "\n\nExamples:\n" + examples_ + "\n\n";
  }

 private:
  std::string examples_;
};

bool looks_like_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

}  // namespace

int64_t parse_count(std::string_view where, std::string_view text, Range<int64_t> range) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  check_use(fault != std::errc::result_out_of_range, "{} {}: too large; give a whole number from {} to {}",
            where, text, range.least, range.most);
  check_use(fault == std::errc() && end == text.data() + text.size(),
            "{} '{}': not a whole number; give one from {} to {}", where, text, range.least, range.most);
  check_use(value >= range.least && value <= range.most,
            "{} {}: out of range; give a whole number from {} to {}", where, value, range.least, range.most);
  return value;
}

double parse_number(std::string_view where, std::string_view text, Range<double> range) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  check_use(fault != std::errc::invalid_argument && end == text.data() + text.size(),
            "{} '{}': not a number; give one from {} to {}", where, text, range.least, range.most);
  check_use(fault == std::errc() && std::isfinite(value) && value >= range.least && value <= range.most,
            "{} {}: out of range; give a number from {} to {}", where, text, range.least, range.most);
  return value;
}

int run_part(std::string_view command, std::string_view about, std::span<const Command> parts,
             std::string_view notes, const Arguments& arguments) {
  const std::string word = arguments.words.empty() ? "" : arguments.words.front();
  if (word.empty() || word == "--help" || word == "-h" || word == "help") {
    std::string text = fmt::format("{}\n", about);
    for (const Command& part : parts) text += fmt::format("  {:<10} {}\n", part.name, part.summary);
    text += fmt::format("\n{}tril {} PART --help shows examples and every option.\n", notes, command);
    std::fputs(text.c_str(), stdout);
    return word.empty() ? 1 : 0;
  }
  std::vector<std::string> names;
  for (const Command& part : parts) {
    if (part.name == word)
      return part.run({arguments.program, {arguments.words.begin() + 1, arguments.words.end()}});
    names.emplace_back(part.name);
  }
  fail(ErrorKind::kUse, "tril {}: unknown part '{}'{} (tril {} --help lists all)", command, printable(word),
       suggestion(word, names), command);
}

struct CommandLine::Impl {
  Impl(const std::string& name, const std::string& description) : app(description, "tril " + name) {}

  void option(const std::string& name, std::string_view value, const std::string& help,
              std::function<void(const std::string&)> take) {
    app.add_option_function<std::string>(name, std::move(take), help)
        ->type_name(std::string(value))
        ->group(heading);
  }

  CLI::App app;
  std::string heading = "Options";
};

CommandLine::CommandLine(const std::string& name, const std::string& description, const std::string& examples)
    : impl_(std::make_unique<Impl>(name, description)) {
  CLI::App& app = impl_->app;
  app.formatter(std::make_shared<ExamplesFirst>(examples));
  app.set_help_flag("-h,--help", "this text");
  app.allow_extras();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

CommandLine::~CommandLine() = default;

void CommandLine::positional(const std::string& name, std::string& target, const std::string& help) {
  impl_->app.add_option(name, target, help)->type_name("");
}

void CommandLine::positionals(const std::string& name, std::vector<std::string>& target,
                              const std::string& help) {
  impl_->app.add_option(name, target, help)
      ->type_name("")
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
}

void CommandLine::heading(std::string_view text) { impl_->heading = text; }

void CommandLine::count(const std::string& name, int64_t& target, Range<int64_t> range,
                        const std::string& help) {
  impl_->option(name, "N", help,
                [=, &target](const std::string& text) { target = parse_count(name, text, range); });
}

void CommandLine::seed(const std::string& name, uint64_t& target, const std::string& help) {
  impl_->option(name, "N", help, [=, &target](const std::string& text) {
    target = static_cast<uint64_t>(parse_count(name, text, {.least = 0}));
  });
}

void CommandLine::number(const std::string& name, double& target, Range<double> range,
                         const std::string& help) {
  impl_->option(name, "X", help,
                [=, &target](const std::string& text) { target = parse_number(name, text, range); });
}

void CommandLine::text(const std::string& name, std::string& target, std::string_view value,
                       const std::string& help) {
  impl_->option(name, value, help, [&target](const std::string& given_text) { target = given_text; });
}

void CommandLine::texts(const std::string& name, std::vector<std::string>& target, std::string_view value,
                        const std::string& help) {
  impl_->app.add_option(name, target, help)
      ->type_name(std::string(value))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->group(impl_->heading);
}

void CommandLine::flag(const std::string& name, bool& target, const std::string& help) {
  impl_->app.add_flag(name, target, help)->group(impl_->heading);
}

void CommandLine::threads(int64_t& target) {
  target = available_threads();
  count("--threads", target, {1, 1024}, fmt::format("threads (all processors: {})", target));
}

bool CommandLine::given(const std::string& name) const {
  const CLI::Option* const option = impl_->app.get_option_no_throw(name);
  return option != nullptr && option->count() > 0;
}

bool CommandLine::parse(const Arguments& arguments) {
  CLI::App& app = impl_->app;
  std::vector<std::string> reversed;
  for (const std::string& word : arguments.words) {
    // CLI11 reads "--name=" as "--name" and would take the next word, whatever it is, for the value.
    const bool empty_value = word.starts_with("--") && word.find('=') == word.size() - 1;
    reversed.push_back(empty_value ? word.substr(0, word.size() - 1) : word);
    if (empty_value) reversed.emplace_back();
  }
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& error) {
    fail(ErrorKind::kUse, "{}; {} --help lists the options", error.what(), app.get_name());
  }
  const std::vector<std::string> extras = app.remaining();
  for (const std::string& word : extras) {
    if (!looks_like_option(word)) continue;
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    const std::string name = word.substr(0, word.find('='));
    fail(ErrorKind::kUse, "{}: unknown option {}{} ({} --help lists all)", app.get_name(), name,
         suggestion(name, names), app.get_name());
  }
  check_use(extras.empty(), "{}: unexpected argument '{}' ({} --help shows the usage)", app.get_name(),
            extras.empty() ? "" : extras.front(), app.get_name());
  return true;
}

}  // namespace tril::cli
