// Models that compute with the weights of a file as they are stored in it.
#pragma once

#include "tril/interop/stored_model.h"

namespace tril {

// Gives values to unbound parameters. An array that is a whole matrix is read where it lies: `arrays` and
// their files must outlive the parameters. Rows of one type that come from several arrays, or in another
// order, are copied as they are. All else becomes f32.
void bind_weights(const StoredArrays& arrays, const Layout& layout, Parameters& parameters,
                  Executor& executor);

// The model of open_model() with its weights bound.
LoadedModel load_model_as_stored(const Path& path, Executor& executor);

}  // namespace tril
