#include <algorithm>
#include <set>

#include "tril/interop/layout.h"

namespace tril {
namespace {

// One array of a file, made of the rows of a parameter.
class ArrayWriter {
 public:
  ArrayWriter(ArrayPart part, ParameterInfo info, int64_t begin, ReadRows rows)
      : part_(std::move(part)), info_(std::move(info)), begin_(begin), rows_(std::move(rows)) {
    if (info_.shape.rank() == 2) columns_ = info_.shape[1];
    // What takes the model's rows to the array's also takes them back.
    inverse_ = part_;
    if (part_.order != HeadOrder::kSame)
      inverse_.order = part_.order == HeadOrder::kInterleavedThere ? HeadOrder::kHalvesThere
                                                                   : HeadOrder::kInterleavedThere;
  }

  Shape shape() const {
    if (info_.shape.rank() == 1) return {part_.rows};
    return part_.transposed ? Shape{columns_, part_.rows} : Shape{part_.rows, columns_};
  }

  void read(int64_t first, int64_t count, float* out) {
    if (part_.transposed) {
      read_transposed(first, count, out);
    } else if (part_.order == HeadOrder::kSame) {
      read_rows(first, count, out);
    } else {
      for (int64_t r = 0; r < count; ++r) read_rows(row_in_array(inverse_, first + r), 1, out + r * columns_);
    }
  }

 private:
  void read_rows(int64_t first, int64_t count, float* out) {
    if (!rows_(info_, begin_ + first, count, out)) std::fill_n(out, count * columns_, 0.0f);
  }

  // Rows of the array are columns of the parameter, which is read whole for them and kept to the last one.
  void read_transposed(int64_t first, int64_t count, float* out) {
    if (whole_.empty()) {
      whole_.resize(static_cast<size_t>(checked_multiply(part_.rows, columns_)));
      read_rows(0, part_.rows, whole_.data());
    }
    for (int64_t r = 0; r < part_.rows; ++r)
      for (int64_t c = 0; c < count; ++c)
        out[c * part_.rows + r] = whole_[static_cast<size_t>(r * columns_ + first + c)];
    if (first + count == columns_) whole_ = {};
  }

  ArrayPart part_, inverse_;
  ParameterInfo info_;
  int64_t begin_, columns_ = 1;
  ReadRows rows_;
  std::vector<float> whole_;
};

}  // namespace

ReadRows rows_of(const Parameters& parameters) {
  std::map<std::string, const Weight*, std::less<>> by_name;
  for (const Parameters::Item& item : parameters.items()) by_name.emplace(item.info.name, item.weight);
  return [by_name = std::move(by_name)](const ParameterInfo& info, int64_t first, int64_t count, float* out) {
    const auto at = by_name.find(info.name);
    if (at == by_name.end()) return false;
    const int64_t columns = info.shape.rank() == 2 ? info.shape[1] : 1;
    std::copy_n(at->second->value.f32() + first * columns, count * columns, out);
    return true;
  };
}

ReadRows rows_of(const StoredWeights& weights, const TransformerConfig& config) {
  std::set<std::string, std::less<>> names;
  for_each_parameter(config, [&](const ParameterInfo& info) { names.insert(info.name); });
  return [&weights, names = std::move(names)](const ParameterInfo& info, int64_t first, int64_t count,
                                              float* out) {
    if (!names.contains(info.name)) return false;
    weights.read(info, first, count, out);
    return true;
  };
}

std::vector<StreamedArray> arrays_to_write(const Layout& layout, ReadRows rows) {
  std::vector<StreamedArray> out;
  for_each_parameter(layout.whole, [&](const ParameterInfo& info) {
    int64_t begin = 0;
    for (const ArrayPart& part : layout.parts(info)) {
      check_use(part.array_rows == 0, "{} layout: {} is part of a larger array, which cannot be written",
                layout.name, part.array);
      auto writer = std::make_shared<ArrayWriter>(part, info, begin, rows);
      const bool head = part.array.starts_with("lm_head");
      out.push_back(
          {.name = head ? part.array : layout.prefix + part.array,
           .shape = writer->shape(),
           .read = [writer](int64_t first, int64_t count, float* x) { writer->read(first, count, x); }});
      begin += part.rows;
    }
  });
  return out;
}

}  // namespace tril
