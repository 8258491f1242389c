#!/usr/bin/env python3
"""Writes wgmma_shapes.h: inline PTX needs one operand a register, so each N is its own function.

Usage: wgmma_generate.py > wgmma_shapes.h
"""

SHAPES = (16, 32, 48, 64, 96, 112, 128, 144, 160, 192, 224, 256)

HEAD = """\
#ifndef ISOBIT_KERNELS_CUDA_SM90_WGMMA_SHAPES_H_
#define ISOBIT_KERNELS_CUDA_SM90_WGMMA_SHAPES_H_

// Written by wgmma_generate.py; change that instead. wgmma.h says what these functions are.

#include <cstdint>

namespace isobit::sm90 {

// clang-format off
"""

TAIL = """\
// clang-format on

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_WGMMA_SHAPES_H_
"""


def lines(items, per_line, indent):
    rows = [items[i:i + per_line] for i in range(0, len(items), per_line)]
    return (",\n" + indent).join(", ".join(row) for row in rows)


def function(n):
    count = n // 2
    registers = [f"%{i}" for i in range(count)]
    rows = [", ".join(registers[i:i + 16]) for i in range(0, count, 16)]
    quoted = ",\"\n      \"".join(rows)
    outputs = lines([f'"+f"(d[{i}])' for i in range(count)], 8, "        ")
    return f"""\
__device__ inline void WgmmaBf16(float (&d)[{count}], uint64_t a, uint64_t b, uint32_t accumulate) {{
  asm volatile(
      "{{\\n"
      ".reg .pred p;\\n"
      "setp.ne.b32 p, %{count + 2}, 0;\\n"
      "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{"
      "{quoted}}},"
      " %{count}, %{count + 1}, p, 1, 1, 0, 0;\\n"
      "}}\\n"
      : {outputs}
      : "l"(a), "l"(b), "r"(accumulate));
}}
"""


print(HEAD + "\n".join(function(n) for n in SHAPES) + TAIL, end="")
