#include "kernels/operation_cost.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

double Bytes(int64_t count, size_t size) {
  return static_cast<double>(count) * static_cast<double>(size);
}

}  // namespace

OperationCost CostOf(const Embed& op) {
  return {.name = "embedding",
          .bytes = Bytes(op.rows, sizeof(int32_t)) +
                   2 * Bytes(op.rows * op.table->cols(), sizeof(Bf16))};
}

OperationCost CostOf(const RmsNorm& op) {
  const int64_t elements = op.rows * op.groups * op.width;
  const size_t weight_size = op.wide_weight != nullptr ? sizeof(float) : sizeof(Bf16);
  const int64_t passes = op.residual != nullptr ? 3 : 2;
  return {.name = "RMSNorm",
          .bytes = Bytes(passes * elements, sizeof(Bf16)) + Bytes(op.width, weight_size)};
}

OperationCost CostOf(const Gemm& op) {
  const int64_t n = op.weight->rows(), k = op.weight->cols();
  OperationCost cost = {.name = absl::StrCat("GEMM ", n, " x ", k),
                        .bytes = Bytes(n * k + op.rows * k, sizeof(Bf16)),
                        .flops = 2 * static_cast<double>(op.rows) * static_cast<double>(n * k)};
  switch (op.epilogue) {
    case Gemm::Epilogue::kBf16:
      cost.bytes += Bytes(op.rows * n, sizeof(Bf16));
      break;
    case Gemm::Epilogue::kSiluGate:
    case Gemm::Epilogue::kGeluGate:
      cost.name += op.epilogue == Gemm::Epilogue::kSiluGate ? ", SiLU gate" : ", GELU gate";
      cost.bytes += Bytes(op.rows * (n / 2), sizeof(Bf16));
      break;
    case Gemm::Epilogue::kFp32:
      cost.name += ", fp32";
      cost.bytes += Bytes(op.rows * n, sizeof(float));
      break;
  }
  if (op.bias != nullptr) cost.bytes += Bytes(n, sizeof(float));
  if (op.residual != nullptr) cost.bytes += Bytes(op.rows * n, sizeof(Bf16));
  return cost;
}

OperationCost CostOf(const RopeKvWrite& op) {
  const int64_t values = int64_t{op.heads + 2 * op.kv_heads} * op.head_dim;
  return {.name = "rotation, KV write",
          .bytes = Bytes(2 * op.batch->rows * values, sizeof(Bf16)) +
                   Bytes(op.batch->rows * op.rotary_dim, sizeof(float))};
}

// What is written is rotated on its way: as many bytes as the product would have.
OperationCost CostOf(const QkvProjection& op) {
  OperationCost cost = CostOf(op.projection);
  absl::StrAppend(&cost.name, ", rotation, KV write");
  cost.bytes += Bytes(op.projection.rows * op.rope.rotary_dim, sizeof(float));
  return cost;
}

OperationCost CostOf(const Attention& op, int64_t first_position) {
  const int64_t rows = op.batch->rows;
  const int64_t sequences = std::max<int64_t>(op.batch->sequences, 1);
  const int64_t rows_each = rows / sequences;
  double visible = 0;  // keys, summed over the rows of one sequence
  for (int64_t i = 0; i < rows_each; ++i) {
    const int64_t keys = first_position + i + 1;
    visible += static_cast<double>(op.window > 0 ? std::min<int64_t>(keys, op.window) : keys);
  }
  const int64_t first_key =
      op.window > 0 ? std::max<int64_t>(0, first_position + 1 - op.window) : 0;
  const int64_t keys_read = first_position + rows_each - first_key;
  return {.name = "attention",
          .bytes = Bytes(2 * rows * op.heads * op.head_dim, sizeof(Bf16)) +
                   Bytes(2 * sequences * keys_read * op.kv_heads * op.head_dim, sizeof(Bf16)),
          // Scores and weighted values.
          .flops = 4 * visible * static_cast<double>(sequences * op.heads * op.head_dim)};
}

OperationCost CostOf(const ScoreTokens& op) {
  return {.name = "scoring", .bytes = Bytes(op.rows * op.vocab, sizeof(float))};
}

OperationCost CostOf(const SampleTokens& op) {
  return {.name = "sampling", .bytes = Bytes(op.rows * op.vocab, sizeof(float))};
}

}  // namespace isobit
