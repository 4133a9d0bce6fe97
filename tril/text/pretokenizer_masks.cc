// GPT-2's pattern on bits: a mask for each class of characters, one bit a byte, from which shifts and logic
// make the mask of the places where pieces start (the idea is that of simdjson: Langdale and Lemire, "Parsing
// gigabytes of JSON per second", VLDB Journal 28, 2019).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/text/pretokenizer_masks.cc"
#include "tril/text/pretokenizer_masks.h"

#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tril {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The masks of ASCII for whole words of 64 bytes.
void classify_ascii(const uint8_t* text, size_t words, ByteMasks& masks) {
  const hn::CappedTag<uint8_t, 64> d;
  const size_t lanes = hn::Lanes(d);
  const auto below = [&](auto v, int first, int count) {
    return hn::Lt(hn::Sub(v, hn::Set(d, static_cast<uint8_t>(first))),
                  hn::Set(d, static_cast<uint8_t>(count)));
  };
  for (size_t word = 0; word < words; ++word) {
    for (size_t i = 0; i < 64; i += lanes) {
      const auto v = hn::LoadU(d, text + 64 * word + i);
      const auto blank = hn::Eq(v, hn::Set(d, uint8_t{' '}));
      const auto store = [&](auto mask, ByteMasks::Mask& to) {
        if constexpr (hn::MaxLanes(d) >= 8) {
          hn::StoreMaskBits(d, mask, reinterpret_cast<uint8_t*>(&to[word]) + i / 8);
        } else {
          uint8_t bits[8] = {};
          hn::StoreMaskBits(d, mask, bits);
          to[word] = (i == 0 ? 0 : to[word]) | uint64_t{bits[0]} << i;
        }
      };
      store(below(hn::Or(v, hn::Set(d, uint8_t{0x20})), 'a', 26), masks.letter);
      store(below(v, '0', 10), masks.number);
      store(hn::Or(blank, below(v, 9, 5)), masks.space);
      store(blank, masks.blank);
      store(hn::Eq(v, hn::Set(d, uint8_t{'\''})), masks.quote);
      store(hn::Gt(v, hn::Set(d, uint8_t{0x7F})), masks.high);
    }
  }
}

// Writes the place of each bit that is set, counted from `first`, and returns how many; what it writes behind
// them means nothing, up to 16 numbers.
size_t list_bits(const uint64_t* words, size_t count, uint32_t first, uint32_t* out) {
  const hn::CappedTag<uint32_t, 16> d;
  uint32_t* to = out;
  for (size_t word = 0; word < count; ++word, first += 64) {
    uint64_t left = words[word];
    if constexpr (hn::MaxLanes(d) >= 8) {
      // Without a branch that depends on how many there are.
      const size_t lanes = hn::Lanes(d);
      for (size_t i = 0; i < 64; i += lanes, left >>= lanes) {
        const auto bits = static_cast<uint16_t>(left & ((uint64_t{1} << lanes) - 1));
        const auto mask = hn::LoadMaskBits(d, reinterpret_cast<const uint8_t*>(&bits));
        hn::StoreU(hn::Compress(hn::Iota(d, first + static_cast<uint32_t>(i)), mask), d, to);
        to += hwy::PopCount(uint64_t{bits});
      }
    } else {
      for (; left != 0; left &= left - 1)
        *to++ = first + static_cast<uint32_t>(hwy::Num0BitsBelowLS1Bit_Nonzero64(left));
    }
  }
  return static_cast<size_t>(to - out);
}

}  // namespace HWY_NAMESPACE
}  // namespace tril
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <bit>
#include <cstring>

#include "tril/text/pretokenizer_parts.h"
#include "tril/text/unicode_classes.h"

namespace tril {
namespace {

HWY_EXPORT(classify_ascii);
HWY_EXPORT(list_bits);

constexpr uint64_t bit(size_t at) { return uint64_t{1} << (at & 63); }

class Gpt2Splitter {
 public:
  Gpt2Splitter(std::string_view text, bool digits)
      : table_(UnicodeTable::get()), end_(text.data() + text.size()), digits_(digits) {}

