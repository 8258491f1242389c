#include "kernels/cpu/instructions.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "hwy/highway.h"

namespace isobit {

std::vector<InstructionSet> AvailableInstructionSets() {
  const std::vector<InstructionSet> sets = {
#if HWY_ARCH_X86
    {"avx512", HWY_AVX3_DL | HWY_AVX3},
    {"avx2", HWY_AVX2},
    {"sse4", HWY_SSE4},
#elif HWY_ARCH_ARM
    {"neon", HWY_NEON},
#endif
  };
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  std::vector<InstructionSet> available;
  for (const InstructionSet& set : sets) {
    if ((set.targets & usable) != 0) available.push_back({set.name, set.targets & usable});
  }
  // Without a bit set, dispatch takes Highway's plain C++ target.
  available.push_back({"scalar", 0});
  return available;
}

absl::StatusOr<InstructionSet> FindInstructionSet(const std::string& name) {
  const std::vector<InstructionSet> available = AvailableInstructionSets();
  if (name == "auto") return available.front();
  for (const InstructionSet& set : available) {
    if (set.name == name) return set;
  }
  const auto append_name = [](std::string* out, const InstructionSet& set) { *out += set.name; };
  return absl::InvalidArgumentError(absl::StrCat("instructions \"", name,
                                                 "\" are not available here; there are: auto, ",
                                                 absl::StrJoin(available, ", ", append_name)));
}

}  // namespace isobit
