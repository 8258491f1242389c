#ifndef ISOBIT_KERNELS_CPU_ROPE_H_
#define ISOBIT_KERNELS_CPU_ROPE_H_

#include "kernels/cpu/context.h"
#include "kernels/ops.h"

namespace isobit {

// Bit-equal to RmsNormRow and RotateHead of kernels/numerics. The cache is a CpuKvCache. Returns
// when queries and cache are written.
void RunRopeKvWrite(CpuContext& context, const RopeKvWrite& op);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_ROPE_H_
