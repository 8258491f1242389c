#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_TIMING_H_
#define ISOBIT_KERNELS_CUDA_ATTENTION_TIMING_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backends.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/stream.h"

namespace isobit::cuda {

// Times attention on the current device, as CUDA graphs of several layers, so that keys and values
// are read from memory and not from L2.
class AttentionTimer {
 public:
  // For a device with this many multiprocessors.
  static absl::StatusOr<std::unique_ptr<AttentionTimer>> Create(int multiprocessors);

  // Seconds of one layer, the median of `rounds`. ResourceExhausted if the keys don't fit.
  absl::StatusOr<double> Time(const AttentionBatch& shape, int rounds);

 private:
  AttentionTimer() = default;

  std::unique_ptr<AttentionRunner> runner_;
  Stream stream_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_TIMING_H_
