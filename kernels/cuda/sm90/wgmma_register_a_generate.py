#!/usr/bin/env python3
"""Writes wgmma_register_a.h: inline PTX needs one operand a register, so each N is its own function.

Usage: wgmma_register_a_generate.py > wgmma_register_a.h
"""

# Columns of D where B has n contiguous, and where it has k contiguous.
N_CONTIGUOUS_SHAPES = (72, 128, 136)
K_CONTIGUOUS_SHAPES = (64,)

HEAD = """\
#ifndef ISOBIT_KERNELS_CUDA_SM90_WGMMA_REGISTER_A_H_
#define ISOBIT_KERNELS_CUDA_SM90_WGMMA_REGISTER_A_H_

// Written by wgmma_register_a_generate.py; change that instead.
//
// wgmma with A in registers: D[64][N] = D + A[64][16] B[16][N]. Each element is one Dot16 step
// (contract 1).
//
// A's fragment is that of mma.sync m16n8k16 (mma.h) for the 16 rows of the calling warp; D's is that
// of wgmma.h. B of WgmmaRegisterA is stored with n contiguous, as attention multiplies probabilities
// with values: in atoms of 8 k and 64 columns, rows (k) of 128 bytes, chunks permuted as in wgmma.h.
// B of WgmmaRegisterAByRows is stored with k contiguous, as queries meet keys: as in wgmma.h.

#include <cstdint>

namespace isobit::sm90 {

// The descriptor of an operand in atoms of 8 rows of 128 bytes, aligned to 1024, whichever way it is
// stored. rows_bytes: from 8 rows to the next 8. columns_bytes: from 64 columns to the next, for
// operands stored with n contiguous; the others are moved on by adding to the descriptor, which
// counts in units of 16 bytes.
__device__ inline uint64_t WgmmaAtomsDescriptor(uint32_t address, uint32_t rows_bytes,
                                                uint32_t columns_bytes) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return kSwizzle128 | uint64_t{rows_bytes / 16} << 32 | uint64_t{columns_bytes / 16} << 16 |
         ((address & 0x3ffff) >> 4);
}

// clang-format off
"""

TAIL = """\
// clang-format on

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_WGMMA_REGISTER_A_H_
"""


def lines(items, per_line, indent):
    rows = [items[i:i + per_line] for i in range(0, len(items), per_line)]
    return (",\n" + indent).join(", ".join(row) for row in rows)


def function(name, n, n_contiguous):
    count = n // 2
    registers = [f"%{i}" for i in range(count)]
    rows = [", ".join(registers[i:i + 16]) for i in range(0, count, 16)]
    quoted = ",\"\n      \"".join(rows)
    outputs = lines([f'"+f"(d[{i}])' for i in range(count)], 8, "        ")
    a = ", ".join(f"%{count + i}" for i in range(4))
    return f"""\
__device__ inline void {name}(float (&d)[{count}], const uint32_t (&a)[4], uint64_t b, uint32_t accumulate) {{
  asm volatile(
      "{{\\n"
      ".reg .pred p;\\n"
      "setp.ne.b32 p, %{count + 5}, 0;\\n"
      "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{"
      "{quoted}}},"
      " {{{a}}}, %{count + 4}, p, 1, 1, {n_contiguous};\\n"
      "}}\\n"
      : {outputs}
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}}
"""


functions = [function("WgmmaRegisterA", n, 1) for n in N_CONTIGUOUS_SHAPES]
functions += [function("WgmmaRegisterAByRows", n, 0) for n in K_CONTIGUOUS_SHAPES]
print(HEAD + "\n".join(functions) + TAIL, end="")
