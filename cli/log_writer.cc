#include "cli/log_writer.h"

#include "tril/base/error.h"
#include "tril/containers/json.h"
#include "tril/train/log.h"

namespace tril::cli {
namespace {

constexpr double kFlushSeconds = 1;

double last_seconds(const std::string& log) {
  if (log.size() < 2) return 0;
  const size_t begin = log.rfind('\n', log.size() - 2);
  const auto line = parse_json(log.substr(begin == std::string::npos ? 0 : begin + 1));
  const bool known = line.is_object() && line.contains("seconds") && line["seconds"].is_number();
  return known ? line["seconds"].get<double>() : 0;
}

}  // namespace

LogWriter::LogWriter(const Path& path, int64_t steps_done) : path_(path) {
  trim_log(path, steps_done);
  if (steps_done > 0 && std::filesystem::exists(path)) seconds_ = last_seconds(read_text_file(path));
}

LogWriter::~LogWriter() {
  try {
    flush();
  } catch (const std::exception&) {  // the failure that ends the run is already on its way
  }
}

Json LogWriter::add(const StepReport& report, int64_t tokens) {
  seconds_ += report.seconds;
  waiting_ += report.seconds;
  Json line = log_line(report, report.step * tokens, seconds_);
  line["tokens_per_s"] = static_cast<double>(tokens) / report.seconds;
  pending_ += to_text(line) + "\n";
  return line;
}

bool LogWriter::due() const { return waiting_ >= kFlushSeconds; }

void LogWriter::flush() {
  if (pending_.empty()) return;
  waiting_ = 0;
  std::error_code none;
  const auto size = std::filesystem::file_size(path_, none);
  try {
    append_to_file(path_, pending_);
  } catch (const Error&) {
    // No torn line: the pending ones are written whole when there is room.
    if (!none) std::filesystem::resize_file(path_, size, none);
    throw;
  }
  pending_.clear();
}

}  // namespace tril::cli
