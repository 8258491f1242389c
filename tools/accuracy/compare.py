#!/usr/bin/env python3
"""Accuracy of the contract and of PyTorch's bf16 operations against fp64, on the same inputs.

    compare.py DIR [--device cuda] [--why]     DIR as accuracy_results wrote it; needs numpy and torch

Prints the tables of ACCURACY.md; with --why, attention beside models of it in fp64 that round the
probabilities only, in several ways. Inputs are made here from the seeds that accuracy_results uses:
SplitMix64, four of its 16-bit pieces added for a nearly normal number (invariance/random.h).
An error is |result - fp64| divided by the root mean square of the fp64 results of its row (a
head, for attention). The fp64 result starts from the same bf16 inputs and rounds nowhere.
"""

import argparse
import math
import pathlib
import sys

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

GEMM_ROWS, GEMM_COLUMNS, NORM_ROWS = 32, 64, 64
QUERIES, HEADS, KV_HEADS, HEAD_DIM = 64, 4, 2, 64
NORM_EPS = 1e-5
# Ratios of our median and worst error to a rival's. Beside fused attention as ACCURACY.md records
# and explains them, with a little room.
LIMITS = (1.05, 1.25)
FUSED = ("flash", "cuDNN", "efficient")
FUSED_LIMITS = (1.5, 1.4)


def normals(seed, count, scale, shift=0.0):
    """What Normals() of accuracy_results.cc makes, as fp64 holding bf16 values."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, count + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    mask = np.uint64(0xFFFF)
    total = sum(((z >> np.uint64(16 * i)) & mask).astype(np.int64) for i in range(4)) - 2 * 0xFFFF
    normal = total.astype(np.float32) * np.float32(float.fromhex("0x1.bb67aep-16"))
    value = np.float32(scale) * normal + np.float32(shift)
    return torch.from_numpy(value).to(torch.bfloat16)


def read(folder, name, shape):
    bits = np.fromfile(folder / f"{name}.bin", dtype=np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32).astype(np.float64).reshape(shape)


def errors(result, truth):
    scale = np.sqrt(np.mean(truth**2, axis=-1, keepdims=True))
    return np.abs(result - truth) / scale


def as_numpy(tensor):
    return tensor.to(torch.float64).cpu().numpy()


def linear(folder, k, device):
    x = normals(1, GEMM_ROWS * k, 1).reshape(GEMM_ROWS, k)
    w = normals(2, GEMM_COLUMNS * k, np.float32(1) / np.sqrt(np.float32(k))).reshape(GEMM_COLUMNS, k)
    truth = as_numpy(x) @ as_numpy(w).T
    theirs = as_numpy(torch.nn.functional.linear(x.to(device), w.to(device)))
    return errors(read(folder, f"gemm_{k}", truth.shape), truth), {"PyTorch": errors(theirs, truth)}


def norm(folder, width, device):
    x = normals(3, NORM_ROWS * width, 3).reshape(NORM_ROWS, width)
    weight = normals(4, width, 0.1, 1)
    wide = as_numpy(x)
    truth = wide / np.sqrt(np.mean(wide**2, axis=-1, keepdims=True) + NORM_EPS) * as_numpy(weight)
    # As the models' reference implementations write it.
    y = x.to(device, torch.float32)
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + NORM_EPS)
    theirs = as_numpy(weight.to(device) * y.to(torch.bfloat16))
    return errors(read(folder, f"norm_{width}", truth.shape), truth), {"PyTorch": errors(theirs, truth)}


def eager(q, k, v):
    """Attention as the models' reference implementations write it out, in bf16."""
    scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(HEAD_DIM)
    p = torch.nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(torch.bfloat16)
    return torch.matmul(p, v)


def fused(backend):
    def run(q, k, v):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return run


