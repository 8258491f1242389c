#ifndef ISOBIT_RUNTIME_API_C_STATUS_H_
#define ISOBIT_RUNTIME_API_C_STATUS_H_

// From absl::Status, and from exceptions, to status codes and the message of the thread.

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "runtime/api/c/isobit.h"

namespace isobit::c {

// Keeps the message, unless the status is OK, and gives back the code.
isobit_status Report(const absl::Status& status);
isobit_status Report(isobit_status code, const char* message);

// Runs the body of a function of the C interface, which returns an absl::Status or an
// isobit_status that was reported. Nothing is thrown beyond it.
template <typename Body>
isobit_status Guard(const Body& body) {
  try {
    if constexpr (requires { absl::Status(body()); }) {
      return Report(body());
    } else {
      return body();
    }
  } catch (const std::bad_alloc&) {
    return Report(ISOBIT_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::exception& error) {
    return Report(ISOBIT_INTERNAL, error.what());
  }
}

// OK, or that an argument must not be NULL.
absl::Status NotNull(const void* pointer, const char* name);

}  // namespace isobit::c

#endif  // ISOBIT_RUNTIME_API_C_STATUS_H_
