#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/text/piece_keys.cc"
#include "tril/text/piece_keys.h"

#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tril {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whole vectors of them; returns how many.
size_t gather_keys(const char* text, const uint32_t* bounds, size_t count, PieceKeys& to) {
  const hn::CappedTag<uint64_t, 8> d;
  const hn::RebindToSigned<decltype(d)> signed_d;
  const hn::Rebind<uint32_t, decltype(d)> d32;
  const size_t lanes = hn::Lanes(d);
  const auto set = [&](uint64_t value) { return hn::Set(d, value); };
  const auto all = set(~uint64_t{0}), bytes = set(8), longest = set(PieceKey::kLongest);
  auto most = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto begin = hn::PromoteTo(d, hn::LoadU(d32, bounds + i));
    const auto length = hn::Sub(hn::PromoteTo(d, hn::LoadU(d32, bounds + i + 1)), begin);
    most = hn::Max(most, length);
    const auto size = hn::Min(length, longest);
    const auto bits = hn::ShiftLeft<3>(size);
    const auto* const words = reinterpret_cast<const uint64_t*>(text);
    const auto first = hn::GatherOffset(d, words, hn::BitCast(signed_d, begin));
    const auto second = hn::GatherOffset(d, words, hn::BitCast(signed_d, hn::Add(begin, bytes)));
    // The bytes of the piece alone: shifts of 0 to 63, 64 bits in all.
    const auto wide = hn::Gt(size, bytes);
    const auto low_mask = hn::IfThenElse(wide, all, hn::Shr(all, hn::And(hn::Sub(set(64), bits), set(63))));
    const auto high_mask = hn::IfThenElseZero(wide, hn::Shr(all, hn::And(hn::Sub(set(128), bits), set(63))));
    const auto low = hn::And(first, low_mask);
    const auto high = hn::Or(hn::And(second, high_mask), hn::ShiftLeft<56>(size));
    // PieceKey::hash()
    auto hash = hn::Mul(low, set(PieceKey::kFirstFactor));
    hash = hn::Xor(hn::Xor(hash, hn::ShiftRight<32>(hash)), high);
    hash = hn::Mul(hash, set(PieceKey::kSecondFactor));
    hash = hn::Xor(hash, hn::ShiftRight<32>(hash));
    hn::StoreU(low, d, to.low.data() + i);
    hn::StoreU(high, d, to.high.data() + i);
    hn::StoreU(hash, d, to.hash.data() + i);
  }
  to.any_long = !hn::AllFalse(d, hn::Gt(most, longest));
  return i;
}

}  // namespace HWY_NAMESPACE
}  // namespace tril
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace tril {
namespace {

HWY_EXPORT(gather_keys);

}  // namespace

void make_piece_keys(const char* text, const char* end, const uint32_t* bounds, size_t count, PieceKeys& to) {
  const bool readable = end - (text + bounds[count]) >= 16;
  to.any_long = false;
  for (size_t i = readable ? HWY_DYNAMIC_DISPATCH(gather_keys)(text, bounds, count, to) : 0; i < count; ++i) {
    const size_t size = bounds[i + 1] - bounds[i];
    to.any_long |= size > PieceKey::kLongest;
    const PieceKey key = piece_key_at_end(text + bounds[i], std::min(size, PieceKey::kLongest));
    to.low[i] = key.low;
    to.high[i] = key.high;
    to.hash[i] = key.hash();
  }
}

}  // namespace tril
#endif  // HWY_ONCE
