#include "tril/data/packing.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "tril/base/error.h"
#include "tril/base/random.h"
#include "tril/base/sizes.h"
#include "tril/containers/checksum.h"
#include "tril/data/permutation.h"
#include "tril/data/split.h"
#include "tril/data/token_file_writer.h"

namespace tril {
namespace {

std::string text_of(const SourceConversation& conversation) {
  std::string text;
  for (const ChatMessage& message : conversation.messages)
    text += message.role + "\n" + message.content + "\n";
  return text;
}

ChatTemplate::Encoded encode(const SourceConversation& conversation, const ChatTemplate& chat_template) {
  try {
    return chat_template.encode(conversation.messages);
  } catch (const Error& error) {
    throw Error(error.kind(), conversation.name + ": " + error.what());
  }
}

void add(const ChatTemplate::Encoded& encoded, const Tokenizer& tokenizer, Conversations& side) {
  side.tokens.insert(side.tokens.end(), encoded.tokens.begin(), encoded.tokens.end());
  side.learned.insert(side.learned.end(), encoded.learned.begin(), encoded.learned.end());
  side.begins.push_back(std::ssize(side.tokens));
  for (size_t i = 0; i < encoded.tokens.size(); ++i) {
    if (encoded.learned[i] == 0) continue;
    ++side.learned_tokens;
    side.learned_bytes += std::ssize(tokenizer.token_bytes(encoded.tokens[i]));
  }
}

}  // namespace

PackedRows::PackedRows(const Conversations& conversations, int64_t time)
    : conversations_(conversations), time_(time) {
  check_use(time >= 1, "rows of {} tokens: give at least 1", time);
  const auto inputs = [&](int64_t i) {
    return conversations.begins[static_cast<size_t>(i) + 1] - conversations.begins[static_cast<size_t>(i)] -
           1;
  };
  std::vector<int64_t> order(static_cast<size_t>(conversations.count()));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), inputs);
  std::vector<std::vector<int64_t>> rows;
  std::multimap<int64_t, size_t> room;  // of each row
  for (const int64_t i : order) {
    const int64_t size = inputs(i);
    check_use(size >= 1 && size <= time, "conversation {} has {} tokens, a row {}", i, size + 1, time);
    const auto best = room.lower_bound(size);
    size_t row = rows.size();
    int64_t left = time;
    if (best == room.end()) {
      rows.emplace_back();
    } else {
      row = best->second;
      left = best->first;
      room.erase(best);
    }
    rows[row].push_back(i);
    room.emplace(left - size, row);
  }
  begins_.push_back(0);
  for (std::vector<int64_t>& row : rows) {
    std::ranges::sort(row);
    placed_.insert(placed_.end(), row.begin(), row.end());
    begins_.push_back(std::ssize(placed_));
    int64_t counted = 0;
    for (const int64_t i : row)
      for (int64_t t = conversations.begins[static_cast<size_t>(i)] + 1;
           t < conversations.begins[static_cast<size_t>(i) + 1]; ++t)
        counted += conversations.learned[static_cast<size_t>(t)];
    counted_.push_back(counted);
  }
}

PackedRows::Columns::Columns(int64_t batch, int64_t time) {
  check_use(batch >= 1 && time >= 1, "batch {} of rows of {} tokens: both must be at least 1", batch, time);
  const auto size = static_cast<size_t>(checked_multiply(batch, time));
  for (std::vector<int32_t>* const column : {&tokens, &targets, &documents, &positions}) column->resize(size);
  mask.resize(size);
}

void PackedRows::Columns::describe(Batch& batch) const {
  batch.tokens = tokens.data();
  batch.targets = targets.data();
  batch.documents = documents.data();
  batch.positions = positions.data();
  batch.loss_mask = mask.data();
}

void PackedRows::fill(int64_t row, int64_t at, Columns& c) const {
  auto n = static_cast<size_t>(at * time_);
  const auto end = n + static_cast<size_t>(time_);
  const auto first = static_cast<size_t>(begins_[static_cast<size_t>(row)]);
  const auto last = static_cast<size_t>(begins_[static_cast<size_t>(row) + 1]);
  for (size_t p = first; p < last; ++p) {
    const auto i = static_cast<size_t>(placed_[p]);
    const auto begin = static_cast<size_t>(conversations_.begins[i]);
    const auto stop = static_cast<size_t>(conversations_.begins[i + 1]);
    for (size_t t = begin; t + 1 < stop; ++t, ++n) {
      c.tokens[n] = conversations_.tokens[t];
      c.targets[n] = conversations_.tokens[t + 1];
      c.mask[n] = conversations_.learned[t + 1];
      c.documents[n] = static_cast<int32_t>(p - first);
      c.positions[n] = static_cast<int32_t>(t - begin);
    }
  }
  for (; n < end; ++n) {
    c.tokens[n] = c.targets[n] = c.positions[n] = 0;
    c.mask[n] = 0;
    c.documents[n] = -1;
  }
}

