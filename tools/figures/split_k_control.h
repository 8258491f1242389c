#ifndef ISOBIT_TOOLS_FIGURES_SPLIT_K_CONTROL_H_
#define ISOBIT_TOOLS_FIGURES_SPLIT_K_CONTROL_H_

// What isobit does not do: a backend that chooses the order of its sums by the size of the batch,
// as libraries of matrix products do when a small batch would leave processors without work. The
// sum over K is cut in 4, 2 or 1 parts, each computed as the contract says, and the parts are
// added. For figures only: the command can't make it.

#include <memory>

#include "kernels/ops.h"

namespace isobit {

// Hands everything but linear layers to `backend`, whose memory must be the host's.
std::unique_ptr<Backend> MakeSplitKControl(std::unique_ptr<Backend> backend);

}  // namespace isobit

#endif  // ISOBIT_TOOLS_FIGURES_SPLIT_K_CONTROL_H_
