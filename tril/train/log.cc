#include "tril/train/log.h"

#include <algorithm>
#include <string_view>

#include "tril/base/error.h"

namespace tril {
namespace {

constexpr LogColumn kColumns[] = {{"loss_nats", &LogEntry::loss_nats},
                                  {"gradient_norm", &LogEntry::gradient_norm},
                                  {"learning_rate", &LogEntry::learning_rate},
                                  {"tokens", &LogEntry::tokens},
                                  {"validation_loss_nats", &LogEntry::validation_loss_nats},
                                  {"bits_per_byte", &LogEntry::bits_per_byte},
                                  {"validation_tokens", &LogEntry::validation_tokens},
                                  {"seconds", &LogEntry::seconds},
                                  {"tokens_per_s", &LogEntry::tokens_per_s}};

// Calls body(line, whole) for each line; the last may lack its line break, and is not whole then.
template <class Body>
void for_each_line(std::string_view text, const Body& body) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    body(text.substr(0, end), end != std::string_view::npos);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

Json log_line(const StepReport& report, int64_t tokens, double seconds, double tokens_per_s) {
  Json json;
  json["step"] = report.step;
  json["loss_nats"] = report.loss;
  json["gradient_norm"] = report.gradient_norm;
  json["learning_rate"] = shortest_number(report.learning_rate);
  json["tokens"] = tokens;
  if (report.skipped) json["skipped"] = true;
  if (report.validation) {
    json["validation_loss_nats"] = report.validation->loss_nats;
    json["bits_per_byte"] = report.validation->bits_per_byte;
    json["validation_tokens"] = report.validation->tokens;
  }
  json["seconds"] = seconds;
  json["tokens_per_s"] = tokens_per_s;
  return json;
}

void trim_log(const Path& path, int64_t steps_done) {
  if (!std::filesystem::exists(path)) return;
  const std::string old = read_text_file(path);
  std::string kept;
  for_each_line(old, [&](std::string_view line, bool whole) {
    const auto json = parse_json(line);
    if (whole && json.is_object() && json.contains("step") && json["step"].is_number_integer() &&
        json["step"].get<int64_t>() <= steps_done)
      kept.append(line) += '\n';
  });
  if (kept != old) write_file_atomic(path, kept);
}

std::span<const LogColumn> log_columns() { return kColumns; }

std::string read_log_line(const Json& line, LogEntry& entry) {
  if (!line.is_object()) return "not a JSON object";
  const auto step = line.find("step");
  if (step == line.end()) return "no \"step\"";
  if (!step->is_number_integer() || step->get<int64_t>() < 0) return "\"step\" is not a whole number";
  LogEntry read{.step = step->get<int64_t>()};
  for (const auto& [name, value] : kColumns) {
    const auto found = line.find(name);
    if (found == line.end() || found->is_null()) continue;  // null: what was not finite
    if (!found->is_number()) return fmt::format("\"{}\" is not a number", name);
    read.*value = found->get<double>();
  }
  entry = read;
  return "";
}

RunLog read_log(const Path& path) {
  const std::string text = read_text_file(path);
  RunLog log;
  for_each_line(text, [&](std::string_view line, bool) {
    ++log.lines;
    LogEntry entry;
    const std::string damage = read_log_line(parse_json(line), entry);
    if (!damage.empty()) {
      if (log.damaged_lines++ == 0) log.first_damage = fmt::format("line {}: {}", log.lines, damage);
      return;
    }
    auto& entries = log.entries;
    if (!entries.empty() && entries.back().step >= entry.step)
      entries.erase(std::lower_bound(entries.begin(), entries.end(), entry.step,
                                     [](const LogEntry& e, int64_t step) { return e.step < step; }),
                    entries.end());
    entries.push_back(entry);
  });
  return log;
}

}  // namespace tril