  void split(const char* at, PieceSink& sink) {
    while (at < end_) {
      const size_t n = classify(at);
      const bool last = at + n == end_;
      find_starts();
      cut_contractions(at, n);
      // Where text goes on, what starts at its last bytes may start elsewhere when more of it is seen.
      const char* next = emit(at, last ? n : n - kAhead, sink);
      if (last) {
        sink.add(end_);
        break;
      }
      if (next == at) {
        next = scan_gpt2_piece(at, end_, digits_);
        sink.add(next);
      }
      at = next;
    }
  }

 private:
  static constexpr size_t kChunk = ByteMasks::kWords * 64;
  static constexpr size_t kAhead = 8;

  // Fills the masks for up to kChunk bytes that end with a whole character; returns how many.
  size_t classify(const char* at) {
    size_t n = std::min<size_t>(kChunk, static_cast<size_t>(end_ - at));
    if (at + n < end_) {
      for (int back = 0; back < 3 && (at[n] & 0xC0) == 0x80; ++back) --n;
    }
    const size_t whole = n / 64, words = (n + 63) / 64;
    const auto call = HWY_DYNAMIC_DISPATCH(classify_ascii);
    call(reinterpret_cast<const uint8_t*>(at), whole, masks_);
    if (whole < words) {
      std::array<uint8_t, 64> tail{};
      std::memcpy(tail.data(), at + 64 * whole, n - 64 * whole);
      ByteMasks& masks = tail_masks_;
      call(tail.data(), 1, masks);
      masks_.letter[whole] = masks.letter[0];
      masks_.number[whole] = masks.number[0];
      masks_.space[whole] = masks.space[0];
      masks_.blank[whole] = masks.blank[0];
      masks_.quote[whole] = masks.quote[0];
      masks_.high[whole] = masks.high[0];
    }
    for (size_t word = 0; word < words; ++word) {
      masks_.other[word] =
          ~(masks_.letter[word] | masks_.number[word] | masks_.space[word] | masks_.high[word]);
      masks_.invalid[word] = masks_.inside[word] = 0;
    }
    if (n % 64 != 0) masks_.other[words - 1] &= bit(n) - 1;
    for (auto* mask : {&masks_.letter, &masks_.number, &masks_.space, &masks_.other}) (*mask)[words] = 0;
    masks_.invalid[words] = masks_.inside[words] = 0;
    words_ = words;
    for (size_t word = 0; word < words; ++word) {
      if (masks_.high[word] != 0) classify_high(at, word);
    }
    return n;
  }

  // Gives all bytes of each character beyond ASCII that starts in this word the class of the character.
  void classify_high(const char* at, size_t word) {
    std::array<uint64_t, 8> found{};  // by CharClass
    uint64_t inside = masks_.inside[word];
    for (uint64_t left = masks_.high[word] & ~inside; left != 0;) {
      const auto place = static_cast<size_t>(std::countr_zero(left));
      const Character c = character_at(table_, at + 64 * word + place, end_);
      const uint64_t bytes = (uint64_t{1} << c.length) - 1;
      found[static_cast<size_t>(c.kind)] |= bytes << place;
      inside |= (bytes & ~uint64_t{1}) << place;
      left &= ~(bytes << place);
      if (place + c.length > 64) {
        mask_of(c.kind)[word + 1] |= bytes >> (64 - place);
        masks_.inside[word + 1] |= bytes >> (64 - place);
      }
    }
    masks_.inside[word] = inside;
    for (size_t kind = 0; kind < found.size(); ++kind) {
      mask_of(static_cast<CharClass>(kind))[word] |= found[kind];
    }
  }

  ByteMasks::Mask& mask_of(CharClass kind) {
    switch (kind) {
      case CharClass::kSpace:
        return masks_.space;
      case CharClass::kNumber:
        return masks_.number;
      case CharClass::kInvalid:
        return masks_.invalid;
      case CharClass::kOther:
      case CharClass::kMark:
        return masks_.other;
      default:
        return masks_.letter;
    }
  }

