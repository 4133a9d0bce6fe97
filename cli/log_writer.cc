#include "cli/log_writer.h"

#include <chrono>

#include "tril/base/error.h"
#include "tril/containers/json.h"
#include "tril/train/log.h"
#include "tril/train/tensorboard.h"

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

LogWriter::LogWriter(const Path& path, int64_t steps_done, bool tensorboard) : log_{path} {
  trim_log(path, steps_done);
  if (steps_done > 0 && std::filesystem::exists(path)) seconds_ = last_seconds(read_text_file(path));
  if (tensorboard) start_events();
}

void LogWriter::start_events() {
  std::vector<LogEntry> entries;
  if (std::filesystem::exists(log_.path)) entries = read_log(log_.path).entries;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  event_start_ = std::chrono::duration<double>(now).count() - seconds_;
  events_ = File{write_event_file(log_.path.parent_path() / "tensorboard", entries, event_start_)};
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
  Json line = log_line(report, report.step * tokens, seconds_, static_cast<double>(tokens) / report.seconds);
  log_.pending += to_text(line) + "\n";
  LogEntry entry;
  if (events_ && read_log_line(line, entry).empty())
    events_->pending += tensorboard_event(entry, event_start_);
  return line;
}

bool LogWriter::due() const { return waiting_ >= kFlushSeconds; }

void LogWriter::flush() {
  waiting_ = 0;
  log_.append_pending();
  if (events_) events_->append_pending();
}

void LogWriter::File::append_pending() {
  if (pending.empty()) return;
  std::error_code none;
  const auto size = std::filesystem::file_size(path, none);
  try {
    append_to_file(path, pending);
  } catch (const Error&) {
    // No torn line: the pending ones are written whole when there is room.
    if (!none) std::filesystem::resize_file(path, size, none);
    throw;
  }
  pending.clear();
}

}  // namespace tril::cli
