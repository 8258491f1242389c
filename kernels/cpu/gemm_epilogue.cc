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

// The gated activations of kernels/numerics/scalar.h: each is g / (1 + 2^e) with an e of its own.
struct SiluLanes {
  static Bf16 Scalar(Bf16 gate, Bf16 up) { return SiluGate(gate, up); }
  static HWY_INLINE Floats Exponent(Floats g) { return hn::Mul(g, hn::Set(FloatTag(), -kLog2E)); }
};

struct GeluLanes {
  static Bf16 Scalar(Bf16 gate, Bf16 up) { return GeluGate(gate, up); }
  static HWY_INLINE Floats Exponent(Floats g) {
    const FloatTag df;
    const auto cube = hn::Mul(hn::Mul(g, g), g);
    return hn::Mul(hn::Set(df, kGeluScale), hn::MulAdd(hn::Set(df, kGeluCube), cube, g));
  }
};

template <typename Activation>
HWY_INLINE Floats GateLanes(Floats gate, Floats up) {
  const FloatTag df;
  const auto g = RoundedToBf16(gate);
  const auto power = Exp2Lanes(Activation::Exponent(g));
  const auto activated = RoundedToBf16(hn::Div(g, hn::Add(hn::Set(df, 1.0f), power)));
  return RoundedToBf16(hn::Mul(activated, RoundedToBf16(up)));
}

template <typename Activation>
HWY_INLINE void GateEpilogue(const Gemm& op, int64_t row, int64_t panel, const float* acc) {
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
      StoreRoundedBf16(GateLanes<Activation>(hn::LoadU(df, acc + i), hn::LoadU(df, up + i)),
                       out + i);
    }
  }
  for (; i < count; ++i) out[i] = Activation::Scalar(RoundToBf16(acc[i]), RoundToBf16(up[i]));
}

void SiluGateEpilogue(const Gemm& op, int64_t row, int64_t panel, const float* acc) {
  GateEpilogue<SiluLanes>(op, row, panel, acc);
}

void GeluGateEpilogue(const Gemm& op, int64_t row, int64_t panel, const float* acc) {
  GateEpilogue<GeluLanes>(op, row, panel, acc);
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
  const auto scale = hn::Set(df, op.scale);
  int i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto y = hn::LoadU(df, acc + i);
    if (bias != nullptr) y = hn::Add(y, hn::LoadU(df, bias + i));
    if (op.scale != 1.0f) y = hn::Mul(y, scale);
    if (residual != nullptr) y = hn::Add(y, LoadBf16(residual + i));
    StoreRoundedBf16(RoundedToBf16(y), out + i);
  }
  for (; i < count; ++i) {
    float y = acc[i];
    if (bias != nullptr) y = ieee::Add(y, bias[i]);
    if (op.scale != 1.0f) y = ieee::Mul(y, op.scale);
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
  const auto scale = hn::Set(df, op.scale);
  int i = 0;
  // Without fused operations the cap is left to the scalar function.
  const bool in_vectors = kFusedMulAdd || !(op.soft_cap > 0.0f);
  for (; in_vectors && i + lanes <= count; i += lanes) {
    auto y = hn::LoadU(df, acc + i);
    if (bias != nullptr) y = hn::Add(y, hn::LoadU(df, bias + i));
    if (op.scale != 1.0f) y = hn::Mul(y, scale);
    if (op.soft_cap > 0.0f) y = SoftCapLanes(y, op.soft_cap);
    hn::StoreU(hn::IfThenElse(hn::IsNaN(y), nan, y), df, out + i);
  }
  for (; i < count; ++i) {
    float y = acc[i];
    if (bias != nullptr) y = ieee::Add(y, bias[i]);
    if (op.scale != 1.0f) y = ieee::Mul(y, op.scale);
    out[i] = Canonical(SoftCap(y, op.soft_cap));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isobit {

HWY_EXPORT(SiluGateEpilogue);
HWY_EXPORT(GeluGateEpilogue);
HWY_EXPORT(Bf16Epilogue);
HWY_EXPORT(Fp32Epilogue);

GemmEpilogue SelectGemmEpilogue(const CpuContext& context, Gemm::Epilogue epilogue) {
  switch (epilogue) {
    case Gemm::Epilogue::kSiluGate:
      return SelectKernel(HWY_DISPATCH_TABLE(SiluGateEpilogue), context);
    case Gemm::Epilogue::kGeluGate:
      return SelectKernel(HWY_DISPATCH_TABLE(GeluGateEpilogue), context);
    case Gemm::Epilogue::kBf16:
      return SelectKernel(HWY_DISPATCH_TABLE(Bf16Epilogue), context);
    case Gemm::Epilogue::kFp32:
      break;
  }
  return SelectKernel(HWY_DISPATCH_TABLE(Fp32Epilogue), context);
}

}  // namespace isobit
#endif  // HWY_ONCE
