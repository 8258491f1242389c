#ifndef ISOBIT_INVARIANCE_ORDER_ORDER_CHECK_H_
#define ISOBIT_INVARIANCE_ORDER_ORDER_CHECK_H_

// The order of every floating-point sum of a backend, revealed and compared with the contract's.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "invariance/order/reveal.h"
#include "kernels/ops.h"

namespace isobit {

struct RevealedOrder {
  std::string name;  // "GEMM 960x576, fp32, 16 rows"
  int64_t terms = 0;
  std::string order;  // an outline (SummationTree::Describe); empty if there is no one order
  // Empty: it is the contract's. Else the first step that is not, or why there is no one order.
  std::string deviation;
  double seconds = 0;

  bool ok() const { return terms > 0 && deviation.empty(); }
};

struct OrderOptions {
  std::vector<int64_t> rows = {1, 16, 64};  // batch sizes
  int64_t keys = 1100;                      // of attention: more than one split
  // Products of a sum at most; longer ones are cut. 0: no limit.
  int64_t most_terms = 0;
  std::function<void(const RevealedOrder&)> on_order = nullptr;  // called when one is done
};

// Linear layers with every epilogue, RMSNorm, attention and its row sum in a model's shapes. An
// error is the backend's. Exact integer sums (sampling) have no order.
absl::StatusOr<std::vector<RevealedOrder>> RevealOrders(Backend& backend, const ModelShape& shape,
                                                        const OrderOptions& options);

// Reveals one sum and compares it.
absl::StatusOr<RevealedOrder> RevealAndCompare(const std::string& name, CancellingSum& sum,
                                               const SummationTree& contract);
absl::StatusOr<RevealedOrder> RevealAndCompare(const std::string& name, NonNegativeSum& sum,
                                               const SummationTree& contract);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_ORDER_ORDER_CHECK_H_
