#include "kernels/numerics/dot16.h"
#include "kernels/numerics/scalar.h"
#include "kernels/reference/backend.h"

namespace isobit::reference {
namespace {

// x row r times weight row i, the chain of contract 2.
float Accumulate(const Gemm& op, int64_t r, int64_t i) {
  const auto& weight = static_cast<const ReferenceWeight&>(*op.weight);
  return DotChain(op.x + r * weight.cols(), weight.Row(i), weight.cols());
}

void RunGate(const Gemm& op) {
  assert(op.weight->layout() == WeightLayout::kGateUp);
  const int64_t n = op.weight->rows() / 2;
  for (int64_t r = 0; r < op.rows; ++r) {
    for (int64_t i = 0; i < n; ++i) {
      const Bf16 gate = RoundToBf16(Accumulate(op, r, i));
      const Bf16 up = RoundToBf16(Accumulate(op, r, n + i));
      op.out_bf16[r * n + i] =
          op.epilogue == Gemm::Epilogue::kSiluGate ? SiluGate(gate, up) : GeluGate(gate, up);
    }
  }
}

}  // namespace

void Run(const Gemm& op) {
  if (IsGate(op.epilogue)) return RunGate(op);
  const int64_t n = op.weight->rows();
  for (int64_t r = 0; r < op.rows; ++r) {
    for (int64_t i = 0; i < n; ++i) {
      float y = Accumulate(op, r, i);
      if (op.bias != nullptr) y = ieee::Add(y, op.bias[i]);
      if (op.scale != 1.0f) y = ieee::Mul(y, op.scale);
      if (op.epilogue == Gemm::Epilogue::kFp32) {
        op.out_fp32[r * n + i] = Canonical(SoftCap(y, op.soft_cap));
      } else {
        if (op.residual != nullptr) y = ieee::Add(y, ToFloat(op.residual[r * n + i]));
        op.out_bf16[r * n + i] = RoundToBf16(y);
      }
    }
  }
}

}  // namespace isobit::reference
