#ifndef ISOBIT_INVARIANCE_REQUEST_SWEEP_H_
#define ISOBIT_INVARIANCE_REQUEST_SWEEP_H_

// One request in every situation that an engine can put it in, one dimension at a time and without
// gaps: every size of company, every slot in it, every prefill chunk, every page size, every length
// of a prefix hit, every point of preemption; on a GPU, eager and recorded. Compared are full
// logits, log-probabilities, ids, text and digests with the request alone.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "invariance/report.h"
#include "runtime/engine/engine_core.h"
#include "runtime/model/model.h"

namespace isobit {

struct RequestSweepOptions {
  int64_t prompt = 70;  // tokens
  int64_t output = 20;  // tokens
  int64_t most_company = 24;
  CheckRowCallback on_row = nullptr;
  CheckRowFilter is_done = nullptr;  // rows that are left out
};

// One row a dimension. A row whose situation never came up (no preemption, no hit) fails. The model
// is taken and given back; an error is the engine's. REQUIRES: the model has positions for twice
// the prompt and output.
absl::StatusOr<std::vector<CheckRow>> SweepRequest(std::unique_ptr<Model>& model,
                                                   const RequestSweepOptions& options);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_REQUEST_SWEEP_H_
