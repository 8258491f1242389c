#ifndef ISOBIT_KERNELS_CPU_INSTRUCTIONS_H_
#define ISOBIT_KERNELS_CPU_INSTRUCTIONS_H_

// The instruction sets of the CPU backend by name.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace isobit {

struct InstructionSet {
  std::string name;     // as CpuOptions::instructions has it
  int64_t targets = 0;  // Highway targets, for CpuContext
};

// The sets that this processor and this build have, best first; "scalar" always is the last.
std::vector<InstructionSet> AvailableInstructionSets();

// "auto" is the best. InvalidArgument names the available sets if `name` is not one of them.
absl::StatusOr<InstructionSet> FindInstructionSet(const std::string& name);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_INSTRUCTIONS_H_
