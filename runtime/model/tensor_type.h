#ifndef ISOBIT_RUNTIME_MODEL_TENSOR_TYPE_H_
#define ISOBIT_RUNTIME_MODEL_TENSOR_TYPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace isobit {

// Element types of stored tensors, with the numbers that GGUF gives them. A file may hold any of
// these; which ones can be computed with is asked of CheckWidenable (widen.h).
enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIq2Xxs = 16,
  kIq2Xs = 17,
  kIq3Xxs = 18,
  kIq1S = 19,
  kIq4Nl = 20,
  kIq3S = 21,
  kIq2S = 22,
  kIq4Xs = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIq1M = 29,
  kBF16 = 30,
  kTq1_0 = 34,
  kTq2_0 = 35,
  kMxfp4 = 39,
  kNvfp4 = 40,
  kQ1_0 = 41,
};

// Quantised types store `block_elements` consecutive elements of a row in `block_bytes` bytes;
// plain types have blocks of one element.
struct TensorTypeInfo {
  TensorType type;
  std::string_view name;
  int64_t block_elements;
  int64_t block_bytes;
};

// The type with GGUF number `number`, or null if there is none that we know.
const TensorTypeInfo* FindTensorType(uint32_t number);

// As above for a type that is known to exist (any enumerator).
const TensorTypeInfo& InfoOf(TensorType type);

inline std::string_view NameOf(TensorType type) { return InfoOf(type).name; }

// Bytes of a row of `n` elements; nothing if `n` is negative, no multiple of the block, or the
// size does not fit int64_t.
std::optional<int64_t> RowBytes(const TensorTypeInfo& info, int64_t n);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_TENSOR_TYPE_H_
