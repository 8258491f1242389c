#!/usr/bin/env python3
"""Accuracy of the contract and of PyTorch's bf16 operations against fp64, on the same inputs.

    compare.py DIR      DIR as accuracy_results wrote it; needs numpy and torch

Prints the table of ACCURACY.md. Inputs are made here from the seeds that accuracy_results uses:
SplitMix64, four of its 16-bit pieces added for a nearly normal number (invariance/random.h).
An error is |result - fp64| divided by the root mean square of the fp64 results of its row (a
head, for attention). The fp64 result starts from the same bf16 inputs and rounds nowhere.
"""

import math
import pathlib
import sys

import numpy as np
import torch

GEMM_ROWS, GEMM_COLUMNS, NORM_ROWS = 32, 64, 64
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 64
NORM_EPS = 1e-5


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
    return tensor.to(torch.float64).numpy()


def linear(folder, k):
    x = normals(1, GEMM_ROWS * k, 1).reshape(GEMM_ROWS, k)
    w = normals(2, GEMM_COLUMNS * k, np.float32(1) / np.sqrt(np.float32(k))).reshape(GEMM_COLUMNS, k)
    truth = as_numpy(x) @ as_numpy(w).T
    theirs = as_numpy(torch.nn.functional.linear(x, w))
    return errors(read(folder, f"gemm_{k}", truth.shape), truth), errors(theirs, truth)


def norm(folder, width):
    x = normals(3, NORM_ROWS * width, 3).reshape(NORM_ROWS, width)
    weight = normals(4, width, 0.1, 1)
    wide = as_numpy(x)
    truth = wide / np.sqrt(np.mean(wide**2, axis=-1, keepdims=True) + NORM_EPS) * as_numpy(weight)
    # As the models' reference implementations write it.
    y = x.to(torch.float32)
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + NORM_EPS)
    theirs = as_numpy(weight * y.to(torch.bfloat16))
    return errors(read(folder, f"norm_{width}", truth.shape), truth), errors(theirs, truth)


def attention(folder, keys):
    q = normals(5, HEADS * HEAD_DIM, 2).reshape(1, HEADS, 1, HEAD_DIM)
    k = normals(6, keys * KV_HEADS * HEAD_DIM, 1).reshape(1, keys, KV_HEADS, HEAD_DIM).transpose(1, 2)
    v = normals(7, keys * KV_HEADS * HEAD_DIM, 1).reshape(1, keys, KV_HEADS, HEAD_DIM).transpose(1, 2)
    k, v = (t.repeat_interleave(HEADS // KV_HEADS, dim=1) for t in (k, v))
    scores = as_numpy(q) @ as_numpy(k).transpose(0, 1, 3, 2) / math.sqrt(HEAD_DIM)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    truth = (p / p.sum(-1, keepdims=True)) @ as_numpy(v)
    theirs = as_numpy(torch.nn.functional.scaled_dot_product_attention(q, k, v))
    return errors(read(folder, f"attention_{keys}", truth.shape), truth), errors(theirs, truth)


def main():
    folder = pathlib.Path(sys.argv[1])
    print(f"| operation | | isobit, median | worst | PyTorch {torch.__version__.split('+')[0]}, median | worst |")
    print("|---|---|---|---|---|---|")
    worse = []
    cases = [(linear, "linear, K =", n) for n in (576, 1536, 4096, 8192, 16384)]
    cases += [(norm, "RMSNorm, width", n) for n in (576, 2048, 4096, 8192)]
    cases += [(attention, "attention, keys", n) for n in (128, 1024, 4096, 16384, 32768)]
    for case, name, size in cases:
        ours, theirs = case(folder, size)
        numbers = [np.median(ours), ours.max(), np.median(theirs), theirs.max()]
        print(f"| {name} | {size} | " + " | ".join(f"{1e3 * n:.3f}" for n in numbers) + " |")
        if numbers[0] > 1.05 * numbers[2] or numbers[1] > 1.25 * numbers[3]:
            worse.append(f"{name} {size}")
    print("\nErrors in thousandths of the root mean square result.")
    if worse:
        print("Worse than PyTorch's: " + ", ".join(worse))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
