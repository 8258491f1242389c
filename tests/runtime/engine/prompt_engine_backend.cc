#include "kernels/backends.h"
#include "tests/runtime/engine/engine_backend.h"

namespace isobit {

std::unique_ptr<Backend> CreateEngineBackend() { return CreateReferenceBackend(); }

}  // namespace isobit
