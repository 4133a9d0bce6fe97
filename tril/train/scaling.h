// Published rules of how large a model should be and how long it should train.
#pragma once

#include <cstdint>

namespace tril {

// Tokens for each parameter at which a given amount of computing gives the lowest loss. Hoffmann et al.
// "Training compute-optimal large language models" (2022), the three approaches of section 3 together.
constexpr double kOptimalTokensPerParameter = 20;

// The loss in nats a token of a model of so many parameters after so many different tokens: Hoffmann et al.
// (2022), equation 10. Fitted to web text in 32,000 byte-pair ids and models of 70 million to 16 billion
// parameters; for other text, ids and smaller models it shows the direction, not the value.
double hoffmann_loss(double parameters, double tokens);

// Text may be read so often at nearly the worth of new text; a 16th pass is worth about a third of that, a
// 40th next to nothing. Muennighoff et al. "Scaling data-constrained language models" (2023).
constexpr double kGoodPasses = 4;
constexpr int64_t kMostPasses = 40;

// How many different tokens `passes` over `tokens` are worth, by their fit (section 3; R* = 15.39).
double effective_tokens(double tokens, double passes);

}  // namespace tril
