#ifndef ISOBIT_RUNTIME_MODEL_STEP_RECORDER_H_
#define ISOBIT_RUNTIME_MODEL_STEP_RECORDER_H_

// Replays steps that come again and again (Backend::Record): a GPU runs the hundreds of operations
// of a decode step from one launch.
//
// Not thread-safe.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/ops.h"

namespace isobit {

// All that tells the operations of one step from those of another, in the same workspace.
struct StepShape {
  int64_t rows = 0;
  int64_t sequences = 0;
  int64_t page_table_stride = 0;
  int64_t max_context = 0;

  friend bool operator==(const StepShape&, const StepShape&) = default;
};

class StepRecorder {
 public:
  // `backend` must outlive it.
  explicit StepRecorder(Backend& backend) : backend_(backend) {}

  // Issues the operations of a step, which `issue` hands to the backend: at the first time as they
  // are, later from a recording. The same shape promises the same operations.
  void Run(const StepShape& shape, const std::function<void()>& issue);

  int64_t replayed() const { return replayed_; }  // steps

  // The most shapes that are remembered; the one that was not used for longest goes.
  static constexpr size_t kMaxShapes = 64;

 private:
  struct Entry {
    StepShape shape;
    std::unique_ptr<Recording> recording;
    uint64_t last_used = 0;
  };

  Entry* Find(const StepShape& shape);
  bool Replay(const Entry& entry);
  void Remember(const StepShape& shape);

  Backend& backend_;
  std::vector<Entry> entries_;
  uint64_t runs_ = 0;
  int64_t replayed_ = 0;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_STEP_RECORDER_H_
