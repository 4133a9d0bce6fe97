// Whose array is which: the names and shapes of one kind of file against the parameters that the visitor of a
// model names. One checker, one reader and one writer drive every layout.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/function_ref.h"
#include "tril/containers/stored_arrays.h"
#include "tril/containers/streamed_array.h"
#include "tril/nn/transformer.h"

namespace tril {

// "transformer.", "model.", "module." and "_orig_mod." in front of a name are wrappers' and say nothing.
std::string_view without_wrappers(std::string_view name);

// The order of the rows of a query's or key's head in an array against that in the model: features turn in
// pairs (0, 1), (2, 3), ... or (0, D/2), (1, D/2 + 1), ...
enum class HeadOrder {
  kSame,
  kInterleavedThere,  // in the array; halves in the model
  kHalvesThere,       // in the array; interleaved in the model
};

// What one array gives to a parameter: `rows` of its rows, from where the part before ended. A vector's
// elements are rows of one.
struct ArrayPart {
  std::string array;  // its name without wrappers
  int64_t rows = 0;
  bool transposed = false;  // the array is (in, out), as GPT-2's
  int64_t first_row = 0;    // of the array ...
  int64_t array_rows = 0;   // ... which has so many; 0: these alone
  HeadOrder order = HeadOrder::kSame;
  int64_t heads = 0;  // among which the rows are divided, where the order is another
  enum class Absent { kRefused, kZeros, kIdentity } absent = Absent::kRefused;
};

// The array's row, within the part, that is the part's row in the model.
int64_t row_in_array(const ArrayPart& part, int64_t row);

struct Layout {
  std::string name;    // "tril", "gpt2", "llama", "tutorial", "gguf", ...
  std::string prefix;  // in front of every name that is written but the head's
  // The model that files of this layout hold: that of the config, or with the biases that they always have.
  TransformerConfig whole;
  // Of a parameter of `whole`: in the order of its rows, together all of them.
  std::function<std::vector<ArrayPart>(const ParameterInfo&)> parts;
  // Arrays that are no weights: masks, angles. Names without wrappers. May be empty.
  std::function<bool(std::string_view)> ignores;
};

// The order of the rows of the queries and keys of such arrays for a model of this config.
HeadOrder order_there(const TransformerConfig& config, bool interleaved);

Layout tril_layout(const TransformerConfig& config);
Layout gpt2_layout(const TransformerConfig& config);
// Hugging Face's Llama, and those with its names: Mistral, Qwen-2, Qwen-3. `interleaved`: the order of the
// rows of the arrays' queries and keys; Hugging Face's are not, llama2.c's are.
Layout llama_layout(const TransformerConfig& config, bool interleaved = false);
// The tutorials' PyTorch names, one query, key and value a head (attn_blocks.0.attn.heads.0.key.weight, ...).
// Missing attn.proj.* (old versions) is an identity.
Layout tutorial_layout(const TransformerConfig& config);

// The arrays of files by name without wrappers. Throws kData if two names become one.
using ArraysByName = std::map<std::string, const StoredArray*, std::less<>>;
ArraysByName arrays_by_name(const StoredArrays& arrays);
// Throws kData naming file and array.
const StoredArray& require_array(const StoredArrays& arrays, const ArraysByName& by_name,
                                 std::string_view name);

// config.resolved() for a file's sizes: kData naming the file where they do not fit together.
TransformerConfig resolved_of_file(const TransformerConfig& config, std::string_view where);

// Calls body for each parameter of a model of this config, without memory for it.
void for_each_parameter(const TransformerConfig& config, FunctionRef<void(const ParameterInfo&)> body);

// The parameters of a model in files. The arrays must outlive it.
class StoredWeights {
 public:
  StoredWeights(const StoredArrays& arrays, const Layout& layout);

  // Throws kData unless the files hold exactly the arrays of this model, with their shapes: before memory for
  // them is asked for. Arrays for what the model has not must be zero, a tied head's copy equal.
  void check(const TransformerConfig& config) const;
  // Rows [first, first + count) of a parameter, (count, columns).
  void read(const ParameterInfo& info, int64_t first, int64_t count, float* out) const;

 private:
  void check_part(const ArrayPart& part, const ParameterInfo& info) const;
  void read_part(const ArrayPart& part, int64_t columns, int64_t first, int64_t count, float* out) const;

  const StoredArrays& arrays_;
  const Layout& layout_;
  ArraysByName by_name_;
};

// Both at once, into memory.
void check_weights(const StoredArrays& arrays, const Layout& layout, const TransformerConfig& config);
void read_weights(const StoredArrays& arrays, const Layout& layout, const Parameters& parameters);

// Rows of a parameter from wherever they are: StoredWeights::read, or memory. False: the model has no such
// parameter, which stands for zeros.
using ReadRows = std::function<bool(const ParameterInfo& info, int64_t first, int64_t count, float* out)>;
ReadRows rows_of(const Parameters& parameters);                                   // must outlive the result
ReadRows rows_of(const StoredWeights& weights, const TransformerConfig& config);  // likewise

// The arrays of a file of this layout, in the order of the parameters, to be written as f32. One that takes
// only a part of its array's rows cannot be written: kUse.
std::vector<StreamedArray> arrays_to_write(const Layout& layout, ReadRows rows);

}  // namespace tril
