#ifndef ISOBIT_INVARIANCE_CHECK_H_
#define ISOBIT_INVARIANCE_CHECK_H_

// The promise, tried on one model and one machine: a fixed set of requests is run one at a time,
// and then again in every kind of company, order, chunking, page size, cache state and thread
// count. Everything that was computed must be equal, bit for bit: token ids, log-probabilities and
// the full logits behind every token.
//
// Then single operations in batches of every kind, the order of every sum seen from outside, and
// random schedules.
//
// Not thread-safe: one check at a time uses its backends.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "invariance/random_schedule.h"
#include "invariance/report.h"
#include "kernels/ops.h"
#include "runtime/model/model.h"

namespace isobit {

// Makes a backend with this many threads (0: its own choice). Called several times; one backend is
// alive at a time.
using BackendFactory = std::function<absl::StatusOr<std::unique_ptr<Backend>>(int threads)>;

struct CheckOptions {
  // Longer prompts and outputs, batches of every size from 1 to 300 with one row at every place,
  // one request in every situation, more random schedules. Otherwise about a minute on a small
  // model.
  bool full = false;
  // How many random schedules are run (20 times as many if full), and the seed of the first.
  int64_t schedules = 1;
  uint64_t first_schedule = 1;
  // Gets the first schedule with a difference, shrunk. May be empty.
  std::function<void(uint64_t seed, const RequestSchedule& shrunk)> on_failed_schedule = nullptr;
  // Thread counts to try, on a CPU.
  std::vector<int> thread_counts = {1, 2, 3, 5};
  CheckRowCallback on_row = nullptr;
  // Called with the model before the first row; an error ends the check. May be empty.
  std::function<absl::Status(const Model&)> on_model = nullptr;
  // Rows that are left out because an earlier check of the same model, build and device ran them.
  // The first row, with which all others are compared, is always run.
  CheckRowFilter is_done = nullptr;
};

// Loads the model and runs all rows. A difference is not an error: it stands in its row. An error
// is what kept the check from running: the model's, the backend's, or too little memory.
absl::StatusOr<CheckReport> CheckModel(const std::string& model_path,
                                       const BackendFactory& make_backend,
                                       const CheckOptions& options);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_CHECK_H_