  void find_starts() {
    uint64_t letter = 0, number = 0, other = 0, space = 0, invalid = 0, blank = 0;  // of the word before
    const auto shifted = [](uint64_t mask, uint64_t before) { return mask << 1 | before >> 63; };
    wide_ = 0;
    for (size_t word = 0; word < words_; ++word) {
      const uint64_t l = masks_.letter[word], d = masks_.number[word], o = masks_.other[word];
      const uint64_t s = masks_.space[word], v = masks_.invalid[word], b = masks_.blank[word];
      // Classes that take a blank before them.
      const uint64_t taking = digits_ ? l | o : l | d | o;
      const uint64_t next = digits_
                                ? masks_.letter[word + 1] | masks_.other[word + 1]
                                : masks_.letter[word + 1] | masks_.number[word + 1] | masks_.other[word + 1];
      uint64_t runs = (l & ~shifted(l, letter)) | (o & ~shifted(o, other)) | (s & ~shifted(s, space)) |
                      (v & ~shifted(v, invalid));
      runs |= digits_ ? d & ~masks_.inside[word] : d & ~shifted(d, number);
      const uint64_t taken = taking & shifted(b, blank);
      // The last white space before what is none; its last byte, if it has several.
      const uint64_t last = s & (taking >> 1 | next << 63);
      starts_[word] = (runs & ~taken) | (last & ~masks_.high[word]);
      wide_ |= last & masks_.high[word];
      last_space_[word] = last & masks_.high[word];
      letter = l, number = d, other = o, space = s, invalid = v, blank = b;
    }
    starts_[words_] = 0;
    if (wide_ != 0) move_to_leads();
  }

  // White space of several bytes: from its last byte to its first.
  void move_to_leads() {
    for (size_t word = 0; word < words_; ++word) {
      for (uint64_t left = last_space_[word]; left != 0; left &= left - 1) {
        size_t place = 64 * word + static_cast<size_t>(std::countr_zero(left));
        while ((masks_.inside[place / 64] & bit(place)) != 0) --place;
        starts_[place / 64] |= bit(place);
      }
    }
  }

  void cut_contractions(const char* at, size_t n) {
    for (size_t word = 0; word < words_; ++word) {
      for (uint64_t left = masks_.quote[word] & starts_[word]; left != 0; left &= left - 1) {
        const size_t place = 64 * word + static_cast<size_t>(std::countr_zero(left));
        const size_t length = contraction(at + place);
        if (length == 0) continue;
        starts_[(place + 1) / 64] &= ~bit(place + 1);
        if (place + length < n) starts_[(place + length) / 64] |= bit(place + length);
      }
    }
  }

  // '(?:[sdmt]|ll|ve|re)
  size_t contraction(const char* at) const {
    if (end_ - at < 2) return 0;
    const char first = at[1];
    if (first == 's' || first == 't' || first == 'd' || first == 'm') return 2;
    if (end_ - at < 3) return 0;
    return (first == 'l' && at[2] == 'l') || ((first == 'v' || first == 'r') && at[2] == 'e') ? 3 : 0;
  }

  // Hands on the pieces that end at starts up to `limit`; returns the last of these.
  const char* emit(const char* at, size_t limit, PieceSink& sink) {
    sink.flush();
    static_assert(kChunk + 16 <= PieceSink::kBatch);  // what list_bits may write
    uint32_t* const ends = sink.room(PieceSink::kBatch);
    const auto base = static_cast<uint32_t>(at - sink.begin());
    starts_[0] &= ~uint64_t{1};
    const size_t words = std::min(words_, limit / 64 + 1);
    if (words == limit / 64 + 1) starts_[words - 1] &= (bit(limit) << 1) - 1;
    const size_t count = HWY_DYNAMIC_DISPATCH(list_bits)(starts_.data(), words, base, ends);
    sink.added(count);
    return count == 0 ? at : at + (ends[count - 1] - base);
  }

  const UnicodeTable& table_;
  const char* end_;
  bool digits_;
  size_t words_ = 0;
  uint64_t wide_ = 0;
  ByteMasks masks_, tail_masks_;
  ByteMasks::Mask starts_, last_space_;
};

}  // namespace

void split_gpt2(std::string_view text, bool digits, PieceSink& sink) {
  Gpt2Splitter(text, digits).split(text.data(), sink);
}

}  // namespace tril
#endif  // HWY_ONCE
