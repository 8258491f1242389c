#ifndef ISOBIT_KERNELS_CPU_EMBED_H_
#define ISOBIT_KERNELS_CPU_EMBED_H_

#include "kernels/cpu/context.h"
#include "kernels/ops.h"

namespace isobit {

// Gathers rows of a PackedWeight. Returns when the output is written.
void RunEmbed(CpuContext& context, const Embed& op);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_EMBED_H_
