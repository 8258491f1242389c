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

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isobit {

HWY_EXPORT(NormRow);

void RunRmsNorm(CpuContext& context, const RmsNorm& op) {
  const auto norm_row = SelectKernel(HWY_DISPATCH_TABLE(NormRow), context);
  ForRows(context, op.rows, op.width, [&](int64_t r) {
    const int64_t from = op.row_index != nullptr ? op.row_index[r] : r;
    norm_row(op.x + from * op.width, op.weight, op.width, op.eps, op.out + r * op.width);
  });
}

}  // namespace isobit
#endif  // HWY_ONCE
