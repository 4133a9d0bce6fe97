#!/usr/bin/env python3
"""Compares checkpoints of PyTorch between tril and PyTorch, both ways.

  check_torch.py TRIL

Writes random checkpoints as the tutorials' program and nanoGPT do (modules with their names, torch.save),
lets tril compute logits of them and compares; lets tril write them again as .pt, loads that with
weights_only=True into the same modules, strictly, and compares again. A transposed view, float16, bfloat16 and
old formats are among them. Needs: pip install torch numpy safetensors. Exit code 1 if anything differs.
"""
import argparse
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

V, T, C, H, L = 50, 16, 24, 3, 2
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 49, 0]


class OneHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(C, C // H, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(T, T)))

    def forward(self, x):
        time = x.shape[1]
        scores = self.query(x) @ self.key(x).transpose(-2, -1) / math.sqrt(C // H)
        scores = scores.masked_fill(self.tril[:time, :time] == 0, -math.inf)
        return scores.softmax(-1) @ self.value(x)


class ManyHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(OneHead() for _ in range(H))
        self.proj = nn.Linear(C, C)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], -1))


class TutorialMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.proj = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x):
        return self.proj(F.relu(self.hidden(x)))


class TutorialBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.attn, self.ln2, self.mlp = nn.LayerNorm(C), ManyHeads(), nn.LayerNorm(C), TutorialMlp()

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Tutorial(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embed, self.position_embed = nn.Embedding(V, C), nn.Embedding(T, C)
        self.attn_blocks = nn.ModuleList(TutorialBlock() for _ in range(L))
        self.layer_norm, self.lm_head = nn.LayerNorm(C), nn.Linear(C, V)
        self.register_buffer("pos_idxs", torch.arange(T))

    def forward(self, ids):
        x = self.token_embed(ids) + self.position_embed(self.pos_idxs[: ids.shape[1]])
        for block in self.attn_blocks:
            x = block(x)
        return self.lm_head(self.layer_norm(x))


class NanoNorm(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(C)), nn.Parameter(torch.zeros(C)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, (C,), self.weight, self.bias, 1e-5)


class NanoAttention(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(C, 3 * C, bias=bias), nn.Linear(C, C, bias=bias)

    def forward(self, x):
        batch, time, _ = x.shape
        q, k, v = (t.view(batch, time, H, C // H).transpose(1, 2) for t in self.c_attn(x).split(C, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, time, C))


class NanoMlp(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(C, 4 * C, bias=bias), nn.Linear(4 * C, C, bias=bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class NanoBlock(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = NanoNorm(bias), NanoAttention(bias), NanoNorm(bias), NanoMlp(bias)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGpt(nn.Module):
    def __init__(self, bias):
        super().__init__()
        blocks = nn.ModuleList(NanoBlock(bias) for _ in range(L))
        parts = {"wte": nn.Embedding(V, C), "wpe": nn.Embedding(T, C), "h": blocks, "ln_f": NanoNorm(bias)}
        self.transformer = nn.ModuleDict(parts)
        self.lm_head = nn.Linear(C, V, bias=False)
        self.transformer["wte"].weight = self.lm_head.weight

    def forward(self, ids):
        t = self.transformer
        x = t["wte"](ids) + t["wpe"](torch.arange(ids.shape[1]))
        for block in t["h"]:
            x = block(x)
        return self.lm_head(t["ln_f"](x))


def spread(model):
    """Values that make every part of the model matter."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


class Check:
    def __init__(self, tril, folder):
        self.tril, self.folder, self.failed = tril, folder, False

    def run(self, *words):
        return subprocess.run([self.tril, *map(str, words)], capture_output=True, text=True)

    def say(self, name, ok, what):
        print(f"{'ok  ' if ok else 'FAIL'} {name}: {what}")
        self.failed |= not ok

    def logits(self, name, path, model, tolerance=1e-5):
        out = self.folder / "logits.safetensors"
        result = self.run("logits", path, "--tokens", " ".join(map(str, TOKENS)), "--out", out)
        if result.returncode != 0:
            self.say(name, False, result.stderr.strip())
            return
        with torch.no_grad():
            theirs = model(torch.tensor([TOKENS]))[0]
        difference = (load_file(out)["logits"] - theirs).abs().max().item() / theirs.abs().max().item()
        self.say(name, difference <= tolerance, f"logits differ by {difference:.2g} of the largest")

    def there_and_back(self, name, path, model, key, fresh):
        self.logits(f"{name}, read", path, model)
        back = self.folder / "back.pt"
        back.unlink(missing_ok=True)
        result = self.run("convert", path, back)
        if result.returncode != 0:
            self.say(f"{name}, written", False, result.stderr.strip())
            return
        state = torch.load(back, weights_only=True)[key]
        fresh.load_state_dict(state)  # strict: throws for names missing or left over
        with torch.no_grad():
            same = torch.equal(fresh(torch.tensor([TOKENS])), model(torch.tensor([TOKENS])))
        self.say(f"{name}, written and loaded by PyTorch with weights_only=True", same, "the same logits to the bit")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tril")
    a = p.parse_args()
    print(f"torch {torch.__version__}")
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check = Check(a.tril, folder)
        path = folder / "model.pt"

        tutorial = spread(Tutorial())
        sizes = {"vocab_size": V, "context_length": T, "n_embed": C, "n_head": H, "n_blocks": L}
        optimizer = torch.optim.AdamW(tutorial.parameters())
        tutorial(torch.tensor([TOKENS])).sum().backward()
        optimizer.step()
        torch.save({"model_state_dict": tutorial.state_dict(), "optimizer_state_dict": optimizer.state_dict(),
                    "config": sizes, "pytorch_version": torch.__version__, "losses": [1.0, 2.0]}, path)
        check.there_and_back("tutorial", path, tutorial, "model_state_dict", Tutorial())
        torch.save(tutorial.state_dict(), path)
        check.logits("bare state dict", path, tutorial)
        views = {k: v.T.contiguous().T if v.dim() == 2 else v for k, v in tutorial.state_dict().items()}
        torch.save(views, path)
        check.logits("transposed views", path, tutorial)
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            low = {k: v.to(dtype) for k, v in tutorial.state_dict().items()}
            torch.save(low, path)
            rounded = Tutorial()
            rounded.load_state_dict({k: v.float() for k, v in low.items()})
            check.logits(str(dtype), path, rounded)
        torch.save(tutorial.state_dict(), path, _use_new_zipfile_serialization=False)
        old = check.run("info", path)
        check.say("old format", old.returncode == 2 and "torch.save(torch.load(" in old.stderr, old.stderr.strip())

        for bias in (True, False):
            nano = spread(NanoGpt(bias))
            arguments = dict(n_layer=L, n_head=H, n_embd=C, block_size=T, bias=bias, vocab_size=V, dropout=0.1)
            payload = {"model": nano.state_dict(), "model_args": arguments, "iter_num": 7, "config": {"dataset": "x"}}
            torch.save(payload, path)
            check.there_and_back(f"nanoGPT, bias {bias}", path, nano, "model", NanoGpt(bias))
            payload["model"] = {"_orig_mod." + k: v for k, v in nano.state_dict().items()}
            torch.save(payload, path)
            check.logits("nanoGPT, compiled", path, nano)
        if check.failed:
            sys.exit(1)


if __name__ == "__main__":
    main()
