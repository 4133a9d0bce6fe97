#include "tril/train/log.h"

#include <string_view>

#include "tril/containers/json.h"

namespace tril {

Json log_line(const StepReport& report, int64_t tokens, double seconds) {
  Json json;
  json["step"] = report.step;
  json["loss_nats"] = report.loss;
  json["gradient_norm"] = report.gradient_norm;
  json["learning_rate"] = shortest_number(report.learning_rate);
  json["tokens"] = tokens;
  if (report.validation) {
    json["validation_loss_nats"] = report.validation->loss_nats;
    json["bits_per_byte"] = report.validation->bits_per_byte;
    json["validation_tokens"] = report.validation->tokens;
  }
  json["seconds"] = seconds;
  return json;
}

void trim_log(const Path& path, int64_t steps_done) {
  if (!std::filesystem::exists(path)) return;
  const std::string old = read_text_file(path);
  std::string kept;
  std::string_view rest = old;
  while (true) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    const auto json = parse_json(line);
    if (json.is_object() && json.contains("step") && json["step"].is_number_integer() &&
        json["step"].get<int64_t>() <= steps_done)
      kept.append(line) += '\n';
  }
  if (kept != old) write_file_atomic(path, kept);
}

}  // namespace tril
