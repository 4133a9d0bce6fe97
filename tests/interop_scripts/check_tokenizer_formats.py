#!/usr/bin/env python3
"""Tokenizers of the kinds that published models have, made by Hugging Face's tokenizers, must give the same ids here.

    TRIL_TEST_DATA=... check_tokenizer_formats.py build/bin/tril [--write-cases FOLDER]

For each kind a small byte-pair tokenizer is trained with the package; the ids of corpora and of random Unicode are
compared, decoded, and compared again after `tril tokenizer export` has written the file anew. tiktoken's encodings
and llama2.c's tokenizer.bin are compared likewise. --write-cases keeps a small tokenizer and texts of each kind, for
tests that need no packages.

Needs the Python packages `tokenizers` and `tiktoken`; says so and succeeds without them.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK_V3 = ["\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
               "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
               "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
DEEPSEEK_CODER = ["[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+"]
DEEPSEEK_LLM = ["[\r\n]",
                "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-"
                "ὗὙὛὝὟ-\u1F7Dᾀ-ᾴᾶ-ᾼ\u1FBEῂ-ῄῆ-ῌῐ-\u1FD3ῖ-\u1FDBῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212A-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ"
                "-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
                "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+"]
KINDS = ["gpt2", "llama3", "qwen2", "o200k", "smollm", "deepseek-v3", "deepseek-coder", "deepseek-llm", "llama2",
         "mistral"]


def byte_level_tokenizer(kind, corpus, vocabulary):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    patterns = {"llama3": [LLAMA3], "qwen2": [QWEN2], "o200k": [O200K], "deepseek-v3": DEEPSEEK_V3,
                "deepseek-coder": DEEPSEEK_CODER, "deepseek-llm": DEEPSEEK_LLM}.get(kind, [])
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    if kind in ("smollm", "deepseek-coder", "deepseek-llm"):
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind in ("gpt2", "smollm")))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    tokenizer.decoder = decoders.ByteLevel()
    if kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, show_progress=False, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    if kind != "gpt2":
        tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("<tool_call>", "<tool")])
    if kind in ("llama3", "deepseek-v3"):
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|endoftext|> $A", pair="<|endoftext|> $A $B",
            special_tokens=[("<|endoftext|>", tokenizer.token_to_id("<|endoftext|>"))])
    return tokenizer


def sentencepiece_tokenizer(kind, corpus, vocabulary):
    """Llama-2's and Mistral's: BPE over characters, bytes to fall back on, U+2581 for spaces."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    specials = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % byte for byte in range(256)]
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    words = [word for line in corpus for word in line.splitlines()]
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, show_progress=False, special_tokens=specials,
                                  limit_alphabet=100)
    tokenizer.train_from_iterator(words, trainer)
    parts = json.loads(tokenizer.to_str())
    parts["added_tokens"] = parts["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(parts))
    end = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(end)
    if kind == "llama2":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        parts = json.loads(tokenizer.to_str())
        parts["pre_tokenizer"] = None
        return Tokenizer.from_str(json.dumps(parts))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return tokenizer


def make_tokenizer(kind, corpus, vocabulary):
    maker = sentencepiece_tokenizer if kind in ("llama2", "mistral") else byte_level_tokenizer
    return maker(kind, corpus, vocabulary)


ASSIGNED = [code for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")]
PARTS = ["'s", "'LL", "'Re", " ", "  ", "\n", "\r\n", "\t", " \n ", "1", "2024", "12345", "the", "The", " of", "<tool_call>",
         "<tool", "<|endoftext|>", "\u00a0", "\u3000", "\u2028", "\u0085", "e\u0301", "é", "가", "\u1100\u1161\u11a8", "中文",
         "ひらがな", "…", "--", "/*", "ſ", "'ſ", "▁", "İ", "!", "¿", "\u0378", "🙂", "👩\u200d🚀", "\u0345\u0301\u0323"]


def leave_out_new_marks():
    """The package's NFC knows the classes of combining marks up to about Unicode 9: newer ones stay where they are."""
    from tokenizers import normalizers
    nfc = normalizers.NFC().normalize_str
    new = {code for code in ASSIGNED if any(nfc(text) != unicodedata.normalize("NFC", text) for text in
                                            ("a" + chr(code) + "\u0301", "\u0323" + chr(code), chr(code)))}
    ASSIGNED[:] = [code for code in ASSIGNED if code not in new]
    return len(new)


def random_text(draw):
    """Parts that the patterns tell apart, and any character of Unicode 14."""
    return "".join(draw.choice(PARTS) if draw.random() < 0.6 else chr(draw.choice(ASSIGNED))
                   for _ in range(draw.randrange(0, 40)))


class Tril:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder

    def run(self, *words, text=None):
        result = subprocess.run([self.binary, "tokenizer", *map(str, words)], input=text, capture_output=True)
        if result.returncode != 0:
            raise SystemExit("tril tokenizer %s: %s" % (" ".join(map(str, words)), result.stderr.decode()))
        return result.stdout

    def encode(self, tokenizer, text, *options):
        out = self.run("encode", "--tokenizer", tokenizer, *options, "-", text=text.encode("utf-8"))
        return [int(number) for number in out.split()]

    def decode(self, tokenizer, ids):
        return self.run("decode", "--tokenizer", tokenizer, text=" ".join(map(str, ids)).encode())


def differs(ours, theirs):
    """The first difference of two lists of ids, or nothing."""
    for place, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            return "id %d is %d here, %d there" % (place, a, b)
    return "" if len(ours) == len(theirs) else "%d ids here, %d there" % (len(ours), len(theirs))


def plain(text):
    """Without control tokens, which the package always finds and tril only where they are allowed."""
    return text.replace("<|endoftext|>", "<|end of text|>")


def check_kind(tril, kind, file, tokenizer, texts):
    for name, text in texts:
        theirs = tokenizer.encode(text, add_special_tokens=False).ids
        difference = differs(tril.encode(file, text, "--special"), theirs)
        if not difference and plain(text) == text:
            difference = differs(tril.encode(file, text), theirs)
        if not difference and tril.decode(file, theirs).decode("utf-8", "replace") != tokenizer.decode(theirs):
            difference = "decodes to another text"
        if difference:
            return "%s: %s" % (name, difference)
    return ""


def check_encoding(tril, name, file, texts):
    """tiktoken's own encoding with the same file of ranks."""
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe
    patterns = {"r50k_base": r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
                "cl100k_base": r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++"""
                               r"""[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""}
    ranks = load_tiktoken_bpe(str(file))
    encoding = tiktoken.Encoding(name, pat_str=patterns[name], mergeable_ranks=ranks, special_tokens={})
    for text_name, text in texts:
        difference = differs(tril.encode(file, text), encoding.encode_ordinary(text))
        if difference:
            return "%s: %s" % (text_name, difference)
    return ""


def write_cases(folder, corpus, draw):
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        tokenizer = make_tokenizer(kind, corpus, 700 if kind in ("llama2", "mistral") else 400)
        texts = [random_text(draw) for _ in range(40)]
        ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        case = {"tokenizer": json.loads(tokenizer.to_str()), "texts": texts, "ids": ids}
        (folder / (kind + ".json")).write_text(json.dumps(case, separators=(",", ":")) + "\n")


def main():
    try:
        import tiktoken
        import tokenizers
    except ImportError as missing:
        print("skipped: %s" % missing)
        return 0
    data = pathlib.Path(os.environ["TRIL_TEST_DATA"])
    draw = random.Random(1)
    left_out = leave_out_new_marks()
    names = ["tinyshakespeare", "names", "udhr_27lang", "code_stb"]
    corpora = [(name, (data / "corpus" / (name + ".txt")).read_bytes().decode("utf-8")[:400_000]) for name in names]
    sample = [text[:100_000] for _, text in corpora]
    if "--write-cases" in sys.argv:
        write_cases(pathlib.Path(sys.argv[-1]), sample, draw)
        return 0
    randoms = [("random %d" % i, random_text(draw)) for i in range(24)]
    randoms.append(("random, long", "".join(random_text(draw) for _ in range(3000))))
    texts = corpora + randoms
    print("tokenizers %s, tiktoken %s; %d combining marks too new for the package's NFC left out"
          % (tokenizers.__version__, tiktoken.__version__, left_out))
    failures = 0

    def report(what, difference):
        nonlocal failures
        print("%s: %s" % (what, difference or "equal"), flush=True)
        failures += bool(difference)

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tril = Tril(sys.argv[1], folder)
        for kind in KINDS:
            tokenizer = make_tokenizer(kind, sample, 1500)
            file, again = folder / (kind + ".json"), folder / (kind + "-again.json")
            tokenizer.save(str(file))
            report(kind, check_kind(tril, kind, file, tokenizer, texts))
            tril.run("export", file, "--to", "tokenizer.json", "--out", again)
            report(kind + ", written again", check_kind(tril, kind, again, tokenizers.Tokenizer.from_file(str(again)),
                                                        texts[:4] + texts[-1:]))
        plain_texts = [(name, plain(text)) for name, text in texts]
        for encoding in ("r50k_base", "cl100k_base"):
            file, again = data / "tokenizer" / (encoding + ".tiktoken"), folder / (encoding + ".json")
            report(encoding, check_encoding(tril, encoding, file, plain_texts))
            tril.run("export", file, "--to", "tokenizer.json", "--out", again)
            report(encoding + " as tokenizer.json", check_kind(
                tril, encoding, again, tokenizers.Tokenizer.from_file(str(again)), plain_texts[:4] + plain_texts[-6:]))
        bin_file, again = data / "models" / "tok512.bin", folder / "tok512.json"
        tril.run("export", bin_file, "--to", "tokenizer.json", "--out", again)
        theirs = tokenizers.Tokenizer.from_file(str(again))
        report("llama2.c's tokenizer.bin as tokenizer.json", check_kind(tril, "llama2.c", bin_file, theirs, texts))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
