#include "invariance/guarantee.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace isobit {
namespace {

constexpr std::string_view kX86 = "CPU: AVX-512, AVX2, SSE4, scalar";
constexpr std::string_view kHopper = "GPU: compute capability 9.0";
constexpr std::string_view kBf16 = "bf16";
constexpr std::string_view kFp32 = "fp32";

constexpr auto kPortable = Guarantee::kPortable;
constexpr auto kRefused = Guarantee::kRefused;

constexpr GuaranteeLine kTable[] = {
    {"linear, with bias, residual or SiLU gate", kBf16, kX86, kPortable,
     "tests/kernels/cpu/gemm_test.cc"},
    {"linear, with bias, residual or SiLU gate", kBf16, kHopper, kPortable,
     "tests/kernels/cuda/gemm_test.cc"},
    {"linear, logits", "bf16 to fp32", kX86, kPortable, "tests/kernels/cpu/gemm_test.cc"},
    {"linear, logits", "bf16 to fp32", kHopper, kPortable, "tests/kernels/cuda/gemm_test.cc"},
    {"linear, with scale, GELU gate or soft cap", kBf16, kX86, kPortable,
     "tests/kernels/cpu/gemm_test.cc"},
    {"linear, with scale, GELU gate or soft cap", kBf16, kHopper, kPortable,
     "tests/kernels/cuda/gemm_epilogue_test.cc"},
    {"embedding, with scale", kBf16, kX86, kPortable, "tests/kernels/cpu/embed_test.cc"},
    {"embedding, with scale", kBf16, kHopper, kPortable, "tests/kernels/cuda/embed_test.cc"},
    {"RMSNorm, of rows or heads, with residual", kBf16, kX86, kPortable,
     "tests/kernels/cpu/norm_test.cc"},
    {"RMSNorm, of rows or heads, with residual", kBf16, kHopper, kPortable,
     "tests/kernels/cuda/norm_test.cc"},
    {"rotation and KV write", kBf16, kX86, kPortable, "tests/kernels/cpu/rope_test.cc"},
    {"rotation and KV write", kBf16, kHopper, kPortable, "tests/kernels/cuda/rope_test.cc"},
    {"projection with rotation and KV write", kBf16, kHopper, kPortable,
     "tests/kernels/cuda/qkv_projection_test.cc"},
    {"attention, paged, causal or windowed, with soft cap", kBf16, kX86, kPortable,
     "tests/kernels/cpu/attention_test.cc"},
    {"attention, paged, causal or windowed, with soft cap", kBf16, kHopper, kPortable,
     "tests/kernels/cuda/attention_test.cc"},
    {"log-probabilities", kFp32, kX86, kPortable, "tests/kernels/cpu/score_test.cc"},
    {"log-probabilities", kFp32, kHopper, kPortable, "tests/kernels/cuda/score_test.cc"},
    {"sampling", kFp32, kX86, kPortable, "tests/kernels/cpu/sample_test.cc"},
    {"sampling", kFp32, kHopper, kPortable, "tests/kernels/cuda/sample_test.cc"},
    {"any", "any", "CPU: NEON", kRefused, "tests/invariance/guarantee_test.cc"},
    {"any", "any", "GPU: others", kRefused, "tests/tools/isobit/command_test.cc"},
    {"any", "tensors of other types than those listed above", "any", kRefused,
     "tests/runtime/model/gguf_test.cc"},
};

}  // namespace

const char* GuaranteeName(Guarantee level) {
  switch (level) {
    case Guarantee::kPortable:
      return "portable";
    case Guarantee::kDevice:
      return "device";
    case Guarantee::kRefused:
      return "refused";
  }
  return "";
}

std::span<const GuaranteeLine> GuaranteeTable() { return kTable; }

std::string GuaranteeMarkdown() {
  std::string text = "| operation | type | device | level | proven by |\n|---|---|---|---|---|\n";
  for (const GuaranteeLine& line : kTable) {
    absl::StrAppendFormat(&text, "| %s | %s | %s | %s | `%s` |\n", std::string(line.operation),
                          std::string(line.type), std::string(line.device),
                          GuaranteeName(line.level), std::string(line.proof));
  }
  return text;
}

Guarantee LevelOf(const DeviceInfo& device) {
  if (device.kind == "reference") return Guarantee::kPortable;  // what the others are held against
  std::string_view name;
  if (device.kind == "cuda") {
    // The backend itself refuses every other card, and one whose arithmetic is not the contract's.
    name = kHopper;
  } else if (device.kind == "cpu") {
    name = device.instructions == "neon" ? std::string_view("CPU: NEON") : kX86;
  } else {
    return Guarantee::kRefused;
  }
  Guarantee weakest = Guarantee::kPortable;
  for (const GuaranteeLine& line : kTable) {
    if (line.device == name) weakest = std::max(weakest, line.level);
  }
  return weakest;
}

absl::Status CheckGuarantee(const DeviceInfo& device) {
  if (LevelOf(device) != Guarantee::kRefused) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the bits of ", device.kind, " with ", device.instructions,
                   " have not been proven, so nothing is run on it",
                   device.kind == "cpu" ? "; --cpu-instructions scalar is proven, and slow" : ""));
}

}  // namespace isobit
