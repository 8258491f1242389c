#include "runtime/model/widen.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/model/block_formats.h"
#include "runtime/model/error_text.h"

namespace isobit {
namespace {

using namespace block_format;  // NOLINT: the table below names them all

// The plain types have blocks of one element; a run of them is one "block" here, so that the loop
// inside is long enough to vectorise. Rows need not be a multiple of the run.
constexpr int64_t kRun = 64;

template <typename Format>
void DequantizeAll(const std::byte* src, int64_t n, float* out) {
  constexpr int64_t kStep = Format::kElements == 1 ? kRun : Format::kElements;
  for (int64_t i = 0; i < n; i += kStep) {
    Format::Dequantize(src + i / Format::kElements * Format::kBytes, std::min(kStep, n - i),
                       out + i);
  }
}

template <typename Format>
void WidenAll(const std::byte* src, int64_t n, Bf16* out) {
  constexpr int64_t kStep = Format::kElements == 1 ? kRun : Format::kElements;
  float block[kStep] = {};
  for (int64_t i = 0; i < n; i += kStep) {
    const int64_t count = std::min(kStep, n - i);
    Format::Dequantize(src + i / Format::kElements * Format::kBytes, count, block);
    for (int64_t j = 0; j < count; ++j) out[i + j] = RoundToBf16(block[j]);
  }
}

struct Widener {
  TensorType type;
  void (*dequantize)(const std::byte*, int64_t, float*);
  void (*widen)(const std::byte*, int64_t, Bf16*);
};

template <typename Format>
constexpr Widener For(TensorType type) {
  return {type, &DequantizeAll<Format>, &WidenAll<Format>};
}

constexpr Widener kWideners[] = {
    For<F32>(TensorType::kF32),      For<F16>(TensorType::kF16),
    For<BF16>(TensorType::kBF16),    For<Q4_0>(TensorType::kQ4_0),
    For<Q4_1>(TensorType::kQ4_1),    For<Q5_0>(TensorType::kQ5_0),
    For<Q5_1>(TensorType::kQ5_1),    For<Q8_0>(TensorType::kQ8_0),
    For<Q2_K>(TensorType::kQ2_K),    For<Q3_K>(TensorType::kQ3_K),
    For<Q4_K>(TensorType::kQ4_K),    For<Q5_K>(TensorType::kQ5_K),
    For<Q6_K>(TensorType::kQ6_K),    For<IQ4_NL>(TensorType::kIq4Nl),
    For<IQ4_XS>(TensorType::kIq4Xs), For<MXFP4>(TensorType::kMxfp4),
};

const Widener* Find(TensorType type) {
  for (const Widener& widener : kWideners) {
    if (widener.type == type) return &widener;
  }
  return nullptr;
}

}  // namespace

absl::Status CheckWidenable(TensorType type) {
  if (Find(type) != nullptr) return absl::OkStatus();
  std::string known;
  for (const Widener& widener : kWideners) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", Absl(NameOf(widener.type)));
  }
  return absl::UnimplementedError(absl::StrCat("element type ", Absl(NameOf(type)),
                                               " is not supported (supported: ", known, ")"));
}

void WidenRow(TensorType type, const std::byte* src, int64_t n, Bf16* out) {
  Find(type)->widen(src, n, out);
}

void DequantizeRow(TensorType type, const std::byte* src, int64_t n, float* out) {
  Find(type)->dequantize(src, n, out);
}

}  // namespace isobit