std::shared_ptr<const ConversationCorpus> pack_conversations(
    std::span<const SourceConversation> conversations, const ChatTemplate& chat_template,
    const Tokenizer& tokenizer, double validation_fraction, int64_t context) {
  check_use(validation_fraction >= 0 && validation_fraction < 1,
            "validation fraction {} is not in [0, 1); 0.1 is usual, 0 for none", validation_fraction);
  auto out = std::make_shared<ConversationCorpus>();
  out->template_name = chat_template.name();
  std::vector<ChatTemplate::Encoded> kept;
  std::vector<bool> validates;
  int64_t validating = 0;
  for (const SourceConversation& conversation : conversations) {
    ChatTemplate::Encoded encoded = encode(conversation, chat_template);
    const auto most = static_cast<size_t>(checked_add(context, 1));
    if (encoded.tokens.size() > most) {
      ++out->cut;
      out->cut_tokens += static_cast<int64_t>(encoded.tokens.size() - most);
      encoded.tokens.resize(most);
      encoded.learned.resize(most);
    }
    if (std::ranges::find(encoded.learned, 1) == encoded.learned.end()) {
      ++out->unanswered;
      continue;
    }
    validates.push_back(split_place(text_of(conversation)) < validation_fraction);
    validating += validates.back();
    kept.push_back(std::move(encoded));
  }
  check_data(
      !kept.empty(),
      "all {} conversations are cut before their first answer by the context of {}; give a longer --context, "
      "or shorter ones",
      conversations.size(), context);
  const auto count = std::ssize(kept);
  const bool split = count >= kFewConversations && validating > 0 && validating < count;
  for (size_t i = 0; i < kept.size(); ++i)
    add(kept[i], tokenizer, split && validates[i] ? out->validation : out->train);
  out->train_rows = std::make_unique<PackedRows>(out->train, context);
  if (out->validation.count() > 0)
    out->validation_rows = std::make_unique<PackedRows>(out->validation, context);
  uint32_t crc = crc32(std::as_bytes(std::span(out->train.learned)));
  crc = crc32(std::as_bytes(std::span(out->validation.learned)), crc);
  out->fingerprint =
      fmt::format("{}-{:08x}", token_fingerprint(out->train.tokens, out->validation.tokens), crc);
  return out;
}

PackedSampler::PackedSampler(const PackedRows& rows, int64_t batch, uint64_t seed, Sampling sampling)
    : rows_(rows), batch_(batch), seed_(seed), sampling_(sampling), columns_(batch, rows.time()) {
  out_.batch = batch;
  out_.time = rows.time();
  columns_.describe(out_);
}

int64_t PackedSampler::row_of(int64_t number) const {
  const int64_t count = rows_.count();
  if (sampling_ == Sampling::kRandom) {
    const RandomStream random(seed_, "packed rows");
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(number), static_cast<uint64_t>(count)));
  }
  const RandomStream random(seed_, "packed epochs", static_cast<uint64_t>(number / count));
  return Permutation(count, random.bits64(0))(number % count);
}

int64_t PackedSampler::counted_at(SamplerPosition position) const {
  int64_t counted = 0;
  for (int64_t i = 0; i < batch_; ++i) counted += rows_.counted(row_of(position.rows + i));
  return counted;
}

const Batch& PackedSampler::sample_at(SamplerPosition position) {
  check_use(position.rows >= 0, "packed sampler: row {} is negative", position.rows);
  checked_add(position.rows, batch_);
  for (int64_t i = 0; i < batch_; ++i) rows_.fill(row_of(position.rows + i), i, columns_);
  out_.counted_targets = counted_at(position);
  return out_;
}

PackedWindows::PackedWindows(const PackedRows& rows, int64_t batch)
    : rows_(rows), batch_(batch), columns_(batch, rows.time()) {
  out_.batch = batch;
  out_.time = rows.time();
  columns_.describe(out_);
}

const Batch& PackedWindows::get(int64_t index) {
  check_use(index >= 0 && index < batches(), "packed windows: batch {} of {}", index, batches());
  out_.counted_targets = 0;
  for (int64_t i = 0; i < batch_; ++i) {
    const int64_t row = index * batch_ + i;
    // Beyond the last row it stands once more, and counts no more.
    rows_.fill(std::min(row, rows_.count() - 1), i, columns_);
    const auto begin = columns_.mask.begin() + i * rows_.time();
    if (row >= rows_.count())
      std::fill_n(begin, rows_.time(), uint8_t{0});
    else
      out_.counted_targets += rows_.counted(row);
  }
  return out_;
}

}  // namespace tril
