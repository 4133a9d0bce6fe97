#pragma once
#include "tril/text/bpe.h"
namespace tril {
std::vector<Merge> train_merges(std::span<const std::string_view> texts, const ByteIds& byte_ids,
                                int64_t count);
}  // namespace tril
