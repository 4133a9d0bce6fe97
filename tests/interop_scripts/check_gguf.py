#!/usr/bin/env python3
"""Opens a GGUF file with llama.cpp and compares it with tril.

  tril logits MODEL --tokens "1 2 3" --out logits.safetensors
  check_gguf.py MODEL.gguf --tokens "1 2 3" --logits logits.safetensors
  tril generate MODEL --prompt TEXT --temperature 0 --max-tokens 40 > text
  check_gguf.py MODEL.gguf --prompt TEXT --text text

Logits: the root of the mean square of the differences by that of the logits around their mean must be within
--tolerance (llama.cpp keeps keys and values as f16, and multiplies blocks by blocks rounded to 8 bits). Text:
llama.cpp's greedy continuation must be the same up to a near tie: a place where its two best logits are closer
than --tie. Needs: pip install llama-cpp-python numpy safetensors. Exit code 1 if they differ, 2 if there is nothing
to compare.
"""
import argparse
import sys

import llama_cpp
import numpy
from safetensors.numpy import load_file


def check_logits(model, tokens, path, tolerance):
    model.eval(tokens)
    theirs = numpy.array(model.scores[: len(tokens)], dtype=numpy.float64)
    ours = load_file(path)["logits"].astype(numpy.float64)
    if ours.shape != theirs.shape:
        sys.exit(f"logits: shape {ours.shape} of tril, {theirs.shape} of llama.cpp")
    difference = numpy.sqrt(((ours - theirs) ** 2).mean()) / ours.std()
    print(f"logits {ours.shape}: differ by {difference:.3g} of their spread, at most {numpy.abs(ours - theirs).max():.3g}")
    if not difference <= tolerance:
        sys.exit("the logits differ")


def check_text(model, prompt, ours, tie):
    ids = model.tokenize(prompt.encode(), add_bos=False, special=False)
    start, text = len(ids), b""
    model.eval(ids)
    while len(text) < len(ours):
        scores = numpy.array(model.scores[len(ids) - 1])
        second, best = numpy.argsort(scores)[-2:]
        piece = model.detokenize([int(best)], prev_tokens=ids, special=False)
        if not ours[len(text):].startswith(piece[: len(ours) - len(text)]):
            gap = scores[best] - scores[second]
            print(f"the same for {len(ids) - start} tokens, then the two best logits are {gap:.3g} apart")
            if gap > tie:
                sys.exit(f"tril goes on with {ours[len(text):][:60]!r}, llama.cpp with {piece!r}")
            return
        text += piece
        ids.append(int(best))
        model.eval([int(best)])
    print(f"the same text for {len(ids) - start} tokens")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--tokens")
    p.add_argument("--logits")
    p.add_argument("--prompt")
    p.add_argument("--text")
    p.add_argument("--tolerance", type=float, default=5e-3)
    p.add_argument("--tie", type=float, default=0.2)
    a = p.parse_args()
    if bool(a.tokens) != bool(a.logits) or (a.prompt is None) != (a.text is None):
        p.error("--tokens and --logits, --prompt and --text: give both of a pair")
    if not a.tokens and a.prompt is None:
        p.error("nothing to compare: give --tokens and --logits, or --prompt and --text")
    model = llama_cpp.Llama(a.model, n_ctx=512, logits_all=True, verbose=False, n_threads=2)
    print(f"llama-cpp-python {llama_cpp.__version__}")
    if a.tokens:
        check_logits(model, [int(t) for t in a.tokens.split()], a.logits, a.tolerance)
    if a.prompt is not None:
        model.reset()
        with open(a.text, "rb") as file:
            ours = file.read().removesuffix(b"\n").removeprefix(a.prompt.encode())
        if not ours:
            p.error(f"{a.text}: nothing follows the prompt")
        check_text(model, a.prompt, ours, a.tie)


if __name__ == "__main__":
    main()
