#!/usr/bin/env python3
"""Opens a model folder of tril with Hugging Face transformers and compares.

  tril logits MODEL --tokens "1 2 3" --out logits.safetensors
  check_transformers.py MODEL --tokens "1 2 3" --logits logits.safetensors [--text TEXT --ids "4 5 6"]

Needs: pip install torch transformers safetensors. Exit code 1 if logits differ by more than --tolerance of
their largest, or if the tokenizer gives other ids for TEXT (or another text for them).
"""
import argparse
import sys

import torch
import transformers
from safetensors.torch import load_file


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--tokens", required=True)
    p.add_argument("--logits", required=True)
    p.add_argument("--text")
    p.add_argument("--ids", default="")
    p.add_argument("--tolerance", type=float, default=1e-5)
    a = p.parse_args()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")

    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        a.model, dtype=torch.float32, output_loading_info=True
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info.get(kind):
            sys.exit(f"{kind}: {info[kind]}")
    model.eval()
    tokens = torch.tensor([[int(t) for t in a.tokens.split()]])
    with torch.no_grad():
        theirs = model(tokens).logits[0]
    ours = load_file(a.logits)["logits"]
    if ours.shape != theirs.shape:
        sys.exit(f"logits: shape {tuple(ours.shape)} of tril, {tuple(theirs.shape)} of transformers")
    largest, difference = theirs.abs().max().item(), (ours - theirs).abs().max().item()
    print(f"logits {tuple(ours.shape)}: largest {largest:.4g}, difference {difference:.3g}")
    if not difference <= a.tolerance * largest:
        sys.exit("the logits differ")

    if a.text is not None:
        tokenizer = transformers.AutoTokenizer.from_pretrained(a.model)
        ids, expected = tokenizer.encode(a.text), [int(t) for t in a.ids.split()]
        print(f"tokenizer {type(tokenizer).__name__}: {len(ids)} ids")
        if ids != expected:
            sys.exit(f"ids of tril {expected}, of transformers {ids}")
        if tokenizer.decode(ids, skip_special_tokens=True) != a.text:
            sys.exit(f"decoded: {tokenizer.decode(ids)!r}")


if __name__ == "__main__":
    main()
