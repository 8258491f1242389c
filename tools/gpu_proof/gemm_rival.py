#!/usr/bin/env python3
"""Times a persistent matrix product in Triton without split-K beside PyTorch's (cuBLAS).

That is how engines that promise batch invariance commonly get it: one tile shape (128 x 128 x 64, 8
warps, 3 stages) for every batch, each output one loop over k. Shapes of Llama-3.1-8B. CUDA graphs of
several calls on weights that L2 does not hold, which take turns; medians.

usage: gemm_rival.py [ROUNDS]
"""

import sys

import torch
import triton
import triton.language as tl

SHAPES = [("qkv", 6144, 4096), ("o", 4096, 4096), ("gate_up", 28672, 4096), ("down", 4096, 14336)]
ROWS = [1, 8, 64, 128, 256, 1024, 4096]
COLD_BYTES = 500_000_000


@triton.jit
def matmul_kernel(x_ptr, w_ptr, y_ptr, rows, n, k, ctas, tile_rows: tl.constexpr,
                  tile_cols: tl.constexpr, tile_k: tl.constexpr, band: tl.constexpr):
    """y[rows][n] = x[rows][k] w[n][k]^T. Tiles go round robin; k is a multiple of tile_k."""
    row_tiles = tl.cdiv(rows, tile_rows)
    col_tiles = tl.cdiv(n, tile_cols)
    tiles_per_band = band * col_tiles
    steps = tl.arange(0, tile_k)
    for tile in range(tl.program_id(0), row_tiles * col_tiles, ctas):
        first = tile // tiles_per_band * band
        width = min(row_tiles - first, band)
        in_band = tile % tiles_per_band
        row = (first + in_band % width) * tile_rows + tl.arange(0, tile_rows)
        col = in_band // width * tile_cols + tl.arange(0, tile_cols)
        x = x_ptr + tl.where(row < rows, row, 0)[:, None] * k + steps[None, :]
        w = w_ptr + tl.where(col < n, col, 0)[None, :] * k + steps[:, None]
        total = tl.zeros((tile_rows, tile_cols), dtype=tl.float32)
        for begin in range(0, k, tile_k):
            total = tl.dot(tl.load(x + begin), tl.load(w + begin), total)
        y = y_ptr + row[:, None] * n + col[None, :]
        tl.store(y, total.to(tl.bfloat16), mask=(row < rows)[:, None] & (col < n)[None, :])


def triton_matmul(x, w, y):
    ctas = torch.cuda.get_device_properties(0).multi_processor_count
    tiles = triton.cdiv(x.shape[0], 128) * triton.cdiv(w.shape[0], 128)
    ctas = min(ctas, tiles)
    matmul_kernel[(ctas,)](x, w, y, x.shape[0], w.shape[0], x.shape[1], ctas, tile_rows=128,
                           tile_cols=128, tile_k=64, band=8, num_warps=8, num_stages=3)


def torch_matmul(x, w, y):
    torch.matmul(x, w.T, out=y)


def capture(matmul, x, weights, y):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        matmul(x, weights[0], y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for w in weights:
            matmul(x, w, y)
    return graph


def time_shape(n, k, rows, rounds):
    copies = max(2, min(16, COLD_BYTES // (2 * n * k)))
    weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
    x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
    y = torch.empty(rows, n, device="cuda", dtype=torch.bfloat16)
    graphs = [capture(matmul, x, weights, y) for matmul in (torch_matmul, triton_matmul)]
    times = [[], []]
    for _ in range(rounds):
        for graph, seen in zip(graphs, times):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            seen.append(1000 * begin.elapsed_time(end) / copies)
    return [sorted(seen)[len(seen) // 2] for seen in times]


def check():
    """The kernel is a product at all."""
    x = torch.randn(200, 256, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(300, 256, device="cuda", dtype=torch.bfloat16)
    y = torch.empty(200, 300, device="cuda", dtype=torch.bfloat16)
    triton_matmul(x, w, y)
    torch.testing.assert_close(y, x @ w.T, rtol=0.02, atol=0.2)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    check()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Triton {triton.__version__}")
    for name, n, k in SHAPES:
        for rows in ROWS:
            cublas, persistent = time_shape(n, k, rows, rounds)
            print(f"{name:8s} M={rows:<5d} cuBLAS {cublas:9.2f} us  Triton {persistent:9.2f} us  "
                  f"{persistent / cublas:5.2f} times as long", flush=True)


main()
