#include "runtime/model/tensor_type.h"

#include <algorithm>
#include <iterator>

namespace isobit {
namespace {

// Block shapes as in ggml's type traits; ordered by number.
constexpr TensorTypeInfo kTypes[] = {
    {TensorType::kF32, "F32", 1, 4},
    {TensorType::kF16, "F16", 1, 2},
    {TensorType::kQ4_0, "Q4_0", 32, 18},
    {TensorType::kQ4_1, "Q4_1", 32, 20},
    {TensorType::kQ5_0, "Q5_0", 32, 22},
    {TensorType::kQ5_1, "Q5_1", 32, 24},
    {TensorType::kQ8_0, "Q8_0", 32, 34},
    {TensorType::kQ8_1, "Q8_1", 32, 36},
    {TensorType::kQ2_K, "Q2_K", 256, 84},
    {TensorType::kQ3_K, "Q3_K", 256, 110},
    {TensorType::kQ4_K, "Q4_K", 256, 144},
    {TensorType::kQ5_K, "Q5_K", 256, 176},
    {TensorType::kQ6_K, "Q6_K", 256, 210},
    {TensorType::kQ8_K, "Q8_K", 256, 292},
    {TensorType::kIq2Xxs, "IQ2_XXS", 256, 66},
    {TensorType::kIq2Xs, "IQ2_XS", 256, 74},
    {TensorType::kIq3Xxs, "IQ3_XXS", 256, 98},
    {TensorType::kIq1S, "IQ1_S", 256, 50},
    {TensorType::kIq4Nl, "IQ4_NL", 32, 18},
    {TensorType::kIq3S, "IQ3_S", 256, 110},
    {TensorType::kIq2S, "IQ2_S", 256, 82},
    {TensorType::kIq4Xs, "IQ4_XS", 256, 136},
    {TensorType::kI8, "I8", 1, 1},
    {TensorType::kI16, "I16", 1, 2},
    {TensorType::kI32, "I32", 1, 4},
    {TensorType::kI64, "I64", 1, 8},
    {TensorType::kF64, "F64", 1, 8},
    {TensorType::kIq1M, "IQ1_M", 256, 56},
    {TensorType::kBF16, "BF16", 1, 2},
    {TensorType::kTq1_0, "TQ1_0", 256, 54},
    {TensorType::kTq2_0, "TQ2_0", 256, 66},
    {TensorType::kMxfp4, "MXFP4", 32, 17},
    {TensorType::kNvfp4, "NVFP4", 64, 36},
    {TensorType::kQ1_0, "Q1_0", 128, 18},
};

}  // namespace

const TensorTypeInfo* FindTensorType(uint32_t number) {
  const auto* found = std::lower_bound(std::begin(kTypes), std::end(kTypes), number,
                                       [](const TensorTypeInfo& info, uint32_t wanted) {
                                         return static_cast<uint32_t>(info.type) < wanted;
                                       });
  if (found == std::end(kTypes) || static_cast<uint32_t>(found->type) != number) return nullptr;
  return found;
}

const TensorTypeInfo& InfoOf(TensorType type) {
  return *FindTensorType(static_cast<uint32_t>(type));
}

std::optional<int64_t> RowBytes(const TensorTypeInfo& info, int64_t n) {
  if (n < 0 || n % info.block_elements != 0) return std::nullopt;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(n / info.block_elements, info.block_bytes, &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace isobit
