#!/usr/bin/env python3
"""Times PyTorch's attention (cuDNN, and FlashAttention-2) on the shapes of attention_bench.cc.

Keys and values are contiguous here and paged there. CUDA graphs of several layers, medians.

usage: attention_rival.py [ROUNDS]
"""

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

# name, sequences, context, rows, heads, key heads, head size
SHAPES = [
    ("decode 1x1024", 1, 1024, 1, 32, 8, 128),
    ("decode 1x1080", 1, 1080, 1, 32, 8, 128),
    ("decode 1x4096", 1, 4096, 1, 32, 8, 128),
    ("decode 1x8192", 1, 8192, 1, 32, 8, 128),
    ("decode 1x32768", 1, 32768, 1, 32, 8, 128),
    ("decode 8x1080", 8, 1080, 1, 32, 8, 128),
    ("decode 8x4096", 8, 4096, 1, 32, 8, 128),
    ("decode 64x4096", 64, 4096, 1, 32, 8, 128),
    ("decode 64x1024", 64, 1024, 1, 32, 8, 128),
    ("decode 64x1080", 64, 1080, 1, 32, 8, 128),
    ("decode 64x4096 d=64", 64, 4096, 1, 32, 8, 64),
    ("prefill 1x4096", 1, 4096, 4096, 32, 8, 128),
    ("prefill 4x4096", 4, 4096, 4096, 32, 8, 128),
    ("prefill 1x16384", 1, 16384, 16384, 32, 8, 128),
    ("prefill 1x4096 64/8", 1, 4096, 4096, 64, 8, 128),
    ("prefill 1x16384 64/8", 1, 16384, 16384, 64, 8, 128),
    ("prefill 1x4096 d=64", 1, 4096, 4096, 32, 8, 64),
    ("prefill 1x16384 d=64", 1, 16384, 16384, 32, 8, 64),
    ("prefill 1x4096 d=256", 1, 4096, 4096, 16, 4, 256),
    ("prefill 1x16384 d=256", 1, 16384, 16384, 16, 4, 256),
]


def tensor(sequences, heads, length, dim, rows_first):
    if rows_first:  # [sequence][position][head][dim], as a projection writes it
        return torch.randn(sequences, length, heads, dim, device="cuda",
                           dtype=torch.bfloat16).transpose(1, 2)
    return torch.randn(sequences, heads, length, dim, device="cuda", dtype=torch.bfloat16)


def time_shape(shape, backend, rows_first, rounds):
    _, sequences, context, rows, heads, kv_heads, dim = shape
    kv_bytes = 4 * sequences * context * kv_heads * dim
    layers = max(2, min(32, (400 << 20) // kv_bytes))
    q = tensor(sequences, heads, rows, dim, rows_first)
    kv = [(tensor(sequences, kv_heads, context, dim, rows_first),
           tensor(sequences, kv_heads, context, dim, rows_first)) for _ in range(layers)]

    def run():
        for k, v in kv:
            scaled_dot_product_attention(q, k, v, is_causal=rows > 1, enable_gqa=True)

    with sdpa_kernel(backend), torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        times = []
        for i in range(rounds + 2):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if i >= 2:
                times.append(1000 * begin.elapsed_time(end) / layers)
    return sorted(times)[len(times) // 2]


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    for shape in SHAPES:
        results = []
        for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION),
                              ("fa2", SDPBackend.FLASH_ATTENTION)):
            best = None
            for rows_first in (False, True):
                try:
                    t = time_shape(shape, backend, rows_first, rounds)
                    best = t if best is None else min(best, t)
                except RuntimeError:
                    continue
            results.append(f"{name} {best:10.2f} us" if best else f"{name}          -")
        print(f"{shape[0]:32s} " + "  ".join(results), flush=True)


main()
