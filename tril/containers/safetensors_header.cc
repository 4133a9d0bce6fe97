#include "tril/containers/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril {
namespace {

// Receives the header as a stream of events, so that nothing is built but what the format allows:
//
//   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"key": "value"}}
//
// Any event that does not fit its place throws at once, which also bounds the depth.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const Path& path) : path_(path) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(size_t) override {
    if (place_ == Place::kOutside) {
      place_ = Place::kNames;
    } else if (place_ == Place::kName) {
      place_ = Place::kEntry;
      seen_dtype_ = seen_shape_ = false;
      offsets_seen_ = kNoOffsets;
    } else if (place_ == Place::kMetadataName) {
      place_ = Place::kMetadata;
    } else {
      misplaced("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    if (place_ == Place::kNames) {
      if (!names_.insert(name).second) damaged("the name occurs twice", name);
      if (name == "__metadata__") {
        place_ = Place::kMetadataName;
      } else {
        header_.entries.emplace_back().name = name;
        place_ = Place::kName;
      }
    } else if (place_ == Place::kMetadata) {
      metadata_key_ = name;
      if (header_.metadata.count(name) != 0) damaged("the metadata key occurs twice", name);
      place_ = Place::kMetadataValue;
    } else if (name == "dtype") {
      enter(Place::kDtype, std::exchange(seen_dtype_, true));
    } else if (name == "shape") {
      enter(Place::kShapeStart, std::exchange(seen_shape_, true));
    } else if (name == "data_offsets") {
      enter(Place::kOffsetsStart, offsets_seen_ != kNoOffsets);
      offsets_seen_ = 0;
    } else {
      damaged(fmt::format("the key \"{}\" is unknown", printable(name)), entry().name);
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kEntry) {
      if (!seen_dtype_ || !seen_shape_ || offsets_seen_ != 2)
        damaged("dtype, shape or data_offsets (two numbers) is missing", entry().name);
      place_ = Place::kNames;
    } else {
      place_ = place_ == Place::kMetadata ? Place::kNames : Place::kOutside;
    }
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kShapeStart) {
      place_ = Place::kShape;
    } else if (place_ == Place::kOffsetsStart) {
      place_ = Place::kOffsets;
    } else {
      misplaced("an array");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::kEntry;
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kDtype) {
      entry().dtype = value;
      place_ = Place::kEntry;
    } else if (place_ == Place::kMetadataValue) {
      header_.metadata.emplace(std::move(metadata_key_), value);
      place_ = Place::kMetadata;
    } else {
      misplaced("a string");
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      misplaced("a number above 2^63-1");
    const auto number = static_cast<int64_t>(value);
    if (place_ == Place::kShape) {
      entry().shape.push_back(number);
    } else if (place_ == Place::kOffsets) {
      if (offsets_seen_ == 2) damaged("data_offsets has more than two numbers", entry().name);
      entry().offsets[offsets_seen_++] = number;
    } else {
      misplaced("a number");
    }
    return true;
  }

  bool null() override { misplaced("null"); }
  bool boolean(bool) override { misplaced("a boolean"); }
  bool number_integer(number_integer_t) override { misplaced("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { misplaced("a fraction or a huge number"); }
  bool binary(binary_t&) override { misplaced("binary data"); }

  bool parse_error(size_t position, const std::string& last_token,
                   const nlohmann::detail::exception&) override {
    fail(ErrorKind::kData,
         "{}: the header is not JSON at byte {}, near \"{}\"; the file is damaged or no safetensors file: "
         "get it "
         "again",
         printable(path_.native(), 4096), position, printable(last_token, 60));
  }

 private:
  enum class Place {
    kOutside,  // before and after the outermost object
    kNames,
    kName,  // after a tensor's name, before its object
    kEntry,
    kDtype,
    kShapeStart,
    kShape,
    kOffsetsStart,
    kOffsets,
    kMetadataName,
    kMetadata,
    kMetadataValue,
  };
  static constexpr size_t kNoOffsets = 3;

  SafetensorsEntry& entry() { return header_.entries.back(); }

  void enter(Place place, bool twice) {
    if (twice) damaged("dtype, shape or data_offsets occurs twice", entry().name);
    place_ = place;
  }

  [[noreturn]] void damaged(std::string_view what, std::string_view name) {
    fail(ErrorKind::kData, "{}: the header's entry \"{}\": {}; the file is damaged: get it again",
         printable(path_.native(), 4096), printable(name), what);
  }

  [[noreturn]] void misplaced(std::string_view what) {
    switch (place_) {
      case Place::kOutside:
      case Place::kNames:
        fail(ErrorKind::kData, "{}: the header is {}, not an object; the file is damaged: get it again",
             printable(path_.native(), 4096), what);
      case Place::kMetadataName:
        damaged(fmt::format("{} where an object of strings is expected", what), "__metadata__");
      case Place::kMetadata:
      case Place::kMetadataValue:
        damaged(fmt::format("\"{}\" is {} where a string is expected", printable(metadata_key_), what),
                "__metadata__");
      case Place::kName:
      case Place::kEntry:
        damaged(fmt::format("{} where an object is expected", what), entry().name);
      case Place::kDtype:
        damaged(fmt::format("dtype is {} where a string is expected", what), entry().name);
      case Place::kShapeStart:
      case Place::kShape:
        damaged(fmt::format("shape: {} where whole numbers in an array are expected", what), entry().name);
      case Place::kOffsetsStart:
      case Place::kOffsets:
        break;
    }
    damaged(fmt::format("data_offsets: {} where two whole numbers in an array are expected", what),
            entry().name);
  }

  const Path& path_;
  SafetensorsHeader header_;
  std::unordered_set<std::string> names_;
  Place place_ = Place::kOutside;
  bool seen_dtype_ = false, seen_shape_ = false;
  size_t offsets_seen_ = kNoOffsets;
  std::string metadata_key_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(const Path& path, std::string_view json) {
  // nlohmann-json takes a NUL for the end of its input and would pass over what follows.
  const size_t nul = json.find('\0');
  check_data(nul == json.npos,
             "{}: the header is not JSON at byte {}: a NUL; the file is damaged: get it again",
             printable(path.native(), 4096), nul + 1);
  HeaderReader reader(path);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  return reader.take();
}

int64_t safetensors_dtype_bits(std::string_view dtype) {
  static constexpr std::pair<std::string_view, int64_t> kBits[] = {
      {"F32", 32},    {"BF16", 16},   {"F16", 16},    {"F64", 64},    {"I64", 64},
      {"I32", 32},    {"I16", 16},    {"I8", 8},      {"U64", 64},    {"U32", 32},
      {"U16", 16},    {"U8", 8},      {"BOOL", 8},    {"C64", 64},    {"F8_E5M2", 8},
      {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
  for (const auto& [name, bits] : kBits)
    if (name == dtype) return bits;
  return 0;
}

std::string safetensors_dtype_name(DType dtype) {
  std::string name(dtype_info(dtype).name);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return name;
}

}  // namespace tril
