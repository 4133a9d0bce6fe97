#include "tril/train/tensorboard.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/event_file.h"
#include "tests/support/temporary_directory.h"

namespace tril {
namespace {

using testing::read_events;
using testing::ReadEvent;

LogEntry entry_of(int64_t step) {
  const auto number = static_cast<double>(step);
  LogEntry entry{
      .step = step, .loss_nats = 4 - 0.1 * number, .tokens = 64 * number, .seconds = 0.25 * number};
  if (step % 2 == 0) entry.validation_loss_nats = 5 - 0.1 * number;
  return entry;
}

std::vector<std::string> names_in(const Path& folder) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    names.push_back(file.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// Byte by byte as protobuf writes it: wall_time 2.5, step 300, one value "loss/train" 1.5.
TEST(TensorBoard, AnEventInBytes) {
  const std::string message(
      "\x09\0\0\0\0\0\0\x04\x40\x10\xac\x02\x2a\x13\x0a\x11\x0a\x0aloss/train\x15\0\0\xc0\x3f", 33);
  std::string expected;
  append_tfrecord(expected, message);
  EXPECT_EQ(tensorboard_event({.step = 300, .loss_nats = 1.5, .seconds = 0.5}, 2), expected);
}

TEST(TensorBoard, EveryColumnHasItsTag) {
  const LogEntry entry{.step = 7,
                       .loss_nats = 1,
                       .gradient_norm = 2,
                       .learning_rate = 3,
                       .tokens = 4,
                       .validation_loss_nats = 5,
                       .bits_per_byte = 6,
                       .validation_tokens = 7,
                       .seconds = 8,
                       .tokens_per_s = 9};
  const std::vector<ReadEvent> events = read_events(tensorboard_event(entry, 100));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].step, 7);
  EXPECT_EQ(events[0].wall_time, 108);
  const std::map<std::string, float> expected = {
      {"loss/train", 1},      {"gradient_norm", 2}, {"learning_rate", 3}, {"tokens", 4},
      {"loss/validation", 5}, {"bits_per_byte", 6}, {"tokens_per_s", 9}};
  EXPECT_EQ(events[0].scalars, expected);
}

TEST(TensorBoard, AFileStartsAnewFromTheLog) {
  const testing::TemporaryDirectory directory;
  const Path folder = directory.path() / "run" / "tensorboard";
  const std::vector<LogEntry> entries = {entry_of(1), entry_of(2), entry_of(3)};
  const Path first = write_event_file(folder, entries, 1000.5);
  EXPECT_EQ(first.filename(), "events.out.tfevents.0000001000.tril");
  const std::vector<ReadEvent> events = read_events(read_text_file(first));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_TRUE(events[1].restart);
  EXPECT_EQ(events[1].step, 1) << "from the first step on, what was read before is void";
  for (size_t i = 0; i < entries.size(); ++i) {
    const ReadEvent& event = events[i + 2];
    EXPECT_EQ(event.step, entries[i].step);
    EXPECT_EQ(event.scalars.at("loss/train"), static_cast<float>(entries[i].loss_nats));
    EXPECT_EQ(event.scalars.contains("loss/validation"), entries[i].step % 2 == 0);
    EXPECT_EQ(event.wall_time, 1000.5 + entries[i].seconds);
  }

  // A killed run left half an event; another program's file stands beside ours.
  append_to_file(first, "half an event");
  write_file_atomic(folder / "events.out.tfevents.0000001700.somewhere", "of others");
  const Path second = write_event_file(folder, std::span(entries).first(2), 900);
  EXPECT_EQ(second.filename(), "events.out.tfevents.0000001001.tril")
      << "after the first, whatever the clock says";
  EXPECT_EQ(read_events(read_text_file(second)).size(), 4u);
  const std::vector<std::string> left = {"events.out.tfevents.0000001000.tril",
                                         "events.out.tfevents.0000001001.tril",
                                         "events.out.tfevents.0000001700.somewhere"};
  EXPECT_EQ(names_in(folder), left);
  EXPECT_EQ(read_text_file(first), "");
  EXPECT_EQ(write_event_file(folder, entries, 2000).filename(), "events.out.tfevents.0000002000.tril");
  EXPECT_FALSE(std::filesystem::exists(first));
  EXPECT_EQ(read_text_file(second), "");
  EXPECT_EQ(read_text_file(folder / "events.out.tfevents.0000001700.somewhere"), "of others");
}

}  // namespace
}  // namespace tril
