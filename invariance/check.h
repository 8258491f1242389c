#ifndef ISOBIT_INVARIANCE_CHECK_H_
#define ISOBIT_INVARIANCE_CHECK_H_

// The promise, tried on one model and one machine: a fixed set of requests is run one at a time,
// and then again in every kind of company, order, chunking, page size, cache state and thread
// count. Everything that was computed must be equal, bit for bit: token ids, log-probabilities and
// the full logits behind every token.
//
// Not thread-safe: one check at a time uses its backends.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace isobit {

// One way of running the requests.
struct CheckRow {
  std::string name;      // "7 at once"
  int64_t compared = 0;  // values compared with the run alone: ids, log-probabilities, logits
  std::string first_difference;  // empty: none. Else where (request, choice, position, logit), both
                                 // values, ULPs between them and how many values differ; or why the
                                 // row shows nothing ("no preemption happened")
  double seconds = 0;

  // A row that compared nothing has not passed.
  bool ok() const { return first_difference.empty() && compared > 0; }
};

struct CheckReport {
  std::vector<CheckRow> rows;
  bool ok() const;  // false if a row is not, or if there is none
};

// Makes a backend with this many threads (0: its own choice). Called several times; one backend is
// alive at a time.
using BackendFactory = std::function<absl::StatusOr<std::unique_ptr<Backend>>(int threads)>;

struct CheckOptions {
  // Longer prompts and outputs, every row of the sweep. Otherwise a minute or so on a small model.
  bool full = false;
  // Thread counts to try; empty where they have no meaning (a GPU).
  std::vector<int> thread_counts = {1, 2, 3, 5};
  // Called when a row is done, for a table that grows while one waits.
  std::function<void(const CheckRow&)> on_row = nullptr;
};

// Loads the model and runs all rows. A difference is not an error: it stands in its row. An error
// is what kept the check from running: the model's, the backend's, or too little memory.
absl::StatusOr<CheckReport> CheckModel(const std::string& model_path,
                                       const BackendFactory& make_backend,
                                       const CheckOptions& options);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_CHECK_H_
