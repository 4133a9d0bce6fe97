#!/usr/bin/env python3
"""Runs `tril train` and then the same training in PyTorch, and compares losses and gradient norms step by step.

  check_training.py build/bin/tril                          gpt, llama and classic on stories of tril corpus
  check_training.py build/bin/tril --arch llama --steps 300 --text book.txt

PyTorch starts from the weights that tril draws (saved by a run of one step with next to no learning rate) and reads
the batches that tril reads, which are a function of seed and step. It computes in float32 and in double: steps amplify
rounding, most where ReLU has its kink, so the measure of tril's distance from double is that of PyTorch's float32.
Exit code 1 if tril is more than three times as far (and losses by more than 1e-5, gradient norms by more than 1e-4 of
themselves). Needs: pip install torch numpy safetensors.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file

import pytorch_model

SEED = 1
OPTIONS = {
    "layers": 3, "heads": 4, "channels": 64, "context": 64, "batch": 8,
    "learning-rate": 0.003, "min-learning-rate": 0.0003, "warmup": 10, "schedule": "cosine",
    "weight-decay": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "clip": 1.0,
}
MASK = (1 << 64) - 1


def splitmix64(z):
    z = (z + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def philox4x32(x, key):
    for i in range(10):
        p, q = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        k = [(word + i * bump) & 0xFFFFFFFF for word, bump in zip(key, (0x9E3779B9, 0xBB67AE85))]
        x = [(q >> 32) ^ x[1] ^ k[0], q & 0xFFFFFFFF, (p >> 32) ^ x[3] ^ k[1], p & 0xFFFFFFFF]
    return x


def window_start(step, row, count):
    """Where row `row` of step `step` begins, of `count` places: see tril/base/random.h and tril/data/sampler.cc."""
    name = 0xCBF29CE484222325
    for byte in b"windows":
        name = ((name ^ byte) * 0x100000001B3) & MASK
    key = splitmix64(name ^ splitmix64(SEED))
    words = philox4x32([row >> 1, 0, step & 0xFFFFFFFF, step >> 32], [key & 0xFFFFFFFF, key >> 32])
    first = 2 * (row & 1)
    return (words[first] | words[first + 1] << 32) * count >> 64


def tril(binary, *arguments):
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tril {' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stderr}")


def tril_curve(binary, text, folder, options):
    """Initial weights, and the log of the run."""

    def train(name, options):
        words = [word for option, value in options.items() for word in ("--" + option, value)]
        tril(binary, "train", text, "--out", os.path.join(folder, name), *words)

    options = options | {"tokenizer": "byte", "val-fraction": 0, "seed": SEED}
    still = {"steps": 1, "learning-rate": 1e-12, "min-learning-rate": 0, "weight-decay": 0, "warmup": 0}
    train("initial", options | still)
    train("run", options)
    with open(os.path.join(folder, "run/log.jsonl")) as file:
        log = [json.loads(line) for line in file]
    return load_file(os.path.join(folder, "initial/steps/00000001/weights.safetensors")), log


def strays(curve, exact):
    """The largest relative differences of (losses, gradient norms)."""
    return [max(abs(a - b) / b for a, b in zip(x, y, strict=True)) for x, y in zip(curve, exact)]


def compare(binary, text, arch, steps):
    options = {"arch": arch, **OPTIONS, "steps": steps} | ({"kv-heads": 2} if arch == "llama" else {})
    with tempfile.TemporaryDirectory() as folder:
        weights, log = tril_curve(binary, text, folder, options)
    with open(text, "rb") as file:
        tokens = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    time, batches = options["context"], []
    for step in range(steps):
        starts = [window_start(step, row, len(tokens) - time) for row in range(options["batch"])]
        batches.append((torch.stack([tokens[s : s + time] for s in starts]),
                        torch.stack([tokens[s + 1 : s + time + 1] for s in starts])))
    ours = [line["loss_nats"] for line in log], [line["gradient_norm"] for line in log]
    single = pytorch_model.train(weights, batches, options, torch.float32)[:2]
    double = pytorch_model.train(weights, batches, options, torch.float64)[:2]
    tril_stray, torch_stray = strays(ours, double), strays(single, double)
    agrees = all(a <= max(floor, 3 * b) for a, b, floor in zip(tril_stray, torch_stray, (1e-5, 1e-4)))
    print(f"{arch}: {steps} steps, loss {double[0][0]:.4f} to {double[0][-1]:.4f}")
    for name, (loss, norm) in (("tril", tril_stray), ("PyTorch's float32", torch_stray)):
        print(f"  {name} from PyTorch's double: losses {loss:.2g}, gradient norms {norm:.2g}")
    if not agrees:
        print("  they differ")
    return agrees


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary")
    p.add_argument("--text", help="UTF-8 text (stories of tril corpus)")
    p.add_argument("--arch", choices=["gpt", "llama", "classic"])
    p.add_argument("--steps", type=int, default=100)
    a = p.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        text = a.text
        if text is None:
            text = os.path.join(folder, "stories.txt")
            tril(a.binary, "corpus", "--stories", 500, "--out", text)
        archs = [a.arch] if a.arch else ["gpt", "llama", "classic"]
        results = [compare(a.binary, text, arch, a.steps) for arch in archs]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
