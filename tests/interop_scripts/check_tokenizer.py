#!/usr/bin/env python3
"""Hugging Face's tokenizers must open our tokenizer.json files, give the same ids, and decode to the same text;
tiktoken must give the same ids with its own ranks and the published patterns, also on random Unicode.

    TRIL_TEST_DATA=... check_tokenizer.py build/bin/test_text

Needs the Python packages `tokenizers` and `tiktoken`; says so and succeeds without them.
"""

import os
import pathlib
import subprocess
import sys
import tempfile


def check(case: pathlib.Path, tokenizer_class) -> str:
    """The first difference in one case, or nothing."""
    tokenizer = tokenizer_class.from_file(str(case / "tokenizer.json"))
    text = (case / "text.txt").read_bytes().decode("utf-8")
    ours = [int(number) for number in (case / "ids.txt").read_text().split()]
    theirs = tokenizer.encode(text).ids
    for place, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            return f"id {place} is {a} here, {b} there"
    if len(ours) != len(theirs):
        return f"{len(ours)} ids here, {len(theirs)} there"
    if tokenizer.decode(ours) != text:
        return "decodes to another text there"
    end = tokenizer.token_to_id("<|endoftext|>")
    if end is not None and (end != tokenizer.get_vocab_size() - 1 or tokenizer.decode([end]) != ""):
        return "end of text is not the last, special id there"
    return ""


def check_ranks(case: pathlib.Path, tiktoken) -> str:
    """The first difference from tiktoken in one case, or nothing."""
    from tiktoken.load import load_tiktoken_bpe
    encoding = tiktoken.Encoding("case", pat_str=(case / "pattern.txt").read_text(),
                                 mergeable_ranks=load_tiktoken_bpe((case / "ranks.txt").read_text()),
                                 special_tokens={})
    ours = [int(number) for number in (case / "ids.txt").read_text().split()]
    theirs = encoding.encode_ordinary((case / "text.txt").read_bytes().decode("utf-8"))
    for place, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            return f"id {place} is {a} here, {b} there, after {encoding.decode(theirs[place - 5:place])!r}"
    return "" if len(ours) == len(theirs) else f"{len(ours)} ids here, {len(theirs)} there"


def main() -> int:
    try:
        import tiktoken
        from tokenizers import Tokenizer
    except ImportError as error:
        print(f"skipped: the Python package {error.name} is not installed")
        return 0
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, TRIL_TOKENIZER_CASES=folder)
        subprocess.run([sys.argv[1], "--gtest_filter=TokenizerInterop.*"], env=environment, check=True,
                       stdout=subprocess.DEVNULL)
        cases = sorted(pathlib.Path(folder).iterdir())
        for case in cases:
            ranks = case.name.startswith("ranks-")
            difference = check_ranks(case, tiktoken) if ranks else check(case, Tokenizer)
            print(f"{case.name}: {difference or 'equal'}")
            failures += bool(difference)
    if not cases:
        print("no cases were written: is TRIL_TEST_DATA set?")
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
