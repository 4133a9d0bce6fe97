// Parameters: each is named once, in the visit() of the layer that owns it. That one visitor drives memory,
// initial values, weight decay groups, the optimizer, checkpoints and tests.
#pragma once

#include <string>
#include <vector>

#include "tril/base/function_ref.h"
#include "tril/base/parallel.h"
#include "tril/tensor/arena.h"

namespace tril {

// A named range of rows of a fused parameter: query, key and value of a fused projection.
struct ParameterPart {
  std::string name;
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

struct ParameterInfo {
  std::string name;  // "blocks.0.attention.qkv.weight"
  Shape shape;
  float init_std = 0;    // normal with this standard deviation ...
  float init_value = 0;  // ... around this value
  bool decay = false;    // weight decay applies: matrices only
  bool hidden = false;   // a matrix from hidden features to hidden features: no embedding, no head
  bool product = false;  // a matrix that products read, the head's included: may be stored in fewer bits
  std::vector<ParameterPart> parts;
};

struct Weight {
  View value;     // shape of the info; f32, or where the info says product any type that multiplies
  View gradient;  // the same shape; accumulates (+=)
};

using ParameterVisitor = FunctionRef<void(const ParameterInfo&, Weight&)>;

// Owns the values and (if asked) the gradients of all parameters of a layer, each in one arena, and points
// the layer's weights at them. The layer must not move afterwards.
//
//   Mlp mlp({.channels = 64});
//   Parameters parameters(mlp);
//   parameters.initialize(/*seed=*/1);
class Parameters {
 public:
  struct Item {
    ParameterInfo info;
    Weight* weight;
  };

  enum class Memory {
    kValuesAndGradients,  // training
    kValues,              // using a model
    kDry,                 // counting only: the weights get views that must not be touched
    kUnbound,             // using a model whose values are elsewhere, in a mapped file: see bind()
  };

  template <class Layer>
  explicit Parameters(Layer& layer, Memory memory = Memory::kValuesAndGradients)
      : Parameters([&](ParameterVisitor v) { layer.visit("", v); }, memory) {}
  Parameters(FunctionRef<void(ParameterVisitor)> visit_all, Memory memory);
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  // Points a weight at a value that somebody else owns and that outlives this, written or not: nothing writes
  // to values but training and initialize(). Throws kUse for another shape, or a dtype that the parameter
  // cannot have.
  void bind(const Item& item, const ConstView& value);
  // The same for a value in this memory, which is kept as long as this is.
  void adopt(const Item& item, const ConstView& value, AlignedBytes memory);
  // Stores the matrices of products as `dtype`, in memory of its own, and lets go of what was there; rows
  // that are no whole number of its blocks stay as they are. The other parameters become f32. Throws kUse for
  // parameters with gradients, which need f32, and kNumerics for values that `dtype` cannot hold.
  void convert(DType dtype, Executor& executor);

  // Draws every value: a function of (seed, name, index) alone.
  void initialize(uint64_t seed);
  void initialize(uint64_t seed, Executor& executor);
  void zero_gradients();

  const std::vector<Item>& items() const { return items_; }
  Weight& find(std::string_view name) const;  // throws kUse with the name
  int64_t count() const { return count_; }    // elements
  int64_t bytes() const;                      // of the values, where they are
  int64_t gradient_bytes() const { return gradients_.used(); }

 private:
  std::vector<Item> items_;
  int64_t count_ = 0;
  Arena values_ = Arena::dry();
  Arena gradients_ = Arena::dry();
  std::vector<AlignedBytes> adopted_;
};

}  // namespace tril
