#include "kernels/cuda/backend.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/attention_timing.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/device_check.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/embed.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gemm_plan_file.h"
#include "kernels/cuda/gemm_timing.h"
#include "kernels/cuda/gemm_tuner.h"
#include "kernels/cuda/kv_cache.h"
#include "kernels/cuda/moment.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/nvtx_range.h"
#include "kernels/cuda/packed_weight.h"
#include "kernels/cuda/recording.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/sample.h"
#include "kernels/cuda/score.h"
#include "kernels/cuda/soft_cap.h"
#include "kernels/cuda/wide_norm.h"
#include "kernels/host.h"
#include "kernels/shapes.h"

namespace isobit {
namespace cuda {
namespace {

// The kernels use Hopper's own instructions.
constexpr int kMajor = 9, kMinor = 0;
// Threads that read and pack weights.
constexpr int kMaxLoadThreads = 16;

class DeviceBuffer : public Buffer {
 public:
  DeviceBuffer(uint8_t* data, size_t bytes, int device) : Buffer(data, bytes), device_(device) {}
  ~DeviceBuffer() override {
    cudaSetDevice(device_);
    cudaFree(data());
  }

 private:
  const int device_;
};

absl::Status CheckDevice(int device, cudaDeviceProp* properties) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    cudaGetLastError();
    return absl::UnavailableError(
        absl::StrCat("no CUDA device can be used: ", cudaGetErrorString(error)));
  }
  if (device < 0 || device >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("CUDA device ", device, " does not exist, there are ", count));
  }
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(properties, device);
  if (error != cudaSuccess) return FromCuda(error, "opening the CUDA device");
  if (properties->major != kMajor || properties->minor != kMinor) {
    return absl::FailedPreconditionError(absl::StrCat(
        properties->name, " has compute capability ", properties->major, ".", properties->minor,
        ", the CUDA backend needs ", kMajor, ".", kMinor, " (H100, H200)"));
  }
  return absl::OkStatus();
}

absl::Status CheckMultiple(const char* name, int64_t value, int64_t unit) {
  if (value % unit == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the CUDA backend needs a ", name,
                                                 " that is a multiple of ", unit, ", got ", value));
}

// What was measured on this device with these versions.
absl::StatusOr<std::vector<GemmChoice>> ReadGemmPlans(const CudaOptions& options) {
  const std::string& path = options.gemm_plans;
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  absl::StatusOr<GemmPlanFile> file = ParseGemmPlanFile(text);
  if (!file.ok()) {
    return absl::Status(file.status().code(), absl::StrCat(path, ": ", file.status().message()));
  }
  const absl::StatusOr<GemmPlanKey> here = ReadGemmPlanKey(options.device);
  if (!here.ok()) return here.status();
  if (file->key != *here) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " was measured on another system, measure again: it is for ",
                     ToString(file->key), ", this is ", ToString(*here)));
  }
  return std::move(file->choices);
}

int LoadThreads() { return std::min(ReadHostLimits().processors, kMaxLoadThreads); }

