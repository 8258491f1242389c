#ifndef ISOBIT_KERNELS_HOST_H_
#define ISOBIT_KERNELS_HOST_H_

// What this machine, and the container around the process, let a backend use: processors and
// memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace isobit {

struct HostLimits {
  std::string processor;        // model name, for people
  int processors = 1;           // this process may run on: affinity and CPU quota, at least 1
  int64_t memory_bytes = 0;     // total: of the machine, or the memory limit if that is lower
  int64_t available_bytes = 0;  // free now, in the machine and under the memory limit
};

// Reads /proc and the control groups (version 1 and 2) of this process and of all groups around it.
// What can't be read limits nothing. root: where proc/ and sys/ are, for tests.
HostLimits ReadHostLimits(const std::string& root = "/");

// Uninitialised memory, aligned to 64 bytes; large blocks are aligned to huge pages and ask for
// them. ResourceExhausted if it is more than what is available now. Pages that were handed out but
// never written still count as available, as the system counts them.
absl::StatusOr<std::unique_ptr<Buffer>> AllocateHostBuffer(size_t bytes);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_HOST_H_
