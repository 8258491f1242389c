#ifndef ISOBIT_TESTS_INVARIANCE_POISONED_BACKEND_H_
#define ISOBIT_TESTS_INVARIANCE_POISONED_BACKEND_H_

// A backend in whose memory nothing is ever accidentally right.

#include <cstdint>
#include <memory>

#include "kernels/ops.h"

namespace isobit {

// Wraps a backend. Memory is full of NaN when it is allocated, KV pages included. Before every
// forward pass (its Embed), so is all memory that was never uploaded to: the workspace, with the
// results of the step before. `poisoned_bytes` counts what was filled then.
std::unique_ptr<Backend> MakePoisonedBackend(std::unique_ptr<Backend> inner,
                                             int64_t* poisoned_bytes);

}  // namespace isobit

#endif  // ISOBIT_TESTS_INVARIANCE_POISONED_BACKEND_H_
