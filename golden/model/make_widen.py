#!/usr/bin/env python3
"""Makes widen.json: rows of stored weights and what the PyPI package `gguf` dequantises them to.

usage: python3 make_widen.py > widen.json     (pip install gguf==0.19.0)

Random bytes with random fp16 scales, then blocks whose scales are odd: zeros of both signs,
subnormals, the largest and smallest numbers, infinities, NaN. Values are hex of little-endian
bytes; a NaN is written as 7fffffff whatever its sign and payload.
"""
import json
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

# Where fp16 scales lie in a block (MXFP4 has a byte of exponent, which is random).
SCALES = {T.F32: [], T.F16: [], T.BF16: [], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q8_0: [0], T.Q6_K: [208],
          T.Q5_0: [0], T.Q5_1: [0, 2], T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2],
          T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: []}
ODD = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00,
       0x7E00, 0x7C01, 0x1234, 0x2E66]


def main():
    rng = np.random.default_rng(20240607)
    cases = []
    for kind, scales in SCALES.items():
        elements, size = GGML_QUANT_SIZES[kind]
        if elements == 1:
            blocks = rng.integers(0, 256, (1, 300 * size), dtype=np.uint8)
            odd = {2: np.array(ODD, "<u2"), 4: np.array(
                [0, 0x80000000, 1, 0x807FFFFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0x3F808000, 0x3F818000], "<u4")}[size]
            odd = odd.view(np.uint8).reshape(1, -1)
            blocks = np.concatenate([blocks, odd], axis=1)
        else:
            count = len(ODD) + (8 if elements == 32 else 2)
            blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
            for b in range(count):
                for place, at in enumerate(scales):
                    usual = np.float16(rng.normal() * 0.05).view(np.uint16)
                    value = ODD[(b + 5 * place) % len(ODD)] if b < len(ODD) else int(usual)
                    blocks[b, at:at + 2] = [value & 255, value >> 8]
            blocks = blocks.reshape(1, -1)
        with np.errstate(all="ignore"):
            if kind in (T.F32, T.F16):  # the package knows these only as views
                values = blocks.view("<f4" if kind == T.F32 else "<f2").astype(np.float32)
            else:
                values = dequantize(blocks, kind)
        bits = values.reshape(-1).astype("<f4").view("<u4").copy()
        bits[np.isnan(values.reshape(-1))] = 0x7FFFFFFF
        cases.append({"type": kind.name, "stored": blocks.tobytes().hex(), "fp32": bits.tobytes().hex()})
    json.dump(cases, sys.stdout, indent=0)
    sys.stdout.write("\n")


main()
