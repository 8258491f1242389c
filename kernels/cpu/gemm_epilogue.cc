#include "kernels/cpu/gemm_epilogue.h"

#include <algorithm>

#include "kernels/cpu/packed_weight.h"
#include "kernels/numerics/scalar.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_epilogue.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/exp2-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

inline constexpr int kGatePanelRows = kPanelLanes / 2;

// SiluGate of kernels/numerics/scalar.h.
HWY_INLINE Floats SiluGateLanes(Floats gate, Floats up) {
  const FloatTag df;
  const auto g = RoundedToBf16(gate);
  const auto exp_minus_g = Exp2Lanes(hn::Mul(g, hn::Set(df, -kLog2E)));
  const auto activated = RoundedToBf16(hn::Div(g, hn::Add(hn::Set(df, 1.0f), exp_minus_g)));
  return RoundedToBf16(hn::Mul(activated, RoundedToBf16(up)));
}

void SiluGateEpilogue(const Gemm& op, int64_t row, int64_t panel, const float* acc) {
  const FloatTag df;
  const int lanes = static_cast<int>(hn::Lanes(df));
  const int64_t n = op.weight->rows() / 2;
  const int64_t begin = panel * kGatePanelRows;
  const int count = static_cast<int>(std::min<int64_t>(kGatePanelRows, n - begin));
  const float* up = acc + kGatePanelRows;
  Bf16* out = op.out_bf16 + row * n + begin;
  int i = 0;
  if constexpr (kFusedMulAdd) {
    for (; i + lanes <= count; i += lanes) {
      StoreRoundedBf16(SiluGateLanes(hn::LoadU(df, acc + i), hn::LoadU(df, up + i)), out + i);
    }
  }
  for (; i < count; ++i) out[i] = SiluGate(RoundToBf16(acc[i]), RoundToBf16(up[i]));
}

void Bf16Epilogue(const Gemm& op, int64_t row, int64_t panel, const float* acc) {
  const FloatTag df;
  const int lanes = static_cast<int>(hn::Lanes(df));
  const int64_t n = op.weight->rows();
  const int64_t begin = panel * kPanelLanes;
  const int count = static_cast<int>(std::min<int64_t>(kPanelLanes, n - begin));
  const float* bias = op.bias == nullptr ? nullptr : op.bias + begin;
  const Bf16* residual = op.residual == nullptr ? nullptr : op.residual + row * n + begin;
  Bf16* out = op.out_bf16 + row * n + begin;
  int i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto y = hn::LoadU(df, acc + i);
    if (bias != nullptr) y = hn::Add(y, hn::LoadU(df, bias + i));
    if (residual != nullptr) y = hn::Add(y, LoadBf16(residual + i));
    StoreRoundedBf16(RoundedToBf16(y), out + i);
  }
  for (; i < count; ++i) {
    float y = acc[i];
    if (bias != nullptr) y = ieee::Add(y, bias[i]);
    if (residual != nullptr) y = ieee::Add(y, ToFloat(residual[i]));
    out[i] = RoundToBf16(y);
  }
}

void Fp32Epilogue(const Gemm& op, int64_t row, int64_t panel, const float* acc) {
  const FloatTag df;
  const int lanes = static_cast<int>(hn::Lanes(df));
  const int64_t n = op.weight->rows();
  const int64_t begin = panel * kPanelLanes;
  const int count = static_cast<int>(std::min<int64_t>(kPanelLanes, n - begin));
  const float* bias = op.bias == nullptr ? nullptr : op.bias + begin;
  float* out = op.out_fp32 + row * n + begin;
  const auto nan = hn::Set(df, CanonicalNan());
  int i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto y = hn::LoadU(df, acc + i);
    if (bias != nullptr) y = hn::Add(y, hn::LoadU(df, bias + i));
    hn::StoreU(hn::IfThenElse(hn::IsNaN(y), nan, y), df, out + i);
  }
  for (; i < count; ++i) {
    const float y = bias == nullptr ? acc[i] : ieee::Add(acc[i], bias[i]);
    out[i] = Canonical(y);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isobit {

HWY_EXPORT(SiluGateEpilogue);
HWY_EXPORT(Bf16Epilogue);
HWY_EXPORT(Fp32Epilogue);

GemmEpilogue SelectGemmEpilogue(const CpuContext& context, Gemm::Epilogue epilogue) {
  switch (epilogue) {
    case Gemm::Epilogue::kSiluGate:
      return SelectKernel(HWY_DISPATCH_TABLE(SiluGateEpilogue), context);
    case Gemm::Epilogue::kBf16:
      return SelectKernel(HWY_DISPATCH_TABLE(Bf16Epilogue), context);
    case Gemm::Epilogue::kFp32:
      break;
  }
  return SelectKernel(HWY_DISPATCH_TABLE(Fp32Epilogue), context);
}

}  // namespace isobit
#endif  // HWY_ONCE
