// Tokens that somebody else holds, 16 or 32 bits each: a vector in memory, or a mapped token store of
// gigabytes. Readers copy the few that they need.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tril {

// The tokens must outlive the view. Ids are what the file says: whoever computes with them checks their
// range.
class TokenView {
 public:
  TokenView() = default;
  TokenView(std::span<const int32_t> tokens) : data_(tokens.data()), size_(std::ssize(tokens)) {}
  TokenView(const std::vector<int32_t>& tokens) : TokenView(std::span<const int32_t>(tokens)) {}
  TokenView(std::span<const uint16_t> tokens)
      : data_(tokens.data()), size_(std::ssize(tokens)), narrow_(true) {}

  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t token_bytes() const { return narrow_ ? 2 : 4; }
  int32_t operator[](int64_t i) const {
    return narrow_ ? static_cast<const uint16_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }
  // Writes tokens [begin, begin + count) as 32 bits. The caller keeps them within the view.
  void copy(int64_t begin, int64_t count, int32_t* out) const {
    if (narrow_) {
      const uint16_t* const from = static_cast<const uint16_t*>(data_) + begin;
      for (int64_t i = 0; i < count; ++i) out[i] = from[i];
    } else {
      const int32_t* const from = static_cast<const int32_t*>(data_) + begin;
      for (int64_t i = 0; i < count; ++i) out[i] = from[i];
    }
  }
  // Tokens [begin, begin + count), which must lie within the view.
  TokenView part(int64_t begin, int64_t count) const {
    TokenView out = *this;
    out.data_ = static_cast<const char*>(data_) + begin * token_bytes();
    out.size_ = count;
    return out;
  }

 private:
  const void* data_ = nullptr;
  int64_t size_ = 0;
  bool narrow_ = false;
};

}  // namespace tril
