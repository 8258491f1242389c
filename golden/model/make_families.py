#!/usr/bin/env python3
"""Makes families.json: small seeded models of every family and what transformers computes with them.

usage: python3 make_families.py > families.json
       (pip install torch==2.15.0 transformers==5.24.0 gguf==0.19.0; CPU only)

Weights are not kept: tests/runtime/model/family_files.cc makes the same ones from the names. Kept are
config.json as transformers writes it, the tensors with their GGUF names from the package `gguf`, the
GGUF metadata as llama.cpp's converter (convert_hf_to_gguf.py) writes them, and log-probabilities, in
fp32 and in bf16, of the next token and a fixed one at every position of a prompt.
"""
import json
import math
import sys

import gguf
import numpy as np
import torch
import transformers as tf

VOCAB, TOKENS, FIXED = 160, 192, 77
SMALL = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=4,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
             bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=8192)
LONG = dict(rope_type="longrope", short_factor=[1.0, 1.0, 1.25, 1.5, 1.5, 2.0, 2.0, 2.5],
            long_factor=[1.0, 2.0, 4.0, 8.0, 8.0, 12.0, 16.0, 16.0])


def rope(**parameters):
    return dict(rope_parameters=dict(dict(rope_type="default", rope_theta=10000.0), **parameters))


# name: (configuration class, arguments, GGUF architecture or None)
MODELS = {
    "llama": (tf.LlamaConfig, dict(SMALL), "llama"),
    "llama_untied_mha": (tf.LlamaConfig, dict(SMALL, num_key_value_heads=4, tie_word_embeddings=False), "llama"),
    "llama_tied": (tf.LlamaConfig, dict(SMALL, tie_word_embeddings=True), "llama"),
    "llama_bias": (tf.LlamaConfig, dict(SMALL, attention_bias=True), "llama"),
    "llama_linear": (tf.LlamaConfig, dict(SMALL, **rope(rope_type="linear", factor=4.0)), "llama"),
    "llama_llama3": (tf.LlamaConfig, dict(SMALL, max_position_embeddings=131072, head_dim=32, rope_parameters=LLAMA3), "llama"),
    "llama_yarn": (tf.LlamaConfig, dict(SMALL, **rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)), "llama"),
    "llama_dynamic": (tf.LlamaConfig, dict(SMALL, max_position_embeddings=64, **rope(rope_type="dynamic", factor=3.0)), None),
    "mistral": (tf.MistralConfig, dict(SMALL, sliding_window=20), None),
    "qwen2": (tf.Qwen2Config, dict(SMALL, tie_word_embeddings=True, **rope(rope_theta=1000000.0)), "qwen2"),
    "qwen2_window": (tf.Qwen2Config, dict(SMALL, use_sliding_window=True, sliding_window=20, max_window_layers=2), None),
    "qwen3": (tf.Qwen3Config, dict(SMALL, head_dim=32, **rope(rope_theta=1000000.0)), "qwen3"),
    "smollm3": (tf.SmolLM3Config, dict(SMALL, **rope(rope_theta=2000000.0)), "smollm3"),
    "phi3": (tf.Phi3Config, dict(SMALL, sliding_window=20), "phi3"),
    "phi3_partial": (tf.Phi3Config, dict(SMALL, hidden_size=128, sliding_window=None, tie_word_embeddings=True,
                                         **rope(partial_rotary_factor=0.75)), "phi3"),
    "phi3_long": (tf.Phi3Config, dict(SMALL, sliding_window=None, original_max_position_embeddings=64, **rope(**LONG)), "phi3"),
    "phi3_short": (tf.Phi3Config, dict(SMALL, sliding_window=None, max_position_embeddings=1024,
                                       original_max_position_embeddings=256, **rope(**LONG)), "phi3"),
    "olmo2": (tf.Olmo2Config, dict(SMALL, **rope(rope_theta=500000.0)), "olmo2"),
    "granite": (tf.GraniteConfig, dict(SMALL, embedding_multiplier=12.0, attention_multiplier=0.078125,
                                       residual_multiplier=0.22, logits_scaling=0.5), "granite"),
    "gemma": (tf.GemmaConfig, dict(SMALL, head_dim=32), "gemma"),
    "gemma2": (tf.Gemma2Config, dict(SMALL, head_dim=32, query_pre_attn_scalar=32, sliding_window=20,
                                     attn_logit_softcapping=5.0, final_logit_softcapping=3.0), "gemma2"),
    "gemma3": (tf.Gemma3TextConfig, dict(SMALL, num_hidden_layers=7, head_dim=32, query_pre_attn_scalar=32, sliding_window=20,
                                         rope_parameters=dict(
                                             sliding_attention=dict(rope_type="default", rope_theta=10000.0),
                                             full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1000000.0))),
               "gemma3"),
}


