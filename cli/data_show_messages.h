// `tril data show` of conversations: which tokens are learned.
#pragma once

#include <cstdint>
#include <string>

namespace tril::cli {

struct ShowMessages {
  std::string file, from, tokenizer, chat_template;
  int64_t conversation = 0;
  int64_t batch = -1;  // >= 0: this micro-batch of a run instead
  int64_t rows = 4, context = 64;
  uint64_t seed = 1;
  std::string sampling = "epochs";
  bool validation = false, json = false;
};

bool is_messages_file(const std::string& path);
void show_messages(const ShowMessages& a);

}  // namespace tril::cli