std::string SupportedHeadDims() {
  std::string list;
  for (int head_dim : kHeadDims) absl::StrAppend(&list, list.empty() ? "" : ", ", head_dim);
  return list;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CudaBackend::Create(const CudaOptions& options) {
  cudaDeviceProp properties = {};
  if (absl::Status s = CheckDevice(options.device, &properties); !s.ok()) return s;
  std::unique_ptr<CudaBackend> backend(new CudaBackend(options.device));
  backend->name_ = properties.name;
  backend->capability_ = absl::StrCat("sm_", properties.major, properties.minor);
  backend->multiprocessors_ = properties.multiProcessorCount;
  const cudaError_t error = cudaStreamCreateWithFlags(&backend->stream_, cudaStreamNonBlocking);
  if (error != cudaSuccess) return FromCuda(error, "creating a CUDA stream");
  if (absl::Status s = CheckDeviceArithmetic(backend->stream_); !s.ok()) return s;

  auto transfers = Transfers::Create(backend->stream_);
  if (!transfers.ok()) return transfers.status();
  backend->transfers_ = *std::move(transfers);
  auto attention = AttentionRunner::Create(backend->multiprocessors_);
  if (!attention.ok()) return attention.status();
  backend->attention_ = *std::move(attention);
  backend->planner_ = std::make_unique<GemmPlanner>(backend->multiprocessors_);
  if (!options.gemm_plans.empty()) {
    auto choices = ReadGemmPlans(options);
    if (!choices.ok()) return choices.status();
    backend->planner_->Use(*std::move(choices));
  }
  return backend;
}

CudaBackend::~CudaBackend() {
  cudaSetDevice(device_);
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  transfers_.reset();
  attention_.reset();
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

bool CudaBackend::Ready() {
  if (!error_.ok()) return false;
  Keep(cudaSetDevice(device_), "choosing the CUDA device");
  return error_.ok();
}

void CudaBackend::Keep(absl::Status status) {
  if (error_.ok()) error_ = std::move(status);
}

void CudaBackend::Keep(cudaError_t error, const char* doing) {
  if (error != cudaSuccess) Keep(FromCuda(error, doing));
}

DeviceInfo CudaBackend::Info() const {
  DeviceInfo info;
  info.kind = "cuda";
  info.name = name_;
  info.instructions = capability_;
  info.asynchronous = true;
  info.threads = multiprocessors_;
  size_t free_bytes = 0, total_bytes = 0;
  if (cudaSetDevice(device_) == cudaSuccess &&
      cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess) {
    info.memory_bytes = static_cast<int64_t>(total_bytes);
    info.available_bytes = static_cast<int64_t>(free_bytes);
  }
  return info;
}

BackendCounters CudaBackend::Counters() const {
  cudaSetDevice(device_);
  BackendCounters counters = attention_->Counters(stream_);
  counters.gemm_tiles = gemm_count_;
  return counters;
}

absl::Status CudaBackend::CheckModel(const ModelShape& shape) const {
  if (absl::Status s = CheckModelShape(shape); !s.ok()) return s;
  if (absl::Status s = CheckMultiple("width", shape.width, kGemmColsMultiple); !s.ok()) return s;
  if (absl::Status s = CheckMultiple("ffn_width", shape.ffn_width, kGemmColsMultiple); !s.ok()) {
    return s;
  }
  if (!IsSupportedHeadDim(shape.head_dim)) {
    return absl::InvalidArgumentError(absl::StrCat("the CUDA backend has no attention heads of ",
                                                   shape.head_dim, ", only of ",
                                                   SupportedHeadDims()));
  }
  if (shape.page_tokens > kMaxPageTokens) {
    return absl::InvalidArgumentError(absl::StrCat("the CUDA backend's KV pages hold at most ",
                                                   kMaxPageTokens, " tokens, not ",
                                                   shape.page_tokens));
  }
  if (shape.vocab > MaxVocab()) {
    return absl::InvalidArgumentError(absl::StrCat("the CUDA backend can't sample from ",
                                                   shape.vocab, " tokens, only from ", MaxVocab()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaBackend::Allocate(size_t bytes) {
  if (!Ready()) return error_;
  absl::StatusOr<uint8_t*> data = AllocateDevice(bytes, "a buffer");
  if (!data.ok()) return data.status();
  return std::make_unique<DeviceBuffer>(*data, bytes, device_);
}

absl::StatusOr<std::unique_ptr<Weight>> CudaBackend::LoadWeight(std::span<const MatrixSource> parts,
                                                                WeightLayout layout) {
  if (!Ready()) return error_;
  return PackedWeight::Load(parts, layout, LoadThreads());
}

absl::StatusOr<std::unique_ptr<Weight>> CudaBackend::LoadQkvWeight(
    std::span<const MatrixSource> parts, const QkvHeads& heads) {
  if (!Ready()) return error_;
  const bool fits = heads.head_dim % kPanelRows == 0 && heads.rotary_dim % kPanelRows == 0;
  if (!fits) return LoadWeight(parts, WeightLayout::kConcatenated);
  const HeadRows rows = {heads.head_dim, heads.rotary_dim, heads.heads + heads.kv_heads};
  return PackedWeight::LoadHeads(parts, rows, LoadThreads());
}

absl::StatusOr<std::unique_ptr<KvCache>> CudaBackend::CreateKvCache(const KvCacheShape& shape) {
  if (!Ready()) return error_;
  return CudaKvCache::Create(shape);
}

void CudaBackend::FillPages(KvCache& cache, std::span<const int32_t> pages, Bf16 value) {
  if (!Ready()) return;
  Keep(static_cast<CudaKvCache&>(cache).Fill(pages, value, stream_), "filling KV pages");
}

void CudaBackend::Upload(const void* from, size_t bytes, void* to) {
  if (!Ready()) return;
  attention_->ForgetPlans();
  Keep(transfers_->Upload(from, bytes, to), "copying to the GPU");
}

void CudaBackend::Download(const void* from, size_t bytes, void* to) {
  if (!Ready()) return;
  Keep(transfers_->Download(from, bytes, to), "copying from the GPU");
}

void CudaBackend::Run(const Embed& op) {
  if (!Ready()) return;
  const NvtxRange range("embed");
  const auto& table = static_cast<const PackedWeight&>(*op.table);
  Keep(LaunchEmbed(op, table.matrix(), stream_), "launching the embedding");
}

void CudaBackend::Run(const RmsNorm& op) {
  if (!Ready()) return;
  const NvtxRange range("norm");
  Keep(IsWideNorm(op) ? LaunchWideNorm(op, stream_) : LaunchRmsNorm(op, stream_),
       "launching a norm");
}

const GemmPlan& CudaBackend::PlanFor(const PackedLayout& weight, const Gemm& op) {
  const GemmPlan& plan = planner_->Plan(weight, op.epilogue, op.rows);
  gemm_count_ += static_cast<uint64_t>(plan.token_tiles) * static_cast<uint64_t>(plan.row_tiles);
  return plan;
}

void CudaBackend::Run(const Gemm& op) {
  if (!Ready() || op.rows == 0) return;
  const NvtxRange range("gemm");
  const PackedMatrix& matrix = static_cast<const PackedWeight&>(*op.weight).matrix();
  Keep(LaunchGemm(op, matrix, PlanFor(matrix.layout, op), GemmLaunch{}, stream_),
       "launching a GEMM");
  if (op.soft_cap > 0) {
    Keep(LaunchSoftCap(op.out_fp32, op.rows * matrix.layout.rows, op.soft_cap, stream_),
         "launching a soft cap");
  }
}

void CudaBackend::Run(const RopeKvWrite& op) {
  if (!Ready()) return;
  const NvtxRange range("rope");
  const auto& cache = static_cast<const CudaKvCache&>(*op.cache);
  Keep(LaunchRopeKvWrite(op, cache, stream_), "launching the rotation");
}

void CudaBackend::Run(const QkvProjection& op) {
  const PackedMatrix& matrix = static_cast<const PackedWeight&>(*op.projection.weight).matrix();
  if (matrix.layout.heads.head_dim == 0) {
    Run(op.projection);
    Run(op.rope);
    return;
  }
  if (!Ready() || op.projection.rows == 0) return;
  const NvtxRange range("qkv");
  const auto& cache = static_cast<const CudaKvCache&>(*op.rope.cache);
  Keep(LaunchQkvProjection(op, matrix, cache, PlanFor(matrix.layout, op.projection), GemmLaunch{},
                           stream_),
       "launching a projection of queries, keys and values");
}

void CudaBackend::Run(const Attention& op) {
  if (!Ready()) return;
  const NvtxRange range("attention");
  const auto& cache = static_cast<const CudaKvCache&>(*op.cache);
  absl::Status status = attention_->Run(op, cache, stream_);
  if (is_recording_ && absl::IsFailedPrecondition(status)) {
    recording_failed_ = true;
    return;
  }
  Keep(std::move(status));
}

void CudaBackend::Run(const ScoreTokens& op) {
  if (!Ready()) return;
  const NvtxRange range("score");
  Keep(LaunchScoreTokens(op, stream_), "launching the scoring of tokens");
}

void CudaBackend::Run(const SampleTokens& op) {
  if (!Ready()) return;
  const NvtxRange range("sample");
  Keep(LaunchSampleTokens(op, stream_), "launching the sampling of tokens");
}

std::unique_ptr<Recording> CudaBackend::Record(const std::function<void()>& issue) {
  if (!Ready()) return nullptr;
  const uint64_t gemm_count = gemm_count_;
  is_recording_ = true;
  recording_failed_ = false;
  attention_->ForgetPlans();
  attention_->set_may_grow(false);
  auto recording = CudaRecording::Capture(stream_, issue);
  attention_->set_may_grow(true);
  attention_->ForgetPlans();  // those that were recorded were not made
  is_recording_ = false;
  const uint64_t gemm_tiles = gemm_count_ - gemm_count;
  gemm_count_ = gemm_count;
  if (!recording.ok()) {
    Keep(recording.status());
    return nullptr;
  }
  if (recording_failed_) return nullptr;
  (*recording)->gemm_tiles = gemm_tiles;
  (*recording)->memory_generation = attention_->memory_generation();
  return *std::move(recording);
}

bool CudaBackend::Replay(const Recording& recording) {
  const auto& recorded = static_cast<const CudaRecording&>(recording);
  if (!Ready() || recorded.memory_generation != attention_->memory_generation()) return false;
  const NvtxRange range("recorded step");
  Keep(recorded.Launch(stream_), "launching a recorded step");
  gemm_count_ += recorded.gemm_tiles;
  attention_->ForgetPlans();  // it has made its own in their place
  return true;
}

std::unique_ptr<Moment> CudaBackend::Mark() {
  auto moment = std::make_unique<CudaMoment>();
  if (Ready()) Keep(moment->Note(stream_, is_recording_), "marking a moment");
  return moment;
}

double CudaBackend::SecondsBetween(const Moment& begin, const Moment& end) const {
  float milliseconds = 0;
  if (cudaEventElapsedTime(&milliseconds, static_cast<const CudaMoment&>(begin).event(),
                           static_cast<const CudaMoment&>(end).event()) != cudaSuccess) {
    cudaGetLastError();  // the moments of a failed step: its error is kept
    return 0;
  }
  return 1e-3 * static_cast<double>(milliseconds);
}

void CudaBackend::BeginRange(const char* name) { nvtxRangePushA(name); }
void CudaBackend::EndRange() { nvtxRangePop(); }

absl::Status CudaBackend::Synchronize() {
  const NvtxRange range("wait");
  // Without this, downloads would be delivered to memory that the caller may have freed.
  const cudaError_t error = transfers_->Finish();
  Keep(error, "running on the GPU");
  return error_;
}

Fence CudaBackend::PlaceFence() {
  Fence fence;
  if (Ready()) Keep(transfers_->PlaceFence(&fence), "placing a fence");
  return fence;
}

absl::Status CudaBackend::Wait(Fence fence) {
  const NvtxRange range("wait");
  if (Ready()) Keep(transfers_->Wait(fence), "running on the GPU");
  return error_;
}

}  // namespace cuda

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options) {
  return cuda::CudaBackend::Create(options);
}

absl::StatusOr<CudaGemmPlans> TuneCudaGemms(const CudaOptions& options,
                                            std::span<const GemmShape> shapes, int64_t max_rows,
                                            const std::function<void(const std::string&)>& say) {
  cudaDeviceProp properties = {};
  if (absl::Status s = cuda::CheckDevice(options.device, &properties); !s.ok()) return s;
  auto key = cuda::ReadGemmPlanKey(options.device);
  if (!key.ok()) return key.status();
  cuda::GemmTunerOptions tuner;
  tuner.max_rows = max_rows;
  tuner.max_fp32_rows = std::min(max_rows, tuner.max_fp32_rows);
  auto tuning = cuda::TuneGemms(shapes, tuner, say);
  if (!tuning.ok()) return tuning.status();
  return CudaGemmPlans{cuda::ToJson({*std::move(key), std::move(tuning->choices)}),
                       std::move(tuning->rejected)};
}

absl::StatusOr<std::vector<GemmTime>> TimeCudaGemm(const CudaOptions& options,
                                                   const GemmShape& shape,
                                                   std::span<const int64_t> rows) {
  cudaDeviceProp properties = {};
  if (absl::Status s = cuda::CheckDevice(options.device, &properties); !s.ok()) return s;
  return cuda::TimeGemm(shape, rows, properties.multiProcessorCount);
}

absl::StatusOr<std::vector<double>> TimeCudaAttention(const CudaOptions& options,
                                                      std::span<const AttentionBatch> shapes,
                                                      int rounds) {
  cudaDeviceProp properties = {};
  if (absl::Status s = cuda::CheckDevice(options.device, &properties); !s.ok()) return s;
  auto timer = cuda::AttentionTimer::Create(properties.multiProcessorCount);
  if (!timer.ok()) return timer.status();
  std::vector<double> seconds;
  for (const AttentionBatch& shape : shapes) {
    const auto time = (*timer)->Time(shape, rounds);
    if (!time.ok()) return time.status();
    seconds.push_back(*time);
  }
  return seconds;
}

}  // namespace isobit
