// Context: what every forward and backward call of a layer needs besides its tensors.
#pragma once

#include "tril/base/parallel.h"
#include "tril/base/random.h"
#include "tril/kernels/dropout.h"
#include "tril/nn/profile.h"
#include "tril/tensor/arena.h"

namespace tril {

struct Context {
  Executor& executor;
  Arena& scratch;         // temporaries of one call; given back when it returns
  bool training = false;  // dropout draws only in training
  uint64_t seed = 0;
  uint64_t step = 0;  // counts micro-batches: dropout draws differ from one to the next
  Profile* profile = nullptr;

  // The mask of one dropout site of one layer in this step.
  DropoutMask dropout_mask(float probability, std::string_view site, int64_t layer) const {
    return {training ? probability : 0.0f, stream_key(stream_key(seed, site) + step, "dropout"),
            static_cast<uint64_t>(layer)};
  }

  // Measures until the end of the caller's scope.
  [[nodiscard]] Profile::Timer timer(const Work& work) const { return {profile, work}; }
};

}  // namespace tril
