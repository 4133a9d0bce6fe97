// A corpus as a trainer reads it: one source of tokens, or those of a mixture.
#pragma once

#include <vector>

#include "tril/data/documents.h"
#include "tril/data/sampler.h"

namespace tril {

// The corpus must outlive what they return.
std::vector<WeightedTokens> training_sources(const Corpus& corpus);
std::vector<TokenView> validation_sources(const Corpus& corpus);

// The loss of guessing by the frequency of tokens alone, nats: of a mixture, by their frequencies as it is
// read; of conversations, of what is learned. Ids outside [0, vocabulary) are left out.
double training_entropy(const Corpus& corpus, int64_t vocabulary);

}  // namespace tril
