#ifndef ISOBIT_KERNELS_CPU_NORM_H_
#define ISOBIT_KERNELS_CPU_NORM_H_

#include "kernels/cpu/context.h"
#include "kernels/ops.h"

namespace isobit {

// Bit-equal to RmsNormRow and WideNormRow of kernels/numerics/row_sum.h. Returns when the output is written.
void RunRmsNorm(CpuContext& context, const RmsNorm& op);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_NORM_H_
