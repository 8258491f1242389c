#include "tests/late_backend.h"
#include "tests/runtime/engine/engine_backend.h"

namespace isobit {

std::unique_ptr<Backend> CreateEngineBackend() { return std::make_unique<LateBackend>(); }

}  // namespace isobit
