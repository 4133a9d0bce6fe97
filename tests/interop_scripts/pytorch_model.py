"""The models of `tril train --arch gpt|llama|classic` and its optimizer steps, in plain PyTorch.

Weights are a dict of tensors by tril's names, options a dict by the names of `tril train`. Attention is written
out, matrix by matrix, and shares nothing with anybody's fused kernel.
"""
import math

import torch
import torch.nn.functional as F


def mlp_hidden(options):
    """F: 4 C; of the gated MLP 8/3 C, rounded up to a multiple of 32."""
    channels = options["channels"]
    default = math.ceil(8 * channels / 96) * 32 if options["arch"] == "llama" else 4 * channels
    return options.get("mlp-hidden", default)


def weight_shapes(options, vocabulary):
    """Shapes by name, in tril's order."""
    arch, channels, heads = options["arch"], options["channels"], options["heads"]
    llama, size, hidden = arch == "llama", channels // heads, mlp_hidden(options)
    shapes = {"token_embedding.weight": (vocabulary, channels)}

    def norm(name):
        shapes[name + ".weight"] = (channels,)
        if not llama:
            shapes[name + ".bias"] = (channels,)

    def linear(name, inputs, outputs, bias):
        shapes[name + ".weight"] = (outputs, inputs)
        if bias:
            shapes[name + ".bias"] = (outputs,)

    if not llama:
        shapes["position_embedding.weight"] = (options["context"], channels)
    for layer in range(options["layers"]):
        block = f"blocks.{layer}."
        norm(block + "ln1")
        linear(block + "attention.qkv", channels, (heads + 2 * options.get("kv-heads", heads)) * size, arch == "gpt")
        linear(block + "attention.projection", channels, channels, not llama)
        norm(block + "ln2")
        if llama:
            linear(block + "mlp.gate", channels, hidden, False)
        linear(block + "mlp.hidden", channels, hidden, not llama)
        linear(block + "mlp.projection", hidden, channels, not llama)
    norm("ln_final")
    if arch == "classic":
        linear("lm_head", channels, vocabulary, True)
    return shapes


def normalise(w, name, x):
    """Layer normalisation; without a bias, RMS normalisation."""
    if name + ".bias" in w:
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], eps=1e-5)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * w[name + ".weight"]


def linear(w, name, x):
    return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))


def turn(x, base=10000.0):
    """Rotary positions: features i and i + D/2 of (B, H, T, D) turn by t * base^(-2 i / D)."""
    time, size = x.shape[-2:]
    frequencies = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.outer(torch.arange(time, dtype=torch.float64), frequencies)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.split(size // 2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def attention(w, name, x, options):
    batch, time, channels = x.shape
    heads = options["heads"]
    kv_heads, size = options.get("kv-heads", heads), channels // heads
    qkv = linear(w, name + ".qkv", x).view(batch, time, -1, size).transpose(1, 2)
    q, k, v = qkv.split([heads, kv_heads, kv_heads], 1)
    if options["arch"] == "llama":
        q, k = turn(q), turn(k)
    k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    later = torch.ones(time, time, dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(-2, -1) / math.sqrt(size)).masked_fill(later, -math.inf)
    out = torch.softmax(scores, -1) @ v
    return linear(w, name + ".projection", out.transpose(1, 2).reshape(batch, time, channels))


def mlp(w, name, x, options):
    hidden = linear(w, name + ".hidden", x)
    if options["arch"] == "llama":
        hidden = F.silu(linear(w, name + ".gate", x)) * hidden
    else:
        hidden = F.relu(hidden) if options["arch"] == "classic" else F.gelu(hidden, approximate="tanh")
    return linear(w, name + ".projection", hidden)


def mean_loss(w, inputs, targets, options):
    """Mean cross-entropy, in nats, of inputs and targets (B, T)."""
    x = w["token_embedding.weight"][inputs]
    if "position_embedding.weight" in w:
        x = x + w["position_embedding.weight"][: inputs.shape[1]]
    for layer in range(options["layers"]):
        block = f"blocks.{layer}."
        x = x + attention(w, block + "attention", normalise(w, block + "ln1", x), options)
        x = x + mlp(w, block + "mlp", normalise(w, block + "ln2", x), options)
    x = normalise(w, "ln_final", x)
    logits = F.linear(x, w.get("lm_head.weight", w["token_embedding.weight"]), w.get("lm_head.bias"))
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def learning_rate(options, step):
    """Linear warm-up, then a cosine to the minimum at the last step."""
    highest, lowest, warmup = options["learning-rate"], options["min-learning-rate"], options["warmup"]
    if step < warmup:
        return highest * (step + 1) / warmup
    progress = (step - warmup) / max(options["steps"] - 1 - warmup, 1)
    return lowest + (highest - lowest) * 0.5 * (1 + math.cos(math.pi * progress))


def train(initial, batches, options, dtype):
    """Losses, gradient norms before clipping and learning rates of one step for each (inputs, targets)."""
    w = {name: value.to(dtype, copy=True).requires_grad_() for name, value in initial.items()}
    groups = [
        {"params": [p for p in w.values() if p.dim() >= 2], "weight_decay": options["weight-decay"]},
        {"params": [p for p in w.values() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(options["beta1"], options["beta2"]), eps=options["epsilon"])
    losses, norms, rates = [], [], []
    for step, (inputs, targets) in enumerate(batches):
        rates.append(learning_rate(options, step))
        for group in optimizer.param_groups:
            group["lr"] = rates[-1]
        loss = mean_loss(w, inputs, targets, options)
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(list(w.values()), options["clip"]).item())
        losses.append(loss.item())
        optimizer.step()
    return losses, norms, rates
