#include "kernels/shapes.h"

#include <initializer_list>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/numerics/attention.h"
#include "kernels/numerics/sampling.h"

namespace isobit {
namespace {

constexpr int kPageTokensUnit = 16;
// RMSNorm divides by the width as an fp32 (contract 3).
constexpr int64_t kMaxNormWidth = int64_t{1} << 24;
// The sum of so many softmax weights fits 64 bits (contract 6).
constexpr int64_t kMaxVocab = (int64_t{1} << (64 - kWeightBits)) - 1;

// False if a factor is not positive or the product does not fit.
bool Product(std::initializer_list<int64_t> factors, int64_t* product) {
  *product = 1;
  for (int64_t factor : factors) {
    if (factor <= 0 || __builtin_mul_overflow(*product, factor, product)) return false;
  }
  return true;
}

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be between 1 and ", max, ", got ", value));
}

absl::Status CheckPageTokens(int page_tokens) {
  if (page_tokens > 0 && page_tokens % kPageTokensUnit == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tokens a KV page must be a positive multiple of ",
                                                 kPageTokensUnit, ", got ", page_tokens));
}

}  // namespace

absl::StatusOr<MatrixShape> CheckMatrixParts(std::span<const MatrixSource> parts,
                                             WeightLayout layout) {
  if (parts.empty()) return absl::InvalidArgumentError("a weight needs at least one matrix");
  MatrixShape shape;
  shape.cols = parts[0].cols;
  for (const MatrixSource& part : parts) {
    int64_t bytes;
    if (!Product({part.rows, part.cols, int64_t{sizeof(Bf16)}}, &bytes)) {
      return absl::InvalidArgumentError(absl::StrCat("a weight matrix can't have ", part.rows,
                                                     " rows of ", part.cols, " columns"));
    }
    if (part.cols != shape.cols) {
      return absl::InvalidArgumentError(absl::StrCat(
          "matrices of one weight must be equally wide, got ", shape.cols, " and ", part.cols));
    }
    if (__builtin_add_overflow(shape.rows, part.rows, &shape.rows) ||
        !Product({shape.rows, shape.cols, int64_t{sizeof(Bf16)}}, &bytes)) {
      return absl::InvalidArgumentError("the matrices of a weight together are too large");
    }
  }
  if (layout == WeightLayout::kGateUp && (parts.size() != 2 || parts[0].rows != parts[1].rows)) {
    return absl::InvalidArgumentError("a gate and up weight needs two matrices of equal shape");
  }
  return shape;
}

absl::StatusOr<int64_t> CheckKvCacheShape(const KvCacheShape& shape) {
  if (absl::Status status = CheckPageTokens(shape.page_tokens); !status.ok()) return status;
  int64_t bytes;
  if (!Product({2 * int64_t{sizeof(Bf16)}, shape.layers, shape.kv_heads, shape.head_dim,
                shape.page_tokens, shape.pages},
               &bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a KV cache can't have ", shape.layers, " layers, ", shape.kv_heads, " heads of ",
        shape.head_dim, ", ", shape.pages, " pages of ", shape.page_tokens, " tokens"));
  }
  return bytes;
}

absl::Status CheckModelShape(const ModelShape& shape) {
  constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
  const struct {
    const char* name;
    int64_t value;
    int64_t max;
  } sizes[] = {{"width", shape.width, kMaxNormWidth}, {"ffn_width", shape.ffn_width, kMaxInt},
               {"vocab", shape.vocab, kMaxVocab},     {"heads", shape.heads, kMaxInt},
               {"kv_heads", shape.kv_heads, kMaxInt}, {"head_dim", shape.head_dim, kMaxHeadDim}};
  for (const auto& size : sizes) {
    if (absl::Status s = CheckRange(size.name, size.value, size.max); !s.ok()) return s;
  }
  if (shape.heads % shape.kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("heads must be a multiple of kv_heads, got ",
                                                   shape.heads, " and ", shape.kv_heads));
  }
  return CheckPageTokens(shape.page_tokens);
}

}  // namespace isobit
