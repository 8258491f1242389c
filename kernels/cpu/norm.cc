#include "kernels/cpu/norm.h"

#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

void NormRow(const Bf16* x, const Bf16* weight, int64_t n, float eps, Bf16* out) {
  RmsNormRowSimd(x, weight, n, eps, out);
}

void WideRow(const Bf16* x, const float* weight, int64_t n, float eps, const Bf16* residual,
             Bf16* out) {
  WideNormRowSimd(x, weight, n, eps, residual, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isobit {

HWY_EXPORT(NormRow);
HWY_EXPORT(WideRow);

void RunRmsNorm(CpuContext& context, const RmsNorm& op) {
  const auto norm_row = SelectKernel(HWY_DISPATCH_TABLE(NormRow), context);
  const auto wide_row = SelectKernel(HWY_DISPATCH_TABLE(WideRow), context);
  const int64_t stride = op.stride != 0 ? op.stride : op.groups * op.width;
  ForRows(context, op.rows, op.groups * op.width, [&](int64_t r) {
    const int64_t from = op.row_index != nullptr ? op.row_index[r] : r;
    for (int64_t g = 0; g < op.groups; ++g) {
      const Bf16* x = op.x + from * stride + g * op.width;
      Bf16* out = op.out + r * stride + g * op.width;
      if (op.wide_weight == nullptr) {
        norm_row(x, op.weight, op.width, op.eps, out);
      } else {
        const Bf16* residual = op.residual != nullptr ? op.residual + r * stride : nullptr;
        wide_row(x, op.wide_weight, op.width, op.eps, residual, out);
      }
    }
  });
}

}  // namespace isobit
#endif  // HWY_ONCE
