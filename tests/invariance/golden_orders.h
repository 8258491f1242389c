#ifndef ISOBIT_TESTS_INVARIANCE_GOLDEN_ORDERS_H_
#define ISOBIT_TESTS_INVARIANCE_GOLDEN_ORDERS_H_

// Orders of sums as order revealing finds them, in the form of golden/orders. One code makes and
// checks them.

#include <string>

#include "absl/status/statusor.h"
#include "kernels/ops.h"
#include "nlohmann/json.hpp"

namespace isobit {

// The file, below the source tree.
std::string GoldenOrdersPath();

// {"contract", "orders": [{"name", "terms", "tree"}]}: the whole tree of every kind of sum, as
// SummationTree::ToText writes it, revealed from the backend alone. An error is the backend's, or
// says that there is no one order.
absl::StatusOr<nlohmann::json> RevealGoldenOrders(Backend& backend);

}  // namespace isobit

#endif  // ISOBIT_TESTS_INVARIANCE_GOLDEN_ORDERS_H_
