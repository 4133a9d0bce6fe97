#!/usr/bin/env python3
"""Computes a model of `tril train --arch llama` with Hugging Face transformers' Llama, Mistral or Qwen-3 and compares.

  tril logits MODEL --tokens "1 2 3" --out logits.safetensors
  check_llama.py MODEL --tokens "1 2 3" --logits logits.safetensors

A model with a window is computed as Mistral, one with QK-norm as Qwen-3. Needs: pip install torch transformers
safetensors. Exit code 1 if logits differ by more than --tolerance of their largest.
"""
import argparse
import json
import os
import sys

import torch
import transformers
from safetensors.torch import load_file


def rope_parameters(c):
    rope = {"rope_type": c["rope_scaling"].replace("none", "default"), "rope_theta": c["rope_base"]}
    if c["rope_scaling"] == "none":
        return rope
    rope |= {"factor": c["rope_factor"], "original_max_position_embeddings": c["rope_original_context"]}
    if c["rope_scaling"] == "llama3":
        rope |= {"low_freq_factor": c["rope_low_frequency_factor"], "high_freq_factor": c["rope_high_frequency_factor"]}
    return rope


def their_model(c):
    shared = dict(
        vocab_size=c["vocabulary"], hidden_size=c["channels"], intermediate_size=c["mlp_hidden"],
        num_hidden_layers=c["layers"], num_attention_heads=c["heads"], num_key_value_heads=c["kv_heads"],
        head_dim=c["head_size"], max_position_embeddings=c["context"], rms_norm_eps=c["norm_epsilon"],
        rope_parameters=rope_parameters(c), tie_word_embeddings=c["tied_head"], attn_implementation="eager",
    )
    if c["qk_norm"]:
        return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**shared))
    if c["window"]:
        return transformers.MistralForCausalLM(transformers.MistralConfig(sliding_window=c["window"], **shared))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**shared))


def their_state(c, ours):
    state = {"model.embed_tokens.weight": ours["token_embedding.weight"], "model.norm.weight": ours["ln_final.weight"]}
    state["lm_head.weight"] = ours["token_embedding.weight" if c["tied_head"] else "lm_head.weight"]
    query, key = c["heads"] * c["head_size"], c["kv_heads"] * c["head_size"]
    for layer in range(c["layers"]):
        a, b = f"blocks.{layer}.", f"model.layers.{layer}."
        q, k, v = ours[a + "attention.qkv.weight"].split([query, key, key])
        state |= {b + "self_attn.q_proj.weight": q, b + "self_attn.k_proj.weight": k, b + "self_attn.v_proj.weight": v}
        names = {
            "self_attn.o_proj": "attention.projection", "mlp.gate_proj": "mlp.gate", "mlp.up_proj": "mlp.hidden",
            "mlp.down_proj": "mlp.projection", "input_layernorm": "ln1", "post_attention_layernorm": "ln2",
        }
        if c["qk_norm"]:
            names |= {"self_attn.q_norm": "attention.query_norm", "self_attn.k_norm": "attention.key_norm"}
        for theirs, name in names.items():
            state[b + theirs + ".weight"] = ours[a + name + ".weight"]
    return state


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--tokens", required=True)
    p.add_argument("--logits", required=True)
    p.add_argument("--tolerance", type=float, default=1e-5)
    a = p.parse_args()
    with open(os.path.join(a.model, "config.json")) as file:
        config = json.load(file)
    model = their_model(config)
    model.load_state_dict(their_state(config, load_file(os.path.join(a.model, "model.safetensors"))))
    model.eval()
    with torch.no_grad():
        theirs = model(torch.tensor([[int(t) for t in a.tokens.split()]])).logits[0]
    ours = load_file(a.logits)["logits"]
    largest, difference = theirs.abs().max().item(), (ours - theirs).abs().max().item()
    print(f"{type(model).__name__}: logits {tuple(ours.shape)}, largest {largest:.4g}, difference {difference:.3g}")
    if ours.shape != theirs.shape or not difference <= a.tolerance * largest:
        sys.exit("the logits differ")


if __name__ == "__main__":
    main()