# ---- Weights, the same in tests/runtime/model/family_files.cc

def splitmix64(x):
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def weights(name, shape, mean, deviation):
    count = math.prod(shape)
    with np.errstate(over="ignore"):
        bits = splitmix64(np.uint64(fnv1a(name)) + np.arange(count, dtype=np.uint64))
    total = sum((bits >> np.uint64(16 * i) & np.uint64(0xFFFF)).astype(np.int64) for i in range(4))
    values = (mean + deviation * ((total - 131070).astype(np.float64) / 37837.0)).astype(np.float32)
    raw = values.view(np.uint32)
    raw = (raw + np.uint32(0x7FFF) + (raw >> np.uint32(16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return raw.view(np.float32).reshape(shape)


def distribution(name, shape, norms_less_one):
    if name.endswith("bias"):
        return 0.0, 0.25
    if len(shape) == 1:
        return (0.0 if norms_less_one else 1.0), 0.125
    return 0.0, 1.5 / math.sqrt(shape[1])


# ---- GGUF

def gguf_keys(config, arch):
    """As convert_hf_to_gguf.py writes them, without the architecture before each key."""
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    parameters = config.rope_parameters
    full = parameters.get("full_attention", parameters)
    keys = {
        "block_count": config.num_hidden_layers, "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size, "feed_forward_length": config.intermediate_size,
        "attention.head_count": heads, "attention.head_count_kv": config.num_key_value_heads,
        "attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        "rope.freq_base": float(full["rope_theta"]),
    }
    if arch in ("llama", "qwen3", "gemma", "gemma2", "gemma3"):
        keys["attention.key_length"] = keys["attention.value_length"] = head_dim
    if arch in ("llama", "granite", "smollm3"):
        keys["rope.dimension_count"] = head_dim
    if arch == "phi3":
        keys["rope.dimension_count"] = int(parameters.get("partial_rotary_factor", 1.0) * head_dim)
        keys["attention.sliding_window"] = config.sliding_window or 0
    if full["rope_type"] in ("linear", "yarn"):
        keys["rope.scaling.type"] = full["rope_type"]
        keys["rope.scaling.factor"] = float(full["factor"])
    if full["rope_type"] == "yarn":
        keys["rope.scaling.original_context_length"] = full["original_max_position_embeddings"]
    if full["rope_type"] == "longrope":
        original = full["original_max_position_embeddings"]
        keys["rope.scaling.original_context_length"] = original
        keys["rope.scaling.attn_factor"] = math.sqrt(
            1 + math.log(config.max_position_embeddings / original) / math.log(original))
    if arch == "granite":
        keys.update({"attention.scale": config.attention_multiplier, "embedding_scale": config.embedding_multiplier,
                     "residual_scale": config.residual_multiplier, "logit_scale": config.logits_scaling})
    if arch in ("gemma2", "gemma3"):
        keys["attention.sliding_window"] = config.sliding_window
    if arch == "gemma2":
        keys["attn_logit_softcapping"] = float(config.attn_logit_softcapping)
        keys["final_logit_softcapping"] = float(config.final_logit_softcapping)
    return keys


def llama3_factors(config):
    """The converter's table, in its fp32 arithmetic."""
    p, dim = config.rope_parameters, config.head_dim
    freqs = 1.0 / (p["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim))
    low, high = p["low_freq_factor"], p["high_freq_factor"]
    old = p["original_max_position_embeddings"]
    factors = []
    for freq in freqs:
        wavelen = 2 * math.pi / freq
        if wavelen < old / high:
            factors.append(1)
        elif wavelen > old / low:
            factors.append(p["factor"])
        else:
            smooth = (old / wavelen - low) / (high - low)
            factors.append(1 / ((1 - smooth) / p["factor"] + smooth))
    return [float(x) for x in torch.tensor(factors, dtype=torch.float32)]


def gguf_part(config, arch, names, norms_less_one):
    names_of = gguf.get_tensor_name_map(gguf.MODEL_ARCH_NAMES and
                                        {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[arch],
                                        config.num_hidden_layers)
    tensors = {}
    for name in names:
        stem, suffix = name.rsplit(".", 1)
        entry = {"name": names_of.get_name(stem) + "." + suffix}
        interleaved = arch in ("llama", "granite", "smollm3")
        if interleaved and stem.endswith("q_proj"):
            entry["interleaved_heads"] = config.num_attention_heads
        if interleaved and stem.endswith("k_proj"):
            entry["interleaved_heads"] = config.num_key_value_heads
        if norms_less_one and stem.endswith("norm"):
            entry["add"] = 1
        tensors[name] = entry
    part = {"architecture": arch, "keys": gguf_keys(config, arch), "tensors": tensors}
    if config.rope_parameters.get("rope_type") == "llama3":
        part["rope_freqs"] = llama3_factors(config)
    if config.rope_parameters.get("rope_type") == "longrope":
        part["rope_factors_short"] = config.rope_parameters["short_factor"]
        part["rope_factors_long"] = config.rope_parameters["long_factor"]
    return part


# ---- Log-probabilities

def logprobs(model, ids):
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double()
    table = torch.log_softmax(logits, dim=-1)
    return [[float("%.5g" % table[i, t]) for t in (ids[i + 1], FIXED)] for i in range(len(ids) - 1)]


def to_bfloat16(model):
    """As from_pretrained(dtype=bfloat16): weights, but not the frequencies of the rotation."""
    kept = {name: buffer.clone() for name, buffer in model.named_buffers() if "inv_freq" in name}
    model.bfloat16()
    for name, buffer in kept.items():
        owner, _, last = name.rpartition(".")
        setattr(model.get_submodule(owner), last, buffer)
    return model


def make(name, config_class, arguments, arch):
    config = config_class(**arguments, attn_implementation="eager")
    model = tf.AutoModelForCausalLM.from_config(config).eval()
    norms_less_one = name.startswith("gemma")
    state, tensors = {}, []
    tied = config.tie_word_embeddings
    for tensor, value in model.state_dict().items():
        if tied and tensor == "lm_head.weight":
            continue
        mean, deviation = distribution(tensor, value.shape, norms_less_one)
        state[tensor] = torch.from_numpy(weights(tensor, tuple(value.shape), mean, deviation).copy())
        tensors.append({"name": tensor, "shape": list(value.shape), "mean": mean, "deviation": deviation})
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all(m == "lm_head.weight" and tied for m in missing), (missing, unexpected)
    ids = [int(x % np.uint64(VOCAB)) for x in splitmix64(np.uint64(fnv1a(name)) + np.arange(TOKENS, dtype=np.uint64))]
    entry = {"config": json.loads(config.to_json_string(use_diff=True)), "ids": ids,
             "fixed": FIXED, "tensors": tensors,
             "fp32": logprobs(model.float(), ids), "bf16": logprobs(to_bfloat16(model), ids)}
    if arch:
        entry["gguf"] = gguf_part(config, arch, [t["name"] for t in tensors], norms_less_one)
    error = np.abs(np.array(entry["bf16"]) - np.array(entry["fp32"]))
    print("%-18s bf16 against fp32: mean %.5f, largest %.5f" % (name, error.mean(), error.max()), file=sys.stderr)
    return entry


def main():
    torch.manual_seed(0)
    chosen = sys.argv[1:] or MODELS
    json.dump({name: make(name, *MODELS[name]) for name in chosen}, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")


main()
