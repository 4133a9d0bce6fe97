#!/usr/bin/env python3
"""Compares tril's chat templates with the Jinja text it saves, as transformers applies it.

usage: check_chat_templates.py path/to/tril

For each template a small tokenizer with its tokens and one model of a few weights are made; transformers' AutoTokenizer opens
the model's folder, and apply_chat_template must give the text and the ids of `tril data show --json`, and with a generation
prompt the ids before the last answer.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

TOKENS = {
    "chatml": ["<|im_start|>", "<|im_end|>"],
    "llama2": ["<s>", "</s>"],
    "llama3": ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
    "zephyr": [],
    "mistral": ["<s>", "</s>"],
    "gemma": ["<bos>", "<start_of_turn>", "<end_of_turn>"],
    "tutorial": [],
    "nanochat": ["<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>"],
    "plain": [],
}
TALKS = [
    [("user", "Hello"), ("assistant", "Hi there!")],
    [("system", "Be kind."), ("user", "Hello, 'you'"), ("assistant", "Hi!"), ("user", "Two\nlines\\n"),
     ("assistant", "Four é 🌍")],
    [("system", " Be kind.\n"), ("user", "  spaces \n"), ("assistant", "x  \n")],
    [("user", "a\n\nb"), ("assistant", "{{ not jinja }} {% x %}")],
]
TEXT = "Hello there, how are you? I am well. Two lines and four. User: hi. Assistant: hello.\n\n" * 20


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def make_tokenizer(name, specials, path):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    # In GPT-2's pattern two line breaks are one token at the end of a prompt, and two before a letter: there
    # transformers tokenizes a whole conversation otherwise than the prompt that a model goes on from.
    if name == "llama3":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in [*specials, "<|endoftext|>"]])
    tokenizer.save(str(path))


def main(tril):
    failures = compared = 0
    for name, specials in TOKENS.items():
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            make_tokenizer(name, specials, folder / "tokenizer.json")
            lines = [{"messages": [{"role": r, "content": c} for r, c in talk]} for talk in TALKS]
            (folder / "chat.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            subprocess.run([tril, "train", "chat.jsonl", "--tokenizer", "tokenizer.json", "--template", name, "--layers", "1",
                            "--heads", "1", "--channels", "8", "--context", "256", "--batch", "1", "--steps", "1", "--out", "m"],
                           cwd=folder, check=True, capture_output=True)
            theirs = AutoTokenizer.from_pretrained(folder / "m")
            for number, line in enumerate(lines):
                shown = json.loads(subprocess.run(
                    [tril, "data", "show", "chat.jsonl", "--from", "m", "--document", str(number), "--json"], cwd=folder,
                    check=True, capture_output=True).stdout)
                messages = line["messages"]
                text = theirs.apply_chat_template(messages, tokenize=False)
                ids = theirs(text, add_special_tokens=False)["input_ids"]
                asked = theirs.apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True)
                last = max(i for i, one in enumerate(shown["learned"]) if one)
                while last > 0 and shown["learned"][last - 1]:
                    last -= 1
                before = theirs(asked, add_special_tokens=False)["input_ids"]
                for what, a, b in [("text", shown["text"], text), ("before the answer", shown["tokens"][:last], before)]:
                    compared += 1
                    if a != b:
                        failures += 1
                        print(f"{name} {number}: {what} differs\n  tril  {a!r}\n  jinja {b!r}")
                compared += 1
                if shown["tokens"] != ids:
                    failures += 1
                    print(f"{name} {number}: ids differ\n  tril  {shown['tokens']}\n  jinja {ids}")
    print(f"{compared} comparisons, {failures} differences")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(str(Path(sys.argv[1]).resolve())))