def attention_inputs(keys):
    q = normals(5, QUERIES * HEADS * HEAD_DIM, 2).reshape(1, QUERIES, HEADS, HEAD_DIM).transpose(1, 2)
    k = normals(6, keys * KV_HEADS * HEAD_DIM, 1).reshape(1, keys, KV_HEADS, HEAD_DIM).transpose(1, 2)
    v = normals(7, keys * KV_HEADS * HEAD_DIM, 1).reshape(1, keys, KV_HEADS, HEAD_DIM).transpose(1, 2)
    k, v = (t.repeat_interleave(HEADS // KV_HEADS, dim=1) for t in (k, v))
    scores = as_numpy(q) @ as_numpy(k).transpose(0, 1, 3, 2) / math.sqrt(HEAD_DIM)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return q, k, v, (p / p.sum(-1, keepdims=True)) @ as_numpy(v)


def attention(folder, keys, device):
    """Queries of one sequence, each of which sees all keys."""
    q, k, v, truth = attention_inputs(keys)
    ours = read(folder, f"attention_{keys}", (1, QUERIES, HEADS, HEAD_DIM)).transpose(0, 2, 1, 3)
    rivals = {"eager": eager, "flash": fused(SDPBackend.FLASH_ATTENTION)}
    if device == "cuda":
        rivals["cuDNN"] = fused(SDPBackend.CUDNN_ATTENTION)
        rivals["efficient"] = fused(SDPBackend.EFFICIENT_ATTENTION)
    q, k, v = (t.contiguous().to(device) for t in (q, k, v))
    theirs = {name: errors(as_numpy(rival(q, k, v)), truth) for name, rival in rivals.items()}
    return errors(ours, truth), theirs


def why(folder, keys, device):
    """Everything in fp64 but the grid of the exponent, the rounding of probabilities, and the output's."""
    q, k, v, truth = attention_inputs(keys)
    q, k, v = (t.to(device, torch.float64) for t in (q, k, v))
    c = float(np.float32(math.log2(math.e) / math.sqrt(HEAD_DIM)))
    x = torch.round(q @ k.transpose(-1, -2) * c * 2**13) / 2**13
    bf16 = lambda t: t.to(torch.bfloat16).to(torch.float64)
    exact, capped = torch.exp2(x), torch.exp2(x - x.max(-1, keepdim=True).values)
    models = {
        "as the contract": (bf16(exact), bf16(exact)),
        "maximum subtracted": (bf16(capped), bf16(capped)),
        "and exact row sum": (bf16(capped), capped),
        "exact probabilities": (exact, exact),
    }
    ours = read(folder, f"attention_{keys}", (1, QUERIES, HEADS, HEAD_DIM)).transpose(0, 2, 1, 3)
    return errors(ours, truth), {
        name: errors(as_numpy(bf16(p @ v / row.sum(-1, keepdim=True))), truth) for name, (p, row) in models.items()}


def table(title, case, folder, sizes, device):
    """Prints it and returns the largest ratios of median and of worst errors to each rival."""
    ratios = {}
    for size in sizes:
        ours, theirs = case(folder, size, device)
        if not ratios:
            print(f"\n| {title} | isobit, median | worst | "
                  + " | ".join(f"{name}, median | worst" for name in theirs) + " |")
            print("|---|---|---|" + "---|---|" * len(theirs))
        numbers = [n for e in (ours, *theirs.values()) for n in (np.median(e), e.max())]
        print(f"| {size} | " + " | ".join(f"{1e3 * n:.3f}" for n in numbers) + " |")
        for name, error in theirs.items():
            now = (np.median(ours) / np.median(error), ours.max() / error.max())
            ratios[name] = tuple(map(max, now, ratios.get(name, now)))
    return ratios


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--why", action="store_true")
    options = parser.parse_args()
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"PyTorch {torch.__version__} on {where}; errors in thousandths of the root mean square result.")
    if options.why:
        table("attention, keys", why, options.folder, (128, 1024, 4096, 16384), options.device)
        return 0
    worse = []
    for title, case, sizes in [
        ("linear, K", linear, (576, 1536, 4096, 8192, 16384)),
        ("RMSNorm, width", norm, (576, 2048, 4096, 8192)),
        ("attention, keys", attention, (128, 1024, 4096, 16384, 32768)),
    ]:
        for name, ratios in table(title, case, options.folder, sizes, options.device).items():
            limits = FUSED_LIMITS if name in FUSED else LIMITS
            for kind, ratio, most in zip(("median", "worst"), ratios, limits):
                if ratio > most:
                    worse.append(f"{title}: {ratio:.2f} of {name}'s {kind}, more than {most}")
    print("\n" + "\n".join(worse))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
