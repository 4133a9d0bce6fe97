#include "tril/train/tensorboard.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>

#include "tril/base/bytes.h"
#include "tril/base/error.h"
#include "tril/containers/tfrecord.h"

namespace tril {
namespace {

struct Tag {
  std::string_view name;
  double LogEntry::*value;
};
constexpr Tag kTags[] = {
    {"loss/train", &LogEntry::loss_nats},        {"loss/validation", &LogEntry::validation_loss_nats},
    {"bits_per_byte", &LogEntry::bits_per_byte}, {"learning_rate", &LogEntry::learning_rate},
    {"gradient_norm", &LogEntry::gradient_norm}, {"tokens", &LogEntry::tokens},
    {"tokens_per_s", &LogEntry::tokens_per_s}};

// A message in protobuf's wire format (protobuf.dev/programming-guides/encoding): each field is the varint
// number << 3 | type, then the value.
class Message {
 public:
  void varint(int field, uint64_t value) {
    raw_varint(static_cast<uint64_t>(field) << 3 | 0);
    raw_varint(value);
  }
  void number(int field, double value) {
    raw_varint(static_cast<uint64_t>(field) << 3 | 1);
    append_number(bytes_, std::bit_cast<uint64_t>(value));
  }
  void number(int field, float value) {
    raw_varint(static_cast<uint64_t>(field) << 3 | 5);
    append_number(bytes_, std::bit_cast<uint32_t>(value));
  }
  void text(int field, std::string_view value) {
    raw_varint(static_cast<uint64_t>(field) << 3 | 2);
    raw_varint(value.size());
    bytes_ += value;
  }
  void message(int field, const Message& value) { text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  // Seven bits a byte, the lowest first; the eighth says that more follow.
  void raw_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5;
//         SessionLog session_log = 7; }
Message event(double wall_time, int64_t step) {
  Message out;
  out.number(1, wall_time);
  out.varint(2, static_cast<uint64_t>(step));
  return out;
}

// Summary { repeated Value value = 1; }  Value { string tag = 1; float simple_value = 2; }
Message summary(const LogEntry& entry) {
  Message out;
  for (const auto& [name, member] : kTags) {
    if (std::isnan(entry.*member)) continue;
    Message value;
    value.text(1, name);
    value.number(2, static_cast<float>(entry.*member));
    out.message(1, value);
  }
  return out;
}

std::string framed(const Message& message) {
  std::string out;
  append_tfrecord(out, message.bytes());
  return out;
}

constexpr std::string_view kPrefix = "events.out.tfevents.", kSuffix = ".tril";

// Of "events.out.tfevents.<seconds>.tril"; -1 for other names.
int64_t seconds_of_name(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return -1;
  name.remove_prefix(kPrefix.size());
  int64_t seconds = -1;
  const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), seconds);
  return fault == std::errc() && name.substr(static_cast<size_t>(end - name.data())) == kSuffix ? seconds
                                                                                                : -1;
}

}  // namespace

std::string tensorboard_event(const LogEntry& entry, double start) {
  Message out = event(start + (std::isnan(entry.seconds) ? 0 : entry.seconds), entry.step);
  out.message(5, summary(entry));
  return framed(out);
}

Path write_event_file(const Path& folder, std::span<const LogEntry> entries, double start) {
  make_directories(folder);
  std::map<int64_t, Path> old;
  auto seconds = static_cast<int64_t>(start);
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const int64_t its = seconds_of_name(file.path().filename().native());
    if (its < 0) continue;
    old[its] = file.path();
    // TensorBoard reads the files of a folder in the order of their names.
    seconds = std::max(seconds, its + 1);
  }
  Message version = event(start, 0), restart = event(start, entries.empty() ? 0 : entries.front().step);
  version.text(3, "brain.Event:2");
  Message session;
  session.varint(1, 1);  // SessionLog { SessionStatus status = 1; }, START = 1
  restart.message(7, session);
  std::string text = framed(version) + framed(restart);
  for (const LogEntry& entry : entries) text += tensorboard_event(entry, start);

  const Path path = folder / fmt::format("{}{:010}{}", kPrefix, seconds, kSuffix);
  write_file_atomic(path, text);
  for (const auto& [its, file] : old) {
    if (file != old.rbegin()->second) {
      remove_tree(file);
      continue;
    }
    std::error_code fault;
    std::filesystem::resize_file(file, 0, fault);
    check_data(!fault, "{}: cannot empty the file: {}; remove it", file.string(), fault.message());
  }
  return path;
}

}  // namespace tril
