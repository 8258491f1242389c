#ifndef ISOBIT_TESTS_INVARIANCE_GOLDEN_DIGESTS_H_
#define ISOBIT_TESTS_INVARIANCE_GOLDEN_DIGESTS_H_

// Digests of fixed requests on fixed models, as golden/digests keeps them. One code makes and
// checks them.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops.h"
#include "nlohmann/json.hpp"
#include "runtime/receipt/receipt.h"
#include "tests/tiny_model.h"

namespace isobit {

// Of every shape that attention and GEMM know: query heads a key head 1, 2, 3, 4, heads of 16 to
// 128, tied and untied.
struct GoldenModel {
  std::string name;
  TinyModelOptions options;
  std::string requests = "requests_tiny.jsonl";
};
std::vector<GoldenModel> GoldenTinyModels();

// The folder, below the source tree.
std::string GoldenDigestsFolder();

// A golden of one JSON value: discarded, and a failure of the test, if the file can't be read.
nlohmann::json ReadGolden(const std::string& path);

// The digests and ids of all requests in a file of request lines: {"name", "model_digest",
// "requests": [{"id", "digest", "logits", "choices": [{"digest", "token_ids"}]}]}. `logits` is the
// digest of every full row of logits, in order of choice and position.
absl::StatusOr<nlohmann::json> ComputeGolden(const std::string& name, const std::string& model_path,
                                             std::unique_ptr<Backend> backend,
                                             const std::string& requests_path);

// Of all tiny models: {"contract", "models": [...]}. `make_backend` is called for each.
absl::StatusOr<nlohmann::json> ComputeTinyGoldens(
    const std::function<std::unique_ptr<Backend>()>& make_backend);
// A receipt of one of its requests, drawn at random with a penalty, for each tiny model; in the
// order of GoldenTinyModels.
absl::StatusOr<std::vector<Receipt>> ComputeTinyReceipts(
    const std::function<std::unique_ptr<Backend>()>& make_backend);
// The file of the receipt of tiny model `index`: golden/receipts/tiny_0.json, ...
std::string GoldenTinyReceiptPath(size_t index);
// Of the real model.
absl::StatusOr<nlohmann::json> ComputeModelGolden(const std::string& model_path,
                                                  std::unique_ptr<Backend> backend);

}  // namespace isobit

#endif  // ISOBIT_TESTS_INVARIANCE_GOLDEN_DIGESTS_H_
