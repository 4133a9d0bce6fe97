// nanoGPT's character data: train.bin and val.bin beside meta.pkl, which names the characters.
#pragma once

#include <optional>

#include "tril/text/tokenizer.h"

namespace tril {

// The character tokenizer of the meta.pkl beside a .bin file; nothing if there is none. The pickle
// is read as values and nothing is ever run (containers/pickle.h). Throws kData for one that names no
// characters, and for ids that are not in the order of the characters' code points.
std::optional<Tokenizer> nanogpt_tokenizer(const Path& bin);

}  // namespace tril
