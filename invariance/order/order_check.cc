#include "invariance/order/order_check.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invariance/order/operation_sums.h"

namespace isobit {
namespace {

using Kind = GemmSumShape::Kind;

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kFp32:
      return "fp32";
    case Kind::kBf16:
      return "bf16";
    case Kind::kBiasResidual:
      return "bias, residual";
    case Kind::kGate:
      return "SiLU gate: gate";
    case Kind::kUp:
      return "SiLU gate: up";
  }
  return "";
}

std::string RowsName(int64_t rows) { return absl::StrCat(rows, rows == 1 ? " row" : " rows"); }

template <typename Sum>
absl::StatusOr<RevealedOrder> Reveal(const std::string& name, Sum& sum,
                                     const SummationTree& contract) {
  const auto start = std::chrono::steady_clock::now();
  RevealedOrder revealed;
  revealed.name = name;
  revealed.terms = sum.terms();
  const absl::StatusOr<SummationTree> tree = RevealOrder(sum);
  if (tree.ok()) {
    revealed.order = tree->Describe();
    revealed.deviation = FirstDeviation(contract, *tree);
  } else if (absl::IsFailedPrecondition(tree.status())) {
    revealed.deviation = std::string(tree.status().message());
  } else {
    return tree.status();
  }
  revealed.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return revealed;
}

class AllOrders {
 public:
  AllOrders(Backend& backend, const ModelShape& shape, const OrderOptions& options)
      : backend_(backend), shape_(shape), options_(options) {}

  absl::StatusOr<std::vector<RevealedOrder>> Run() {
    const ModelShape& s = shape_;
    const int64_t qkv = (int64_t{s.heads} + 2 * s.kv_heads) * s.head_dim;
    const int64_t attended = int64_t{s.heads} * s.head_dim;
    for (int64_t rows : options_.rows) {
      AddGemm({.rows = rows, .n = qkv, .k = s.width, .kind = Kind::kBf16});
      AddGemm({.rows = rows, .n = s.width, .k = attended, .kind = Kind::kBiasResidual});
      AddGemm({.rows = rows, .n = 2 * s.ffn_width, .k = s.width, .kind = Kind::kGate});
      AddGemm({.rows = rows, .n = 2 * s.ffn_width, .k = s.width, .kind = Kind::kUp});
      AddGemm({.rows = rows, .n = s.width, .k = s.ffn_width, .kind = Kind::kBiasResidual});
      AddGemm({.rows = rows, .n = s.vocab, .k = s.width, .kind = Kind::kFp32});
      AddNorm(rows);
      AddAttention(rows);
    }
    if (!status_.ok()) return status_;
    return std::move(orders_);
  }

 private:
  void AddGemm(GemmSumShape gemm) {
    if (options_.most_terms > 0) gemm.k = std::min(gemm.k, options_.most_terms);
    Add(
        absl::StrCat("GEMM ", gemm.n, "x", gemm.k, ", ", NameOf(gemm.kind), ", ",
                     RowsName(gemm.rows)),
        [&] { return MakeGemmSum(backend_, gemm); }, [&] { return gemm.Contract(); });
  }

  void AddNorm(int64_t rows) {
    const int64_t width =
        options_.most_terms > 0 ? std::min(shape_.width, options_.most_terms) : shape_.width;
    Add(
        absl::StrCat("RMSNorm of ", width, ", ", RowsName(rows)),
        [&] { return MakeRmsNormSum(backend_, rows, width); }, [&] { return RowSumTree(width); });
  }

  void AddAttention(int64_t rows) {
    const AttentionSumShape attention = {.rows = rows,
                                         .keys = options_.keys,
                                         .heads = shape_.heads,
                                         .kv_heads = shape_.kv_heads,
                                         .head_dim = shape_.head_dim,
                                         .page_tokens = shape_.page_tokens};
    const std::string name =
        absl::StrCat("attention over ", attention.keys, " keys, ", RowsName(rows));
    Add(
        name, [&] { return MakeAttentionSum(backend_, attention); },
        [&] { return attention.Contract(); });
    Add(
        absl::StrCat("row sum of ", name), [&] { return MakeAttentionRowSum(backend_, attention); },
        [&] { return attention.Contract(); });
  }

  template <typename Make, typename Contract>
  void Add(const std::string& name, const Make& make, const Contract& contract) {
    if (!status_.ok()) return;
    auto sum = make();
    status_ = sum.status();
    if (!status_.ok()) return;
    absl::StatusOr<RevealedOrder> order = Reveal(name, **sum, contract());
    status_ = order.status();
    if (!status_.ok()) return;
    if (options_.on_order) options_.on_order(*order);
    orders_.push_back(*std::move(order));
  }

  Backend& backend_;
  const ModelShape& shape_;
  const OrderOptions& options_;
  std::vector<RevealedOrder> orders_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<RevealedOrder> RevealAndCompare(const std::string& name, CancellingSum& sum,
                                               const SummationTree& contract) {
  return Reveal(name, sum, contract);
}

absl::StatusOr<RevealedOrder> RevealAndCompare(const std::string& name, NonNegativeSum& sum,
                                               const SummationTree& contract) {
  return Reveal(name, sum, contract);
}

absl::StatusOr<std::vector<RevealedOrder>> RevealOrders(Backend& backend, const ModelShape& shape,
                                                        const OrderOptions& options) {
  return AllOrders(backend, shape, options).Run();
}

}  // namespace isobit
