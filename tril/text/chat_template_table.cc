#include "tril/text/chat_template_table.h"

namespace tril {

std::span<const ChatTemplateTable> chat_template_tables() {
  static const std::vector<ChatTemplateTable> tables = {
      {.name = "chatml",
       .before_system = "<|im_start|>system\n",
       .after_system = "<|im_end|>\n",
       .before_user = "<|im_start|>user\n",
       .after_user = "<|im_end|>\n",
       .before_assistant = "<|im_start|>assistant\n",
       .end = "<|im_end|>",
       .after_assistant = "\n",
       .tokens = {"<|im_start|>", "<|im_end|>"},
       .stops = {"<|im_start|>"}},
      {.name = "llama2",
       .before_system = "<<SYS>>\n",
       .after_system = "\n<</SYS>>\n\n",
       .system_in_user = true,
       .before_user = "{bos}[INST] ",
       .after_user = " [/INST]",
       .lead = " ",
       .end = " {eos}",
       .trims = true,
       .bos = "<s>",
       .eos = "</s>",
       .stops = {"[INST]"}},
      {.name = "llama3",
       .begin = "{bos}",
       .before_system = "<|start_header_id|>system<|end_header_id|>\n\n",
       .after_system = "<|eot_id|>",
       .before_user = "<|start_header_id|>user<|end_header_id|>\n\n",
       .after_user = "<|eot_id|>",
       .before_assistant = "<|start_header_id|>assistant<|end_header_id|>\n\n",
       .end = "<|eot_id|>",
       .trims = true,
       .bos = "<|begin_of_text|>",
       .tokens = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
       .stops = {"<|start_header_id|>"}},
      {.name = "zephyr",
       .before_system = "<|system|>\n",
       .after_system = "{eos}\n",
       .before_user = "<|user|>\n",
       .after_user = "{eos}\n",
       .before_assistant = "<|assistant|>\n",
       .end = "{eos}",
       .after_assistant = "\n",
       .eos = "</s>",
       .stops = {"<|user|>"}},
      {.name = "mistral",
       .begin = "{bos}",
       .after_system = "\n\n",
       .system_in_user = true,
       .before_user = "[INST] ",
       .after_user = " [/INST]",
       .lead = " ",
       .end = "{eos}",
       .trims = true,
       .bos = "<s>",
       .eos = "</s>",
       .stops = {"[INST]"}},
      {.name = "gemma",
       .begin = "{bos}",
       .after_system = "\n\n",
       .system_in_user = true,
       .before_user = "<start_of_turn>user\n",
       .after_user = "<end_of_turn>\n",
       .before_assistant = "<start_of_turn>model\n",
       .end = "<end_of_turn>",
       .after_assistant = "\n",
       .trims = true,
       .bos = "<bos>",
       .tokens = {"<start_of_turn>", "<end_of_turn>"},
       .stops = {"<start_of_turn>"}},
      {.name = "tutorial",
       .before_system = "<|system|>\n",
       .after_system = "{eos}",
       .before_user = "<|user|>\n",
       .after_user = "{eos}",
       .before_assistant = "<|assistant|>\n",
       .end = "{eos}",
       .eos = "<|endoftext|>",
       .stops = {"<|user|>"}},
      {.name = "nanochat",
       .begin = "{bos}",
       .after_system = "\n\n",
       .system_in_user = true,
       .before_user = "<|user_start|>",
       .after_user = "<|user_end|>",
       .before_assistant = "<|assistant_start|>",
       .end = "<|assistant_end|>",
       .bos = "<|bos|>",
       .tokens = {"<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>"},
       .stops = {"<|user_start|>"}},
      {.name = "plain",
       .after_system = "\n\n",
       .before_user = "User: ",
       .after_user = "\n\n",
       .before_assistant = "Assistant:",
       .lead = " ",
       .end = "{eos}",
       .after_assistant = "\n\n",
       .trims = true,
       .stops = {"\n\nUser:"}},
  };
  return tables;
}

std::string chat_template_names() {
  std::string names;
  for (const ChatTemplateTable& table : chat_template_tables())
    names += (names.empty() ? "" : ", ") + table.name;
  return names;
}

std::string recognise_chat_template(std::string_view jinja) {
  const auto has = [&](std::string_view text) { return jinja.find(text) != jinja.npos; };
  for (const ChatTemplateTable& table : chat_template_tables())
    if (jinja.starts_with("{# tril: " + table.name + " #}")) return table.name;
  if (has("<|im_start|>")) return "chatml";
  if (has("<|start_header_id|>")) return "llama3";
  if (has("<start_of_turn>")) return "gemma";
  if (has("<|user_start|>") && has("<|assistant_start|>")) return "nanochat";
  if (has("<<SYS>>")) return "llama2";
  if (has("[INST]")) return "mistral";
  // Phi-3's has the same markers, but ends messages with a token of its own.
  if (!has("<|user|>") || !has("<|assistant|>") || has("<|end|>")) return "";
  if (has("<|endoftext|>")) return "tutorial";
  return has("eos_token") || has("</s>") ? "zephyr" : "";
}

}  // namespace tril
