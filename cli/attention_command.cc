#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/command.h"
#include "cli/format.h"
#include "cli/output.h"
#include "tril/interop/model_folder.h"
#include "tril/report/attention_report.h"

namespace tril::cli {
namespace {

constexpr const char* kExamples =
    "  tril attention runs/book --text \"Once upon a time there was a cat.\"     then open attention.html\n"
    "  tril attention runs/book --text \"The cat\" --layer 0,2 --head 1 --format csv --out -\n"
    "  head -c 300 book.txt | tril attention runs/book --text - --out heads.png";

struct Format {
  std::string name;
  void (*write)(const AttentionReport&, AttentionProbe&, ReportSink);
  void (*check)(const AttentionReport&) = nullptr;  // null: any size will do
};
const Format kFormats[] = {{"html", write_attention_html, check_attention_html},
                           {"json", write_attention_json},
                           {"csv", write_attention_csv},
                           {"png", write_attention_png, check_attention_png}};

const Format* find_format(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                   [&](const Format& format) { return format.name == name; });
  return found == std::end(kFormats) ? nullptr : found;
}

// The one asked for, else what the file's name ends in, else a page.
const Format& choose_format(const std::string& name, const std::string& out) {
  if (!name.empty()) {
    const Format* const format = find_format(name);
    check_use(format != nullptr, "--format '{}': unknown; give html, json, csv or png", name);
    return *format;
  }
  std::string ending = Path(out).extension().string();
  if (ending.empty()) return kFormats[0];
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const Format* const format = find_format(std::string_view(ending).substr(1));
  check_use(format != nullptr,
            "--out {}: the ending tells no format; end it in .html, .json, .csv or .png, or give --format",
            out);
  return *format;
}

// "0,2" -> 0, 2; nothing -> all.
std::vector<int64_t> parse_choice(std::string_view option, std::string_view text, int64_t count) {
  std::set<int64_t> chosen;
  for (int64_t i = 0; text.empty() && i < count; ++i) chosen.insert(i);
  for (bool more = !text.empty(); more;) {
    const size_t end = std::min(text.find(','), text.size());
    more = end < text.size();
    chosen.insert(parse_count(option, text.substr(0, end), {0, count - 1}));
    text.remove_prefix(end + more);
  }
  return {chosen.begin(), chosen.end()};
}

std::vector<int32_t> encode(const LoadedModel& loaded, const std::string& folder, const std::string& text) {
  check_data(loaded.tokenizer != nullptr,
             "{}: there is no tokenizer.json, so text cannot be read; put the model's tokenizer there",
             folder);
  check_use(!text.empty(), "tril attention: the text is empty; give some with --text");
  std::vector<int32_t> tokens = loaded.tokenizer->encode(text);
  const auto context = static_cast<size_t>(loaded.config.context);
  if (tokens.size() > context) {
    size_t bytes = 0;
    for (size_t i = 0; i < context; ++i) bytes += loaded.tokenizer->token_bytes(tokens[i]).size();
    fail(
        ErrorKind::kUse,
        "tril attention: the text has {} tokens, more than the model's context of {}; its first {} bytes fit",
        tokens.size(), context, bytes);
  }
  return tokens;
}

}  // namespace

int attention_command(const Arguments& words) {
  std::string folder, text, layer, head, out, format_name;
  int64_t threads = 0;
  CommandLine line(
      "attention",
      "Looks inside a model: which earlier tokens of a text each token looks at, in every head.\n"
      "Writes a page for the browser that needs nothing else, a picture, or numbers.",
      kExamples);
  line.positional("MODEL", folder, "folder of a model or a run, or a model file");
  line.text("--text", text, "TEXT", "text to look at, - for standard input");
  line.text("--layer", layer, "LIST", "layers, such as 0 or 0,2; the first is 0 (all)");
  line.text("--head", head, "LIST", "heads of each of them (all)");
  line.text("--out", out, "FILE", "file to write, - for standard output (attention.html, .json, ...)");
  line.text("--format", format_name, "NAME",
            "html: a page, png: a picture, json and csv: exact numbers (as --out ends, html without ending)");
  line.threads(threads);
  if (!line.parse(words)) return 0;
  check_use(!folder.empty(), "tril attention: no model given; usage: tril attention MODEL --text TEXT");
  check_use(line.given("--text"), "tril attention: no text given; give --text TEXT, or --text - to read it");
  for (const auto& [name, value] :
       {std::pair("--layer", layer), {"--head", head}, {"--out", out}, {"--format", format_name}})
    check_use(!line.given(name) || !value.empty(), "{} is empty; give a value or leave it out", name);
  const Format& format = choose_format(format_name, out);
  if (out.empty()) out = "attention." + format.name;
  if (out != "-") refuse_file_of_model(out);

  const LoadedModel loaded = load_model(folder);
  AttentionReport report{.model = folder,
                         .layers = parse_choice("--layer", layer, loaded.config.layers),
                         .heads = parse_choice("--head", head, loaded.config.heads)};
  report.ids = encode(loaded, folder, text == "-" ? read_standard_input() : text);
  for (const int32_t id : report.ids) {
    const std::string_view bytes = loaded.tokenizer->token_bytes(id);
    report.tokens.emplace_back(bytes.empty() ? kEndOfText : bytes);
  }
  if (format.check != nullptr) format.check(report);  // before a forward pass that may take long
  Output output(out);
  ThreadPool pool(static_cast<int>(threads));
  AttentionProbe probe(*loaded.model, pool, report.ids);
  format.write(report, probe, [&](std::string_view bytes) { output.write(bytes); });
  output.commit();
  if (output.is_file()) {
    fmt::print("attention of {} tokens in {} {} written to {} ({})\n", report.ids.size(), report.maps(),
               report.maps() == 1 ? "head" : "heads", one_line(out),
               format_bytes(static_cast<double>(output.bytes())));
  }
  return 0;
}

}  // namespace tril::cli
