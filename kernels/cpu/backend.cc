#include "kernels/cpu/backend.h"

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/backends.h"
#include "kernels/cpu/embed.h"
#include "kernels/cpu/kv_cache.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/rope.h"
#include "kernels/host.h"
#include "kernels/shapes.h"

namespace isobit {
namespace {

constexpr int kMaxThreads = 1024;

}  // namespace

CpuBackend::CpuBackend(int threads, const InstructionSet& instructions)
    : instructions_(instructions.name),
      context_(threads, instructions.targets),
      gemm_(context_),
      attention_(context_),
      score_(context_),
      sample_(context_) {}

DeviceInfo CpuBackend::Info() const {
  const HostLimits host = ReadHostLimits();
  DeviceInfo info;
  info.kind = "cpu";
  info.name = host.processor;
  info.instructions = instructions_;
  info.threads = context_.pool.threads();
  info.memory_bytes = host.memory_bytes;
  info.available_bytes = host.available_bytes;
  return info;
}

BackendCounters CpuBackend::Counters() const {
  BackendCounters counters;
  counters.gemm_tiles = context_.gemm_tiles;
  counters.gemm_tiles_exact = context_.gemm_tiles_exact;
  counters.attention_tiles = context_.attention_tiles;
  counters.attention_tiles_exact = context_.attention_tiles_exact;
  return counters;
}

absl::Status CpuBackend::CheckModel(const ModelShape& shape) const {
  if (absl::Status status = CheckModelShape(shape); !status.ok()) return status;
  return CheckCpuHeadDim(shape.head_dim);
}

absl::StatusOr<std::unique_ptr<Buffer>> CpuBackend::Allocate(size_t bytes) {
  return AllocateHostBuffer(bytes);
}

absl::StatusOr<std::unique_ptr<Weight>> CpuBackend::LoadWeight(std::span<const MatrixSource> parts,
                                                               WeightLayout layout) {
  return PackedWeight::Load(parts, layout, context_.pool, weights_);
}

absl::StatusOr<std::unique_ptr<KvCache>> CpuBackend::CreateKvCache(const KvCacheShape& shape) {
  return CpuKvCache::Create(shape);
}

void CpuBackend::FillPages(KvCache& cache, std::span<const int32_t> pages, Bf16 value) {
  static_cast<CpuKvCache&>(cache).Fill(pages, value);
}

void CpuBackend::Upload(const void* from, size_t bytes, void* to) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void CpuBackend::Download(const void* from, size_t bytes, void* to) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void CpuBackend::Run(const Embed& op) { RunEmbed(context_, op); }
void CpuBackend::Run(const RmsNorm& op) { RunRmsNorm(context_, op); }
void CpuBackend::Run(const Gemm& op) { gemm_.Run(op); }
void CpuBackend::Run(const RopeKvWrite& op) { RunRopeKvWrite(context_, op); }
void CpuBackend::Run(const Attention& op) { attention_.Run(op); }
void CpuBackend::Run(const ScoreTokens& op) { score_.Run(op); }
void CpuBackend::Run(const SampleTokens& op) { sample_.Run(op); }

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads must be between 0 and ", kMaxThreads, ", got ", options.threads));
  }
  absl::StatusOr<InstructionSet> instructions = FindInstructionSet(options.instructions);
  if (!instructions.ok()) return instructions.status();
  const int threads = options.threads > 0 ? options.threads : ReadHostLimits().processors;
  return std::make_unique<CpuBackend>(threads, *instructions);
}

}  // namespace isobit
