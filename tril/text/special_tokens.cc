#include "tril/text/special_tokens.h"

#include <algorithm>

namespace tril {

SpecialFinder::SpecialFinder(std::span<const SpecialToken> tokens,
                             FunctionRef<bool(const SpecialToken&)> wanted) {
  for (const SpecialToken& token : tokens) {
    if (token.content.empty() || !wanted(token)) continue;
    sorted_.push_back(&token);
    longest_ = std::max(longest_, token.content.size());
    if (first_bytes_.find(token.content[0]) == std::string::npos) first_bytes_ += token.content[0];
  }
  std::sort(sorted_.begin(), sorted_.end(),
            [](const SpecialToken* a, const SpecialToken* b) { return a->content < b->content; });
}

SpecialFinder::Found SpecialFinder::next(std::string_view text, size_t at) const {
  for (; !sorted_.empty(); ++at) {
    at = first_bytes_.size() == 1 ? text.find(first_bytes_[0], at) : text.find_first_of(first_bytes_, at);
    if (at == std::string_view::npos) break;
    if (const SpecialToken* const token = longest_at(text.substr(at)))
      return {at, at + token->content.size(), token};
  }
  return {};
}

// Narrows the range of tokens that agree with the text, byte by byte.
const SpecialToken* SpecialFinder::longest_at(std::string_view text) const {
  const SpecialToken* longest = nullptr;
  auto first = sorted_.begin(), last = sorted_.end();
  for (size_t depth = 0; depth < text.size() && first != last; ++depth) {
    const auto byte = static_cast<unsigned char>(text[depth]);
    // A token that ends here comes before those that go on: its next byte counts as -1.
    const auto next_byte = [&](const SpecialToken* token) {
      return depth < token->content.size() ? int{static_cast<unsigned char>(token->content[depth])} : -1;
    };
    first = std::partition_point(first, last, [&](const SpecialToken* t) { return next_byte(t) < byte; });
    last = std::partition_point(first, last, [&](const SpecialToken* t) { return next_byte(t) <= byte; });
    if (first != last && (*first)->content.size() == depth + 1) longest = *first;
  }
  return longest;
}

}  // namespace tril
