#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_H_
#define ISOBIT_KERNELS_CUDA_ATTENTION_H_

// Paged attention on the GPU (contract 4). Which kernel takes which row, and how work is cut, is
// planned on the device once a step, from the batch as it lies there; it can't be seen in the bits.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/kv_cache.h"
#include "kernels/ops.h"

namespace isobit::cuda {

class AttentionRunner {
 public:
  // For a device with this many multiprocessors, the current one.
  static absl::StatusOr<std::unique_ptr<AttentionRunner>> Create(int multiprocessors);

  // Queues op; `cache` is op.cache; op.q and op.out are aligned to 16 bytes. Keys in front of a
  // sequence's first row of the batch must have been written before the plan was forgotten for the
  // last time: they are read before the kernels in front of this one have ended. Scratch memory
  // grows with the largest batch seen, for which the stream is waited for; a running model stops
  // growing soon. FailedPrecondition if it would have to grow and may not.
  absl::Status Run(const Attention& op, const CudaKvCache& cache, cudaStream_t stream);

  // Plans are kept from one layer to the next. To be called whenever the arrays of a batch may have
  // changed: after an upload.
  void ForgetPlans() { plans_used_ = 0; }

  // While launches are captured in a graph, no memory may be allocated.
  void set_may_grow(bool may_grow) { may_grow_ = may_grow; }
  // Changes whenever memory moves: graphs captured before are not valid any more.
  uint64_t memory_generation() const { return memory_generation_; }

  // Waits for the stream. Returns what was counted so far, nothing after a device error.
  BackendCounters Counters(cudaStream_t stream) const;

 private:
  // A batch cut into tiles, on the device.
  struct Plan {
    PlanRequest request;
    bool is_new = false;  // no kernel that reads it has been launched
    DeviceArray<PlanCounts> counts;
    DeviceArray<SplitUnit> units;
    DeviceArray<AttentionTile> prefill_tiles;
    int64_t unit_capacity = 0, prefill_capacity = 0;
  };
  // Upper limits of what a plan may hold, known without looking at the device.
  struct Limits {
    int64_t split_tiles;  // for each key head
    int64_t split_units;
    int64_t prefill_tiles;
    int64_t redo_units;  // of all key heads
  };

  explicit AttentionRunner(int multiprocessors) : multiprocessors_(multiprocessors) {}

  PlanRequest MakeRequest(const Attention& op) const;
  static Limits LimitsOf(const PlanRequest& request, int kv_heads);
  // Of the split kernel, of all key heads.
  static int64_t Works(const Limits& limits, int kv_heads) {
    return limits.split_units * kv_heads + limits.redo_units;
  }
  static int64_t PartialFloats(const PlanRequest& request, const Limits& limits, int kv_heads,
                               int head_dim);
  absl::StatusOr<Plan*> FindPlan(const PlanRequest& request, const Limits& limits,
                                 cudaStream_t stream);
  absl::StatusOr<Plan*> NextPlan();
  absl::Status ReserveScratch(const Attention& op, const PlanRequest& request, const Limits& limits,
                              cudaStream_t stream);
  absl::StatusOr<int> Share(const PlanRequest& request, int64_t works, int head_dim);
  template <typename T>
  absl::Status Reserve(int64_t count, const char* what, cudaStream_t stream, DeviceArray<T>* array,
                       int64_t* capacity);

  const int multiprocessors_;
  DeviceArray<AttentionCounters> counters_;
  DeviceArray<SplitMail> mail_;
  std::map<std::pair<int, int>, int> shared_clusters_;  // by head size and CTAs of a cluster
  // A few: layers may differ in their windows. The same operations in the same order get the same
  // ones, so that they need no more memory the second time.
  std::vector<Plan> plans_;
  size_t plans_used_ = 0;  // of the batch at hand
  bool may_grow_ = true;
  uint64_t memory_generation_ = 0;

  DeviceArray<float> partial_, prefill_merged_, prefill_handed_;
  DeviceArray<unsigned> splits_done_, prefill_handed_flags_;
  DeviceArray<RedoUnit> redo_;
  int64_t partial_capacity_ = 0, prefill_merged_capacity_ = 0;
  int64_t prefill_handed_capacity_ = 0, prefill_handed_flags_capacity_ = 0;
  int64_t splits_done_capacity_ = 0, redo_capacity_ = 0;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_H_
