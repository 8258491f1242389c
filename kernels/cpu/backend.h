#ifndef ISOBIT_KERNELS_CPU_BACKEND_H_
#define ISOBIT_KERNELS_CPU_BACKEND_H_

// The fast CPU backend: the contract's bits with SIMD on all cores. Operations are done when Run()
// returns.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/instructions.h"
#include "kernels/cpu/sample.h"
#include "kernels/cpu/score.h"
#include "kernels/cpu/weight_arena.h"
#include "kernels/ops.h"

namespace isobit {

class CpuBackend final : public Backend {
 public:
  // threads >= 1.
  CpuBackend(int threads, const InstructionSet& instructions);

  DeviceInfo Info() const override;
  BackendCounters Counters() const override;
  absl::Status CheckModel(const ModelShape& shape) const override;

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(std::span<const MatrixSource> parts,
                                                     WeightLayout layout) override;
  absl::StatusOr<std::unique_ptr<KvCache>> CreateKvCache(const KvCacheShape& shape) override;
  void FillPages(KvCache& cache, std::span<const int32_t> pages, Bf16 value) override;

  void Upload(const void* from, size_t bytes, void* to) override;
  void Download(const void* from, size_t bytes, void* to) override;

  void Run(const Embed& op) override;
  void Run(const RmsNorm& op) override;
  void Run(const Gemm& op) override;
  void Run(const RopeKvWrite& op) override;
  void Run(const Attention& op) override;
  void Run(const ScoreTokens& op) override;
  void Run(const SampleTokens& op) override;

  absl::Status Synchronize() override { return absl::OkStatus(); }

 private:
  std::string instructions_;
  CpuContext context_;
  WeightArena weights_;
  GemmRunner gemm_;
  AttentionRunner attention_;
  ScoreRunner score_;
  SampleRunner sample_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_BACKEND_H_
