#ifndef ISOBIT_KERNELS_CPU_GEMM_EPILOGUE_H_
#define ISOBIT_KERNELS_CPU_GEMM_EPILOGUE_H_

// What happens to finished accumulators (Gemm::Epilogue). Runs in the usual rounding mode.

#include <cstdint>

#include "kernels/cpu/context.h"
#include "kernels/ops.h"

namespace isobit {

// Writes the outputs of one row that come from one panel's 32 accumulators.
using GemmEpilogue = void (*)(const Gemm& op, int64_t row, int64_t panel, const float* acc);

GemmEpilogue SelectGemmEpilogue(const CpuContext& context, Gemm::Epilogue epilogue);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_GEMM_EPILOGUE_H_
