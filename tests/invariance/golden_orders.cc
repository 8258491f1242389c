#include "tests/invariance/golden_orders.h"

#include <memory>

#include "invariance/order/operation_sums.h"
#include "invariance/order/reveal.h"
#include "kernels/numerics/contract_version.h"

namespace isobit {
namespace {

using nlohmann::json;
using Kind = GemmSumShape::Kind;

// Not whole groups of 16, and more than one row.
constexpr int64_t kRows = 3, kColumns = 64, kProducts = 200;
// Each lane of a norm has elements of two rounds.
constexpr int64_t kNormWidth = 1064;
// A window over the border of two splits, whose ends are not a group's.
constexpr AttentionSumShape kAttention = {.rows = 1,
                                          .keys = 1101,
                                          .heads = 4,
                                          .kv_heads = 2,
                                          .head_dim = 64,
                                          .page_tokens = 32,
                                          .window = 200};

class Orders {
 public:
  template <typename Sum>
  void Add(const std::string& name, absl::StatusOr<std::unique_ptr<Sum>> sum) {
    status_.Update(sum.status());
    if (!status_.ok()) return;
    const absl::StatusOr<SummationTree> tree = RevealOrder(**sum);
    status_.Update(tree.status());
    if (!status_.ok()) return;
    orders_.push_back({{"name", name}, {"terms", tree->terms()}, {"tree", tree->ToText()}});
  }

  absl::StatusOr<json> Take() {
    if (!status_.ok()) return status_;
    return json{{"contract", kContractVersion}, {"orders", std::move(orders_)}};
  }

 private:
  json orders_ = json::array();
  absl::Status status_;
};

}  // namespace

std::string GoldenOrdersPath() { return ISOBIT_SOURCE_DIR "/golden/orders/trees.json"; }

absl::StatusOr<json> RevealGoldenOrders(Backend& backend) {
  Orders orders;
  const auto add_gemm = [&](const std::string& name, Kind kind) {
    orders.Add(name,
               MakeGemmSum(backend, {.rows = kRows, .n = kColumns, .k = kProducts, .kind = kind}));
  };
  add_gemm("linear layer, fp32", Kind::kFp32);
  add_gemm("linear layer, bf16", Kind::kBf16);
  add_gemm("linear layer, then bias and residual", Kind::kBiasResidual);
  add_gemm("gated layer, gate", Kind::kGate);
  add_gemm("gated layer, up", Kind::kUp);
  orders.Add("RMSNorm", MakeRmsNormSum(backend, kRows, kNormWidth));
  orders.Add("attention, probabilities times values", MakeAttentionSum(backend, kAttention));
  orders.Add("attention, row sum", MakeAttentionRowSum(backend, kAttention));
  return orders.Take();
}

}  // namespace isobit
