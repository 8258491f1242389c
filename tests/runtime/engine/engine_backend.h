#ifndef ISOBIT_TESTS_RUNTIME_ENGINE_ENGINE_BACKEND_H_
#define ISOBIT_TESTS_RUNTIME_ENGINE_ENGINE_BACKEND_H_

#include <memory>

#include "kernels/ops.h"

namespace isobit {

// What the tests of the engine run on. It is linked in: each backend makes a program of its own.
std::unique_ptr<Backend> CreateEngineBackend();

}  // namespace isobit

#endif  // ISOBIT_TESTS_RUNTIME_ENGINE_ENGINE_BACKEND_H_
