// Which chat template a model's conversations are written in.
#pragma once

#include <string>

#include "tril/interop/stored_model.h"
#include "tril/text/chat_template.h"

namespace tril::cli {

struct ChosenTemplate {
  std::string name;
  std::string why;  // "given", "recognised in the model", ...
};
// The one asked for; else the one that `stored`, a text in Jinja, is known as; else, without any, the one
// whose tokens the tokenizer has, or plain. Throws kUse for a text that is not known, listing the names.
ChosenTemplate choose_chat_template(const std::string& asked, const std::string& stored,
                                    const Tokenizer& tokenizer);
// What the folder of a model that learned this template says: the template in Jinja, and what ends a text.
ModelText model_text_of(const ChatTemplate& chat_template, const Tokenizer& tokenizer);
// One line for the user: name, why, and the tokens that are written as plain text.
std::string describe(const ChosenTemplate& chosen, const Tokenizer& tokenizer);

}  // namespace tril::cli
