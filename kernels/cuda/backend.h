#ifndef ISOBIT_KERNELS_CUDA_BACKEND_H_
#define ISOBIT_KERNELS_CUDA_BACKEND_H_

// The CUDA backend: kernels/ops.h on one Hopper GPU. All work goes to one stream; nothing but
// Synchronize(), Wait(), Counters() and copies larger than the staging memory waits for the device.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backends.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/gemm_planner.h"
#include "kernels/cuda/transfers.h"
#include "kernels/ops.h"

namespace isobit::cuda {

class CudaBackend final : public Backend {
 public:
  static absl::StatusOr<std::unique_ptr<Backend>> Create(const CudaOptions& options);
  ~CudaBackend() override;

  DeviceInfo Info() const override;
  BackendCounters Counters() const override;
  absl::Status CheckModel(const ModelShape& shape) const override;

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(std::span<const MatrixSource> parts,
                                                     WeightLayout layout) override;
  absl::StatusOr<std::unique_ptr<Weight>> LoadQkvWeight(std::span<const MatrixSource> parts,
                                                        const QkvHeads& heads) override;
  absl::StatusOr<std::unique_ptr<KvCache>> CreateKvCache(const KvCacheShape& shape) override;
  void FillPages(KvCache& cache, std::span<const int32_t> pages, Bf16 value) override;

  void Upload(const void* from, size_t bytes, void* to) override;
  void Download(const void* from, size_t bytes, void* to) override;

  void Run(const Embed& op) override;
  void Run(const RmsNorm& op) override;
  void Run(const Gemm& op) override;
  void Run(const RopeKvWrite& op) override;
  void Run(const QkvProjection& op) override;
  void Run(const Attention& op) override;
  void Run(const ScoreTokens& op) override;
  void Run(const SampleTokens& op) override;

  std::unique_ptr<Recording> Record(const std::function<void()>& issue) override;
  bool Replay(const Recording& recording) override;
  std::unique_ptr<Moment> Mark() override;
  double SecondsBetween(const Moment& begin, const Moment& end) const override;
  void BeginRange(const char* name) override;
  void EndRange() override;

  absl::Status Synchronize() override;
  Fence PlaceFence() override;
  absl::Status Wait(Fence fence) override;

 private:
  explicit CudaBackend(int device) : device_(device) {}

  // The calling thread's device is this one, unless an error is kept already: then false, and there
  // is nothing to do.
  bool Ready();
  // The plan for this many rows, whose tiles are counted.
  const GemmPlan& PlanFor(const PackedLayout& weight, const Gemm& op);
  // Keeps the first error.
  void Keep(absl::Status status);
  void Keep(cudaError_t error, const char* doing);

  const int device_;
  std::string name_, capability_;
  int multiprocessors_ = 0;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Transfers> transfers_;
  std::unique_ptr<AttentionRunner> attention_;
  std::unique_ptr<GemmPlanner> planner_;
  uint64_t gemm_count_ = 0;
  bool is_recording_ = false;
  bool recording_failed_ = false;  // an operation could not be recorded
  absl::Status error_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_BACKEND_H_
