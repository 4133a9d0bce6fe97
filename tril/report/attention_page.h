// The parts of the attention page that do not depend on the model: in files of their own, so that each reads
// as what it is.
#pragma once

namespace tril {

extern const char* const kAttentionStyle;   // CSS
extern const char* const kAttentionBody;    // HTML after the text
extern const char* const kAttentionScript;  // JavaScript

}  // namespace tril
