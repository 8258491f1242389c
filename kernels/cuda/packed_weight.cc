#include "kernels/cuda/packed_weight.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/shapes.h"

namespace isobit::cuda {
namespace {

// What one thread reads before it hands it to the GPU.
constexpr int64_t kStagingBytes = int64_t{4} << 20;

// A run of rows of one part, a whole number of blocks (but for the part's end).
struct Chunk {
  const MatrixSource* part;
  int64_t begin, end;  // rows of the part
  int64_t first_row;   // of the matrix, where `begin` goes
};

std::vector<Chunk> SplitIntoChunks(std::span<const MatrixSource> parts, int64_t chunk_rows) {
  std::vector<Chunk> chunks;
  int64_t part_row = 0;
  for (const MatrixSource& part : parts) {
    for (int64_t begin = 0; begin < part.rows; begin += chunk_rows) {
      chunks.push_back({&part, begin, std::min(begin + chunk_rows, part.rows), part_row + begin});
    }
    part_row += part.rows;
  }
  return chunks;
}

// Reads rows into pinned memory while the GPU still packs the rows before them: two buffers in
// turn.
class Stager {
 public:
  Stager() = default;
  Stager(const Stager&) = delete;
  Stager& operator=(const Stager&) = delete;
  ~Stager() {
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    for (Buffers& b : buffers_) {
      if (b.host != nullptr) cudaFreeHost(b.host);
      if (b.device != nullptr) cudaFree(b.device);
      if (b.done != nullptr) cudaEventDestroy(b.done);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  cudaError_t Create(int device, size_t bytes) {
    cudaError_t error = cudaSetDevice(device);
    if (error != cudaSuccess) return error;
    error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    for (Buffers& b : buffers_) {
      if (error == cudaSuccess) error = cudaMallocHost(reinterpret_cast<void**>(&b.host), bytes);
      if (error == cudaSuccess) error = cudaMalloc(reinterpret_cast<void**>(&b.device), bytes);
      if (error == cudaSuccess) {
        error = cudaEventCreateWithFlags(&b.done, cudaEventDisableTiming);
      }
    }
    return error;
  }

  cudaError_t Pack(const Chunk& chunk, const PackedMatrix& matrix, void* packed) {
    Buffers& b = buffers_[next_];
    next_ ^= 1;
    cudaError_t error = cudaEventSynchronize(b.done);
    if (error != cudaSuccess) return error;
    const int64_t cols = matrix.layout.cols;
    for (int64_t row = chunk.begin; row < chunk.end; row += kWeightBlockRows) {
      chunk.part->read(row, std::min(row + kWeightBlockRows, chunk.end),
                       b.host + (row - chunk.begin) * cols);
    }
    const int64_t rows = chunk.end - chunk.begin;
    error = cudaMemcpyAsync(b.device, b.host, static_cast<size_t>(rows * cols) * sizeof(Bf16),
                            cudaMemcpyHostToDevice, stream_);
    if (error != cudaSuccess) return error;
    error = LaunchPackRows(b.device, chunk.first_row, rows, matrix.layout, packed, stream_);
    if (error != cudaSuccess) return error;
    return cudaEventRecord(b.done, stream_);
  }

  cudaError_t Finish() { return cudaStreamSynchronize(stream_); }

 private:
  struct Buffers {
    Bf16* host = nullptr;
    Bf16* device = nullptr;
    cudaEvent_t done = nullptr;
  };
  cudaStream_t stream_ = nullptr;
  Buffers buffers_[2];
  int next_ = 0;
};

// All chunks, by several threads. The first error ends the others' work too.
cudaError_t PackAll(const std::vector<Chunk>& chunks, int64_t chunk_rows, int threads,
                    const PackedMatrix& matrix, void* packed) {
  int device = 0;
  cudaError_t first_error = cudaGetDevice(&device);
  if (first_error != cudaSuccess) return first_error;
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  auto work = [&] {
    Stager stager;
    cudaError_t error =
        stager.Create(device, static_cast<size_t>(chunk_rows * matrix.layout.cols) * sizeof(Bf16));
    for (size_t i; error == cudaSuccess && !failed && (i = next++) < chunks.size();) {
      error = stager.Pack(chunks[i], matrix, packed);
    }
    if (error == cudaSuccess) error = stager.Finish();
    if (error == cudaSuccess) return;
    failed = true;
    const std::lock_guard<std::mutex> lock(mutex);
    if (first_error == cudaSuccess) first_error = error;
  };
  std::vector<std::thread> others;
  const auto wanted = static_cast<int>(std::min<size_t>(std::max(threads, 1), chunks.size()));
  for (int i = 1; i < wanted; ++i) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  return first_error;
}

absl::Status OutOfMemory(int64_t bytes) {
  size_t free_bytes = 0, total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  return absl::ResourceExhaustedError(absl::StrCat("weights need ", bytes, " bytes of GPU memory, ",
                                                   free_bytes, " of ", total_bytes, " are free"));
}

}  // namespace

PackedWeight::PackedWeight(const PackedMatrix& matrix, WeightLayout layout)
    : Weight(matrix.layout.rows, matrix.layout.cols, layout), matrix_(matrix) {}

PackedWeight::~PackedWeight() { cudaFree(const_cast<void*>(matrix_.data)); }

absl::StatusOr<std::unique_ptr<PackedWeight>> PackedWeight::Load(
    std::span<const MatrixSource> parts, WeightLayout layout, int threads) {
  return Load(parts, layout, HeadRows{}, threads);
}

absl::StatusOr<std::unique_ptr<PackedWeight>> PackedWeight::LoadHeads(
    std::span<const MatrixSource> parts, const HeadRows& heads, int threads) {
  return Load(parts, WeightLayout::kConcatenated, heads, threads);
}

absl::StatusOr<std::unique_ptr<PackedWeight>> PackedWeight::Load(
    std::span<const MatrixSource> parts, WeightLayout layout, const HeadRows& heads, int threads) {
  const absl::StatusOr<MatrixShape> shape = CheckMatrixParts(parts, layout);
  if (!shape.ok()) return shape.status();
  PackedMatrix matrix;
  matrix.layout = {shape->rows, shape->cols, layout == WeightLayout::kGateUp, heads};
  const int64_t bytes = matrix.layout.Bytes();

  void* packed = nullptr;
  cudaError_t error = cudaMalloc(&packed, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // not sticky: forget it
    return OutOfMemory(bytes);
  }
  if (error != cudaSuccess) return FromCuda(error, "allocating weights");
  matrix.data = packed;
  std::unique_ptr<PackedWeight> weight(new PackedWeight(matrix, layout));

  error = cudaMemset(packed, 0, static_cast<size_t>(bytes));
  // The packing streams do not wait for the default stream.
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error != cudaSuccess) return FromCuda(error, "clearing weights");
  const int64_t rows_that_fit = kStagingBytes / (shape->cols * int64_t{sizeof(Bf16)});
  const int64_t chunk_rows =
      std::max<int64_t>(1, rows_that_fit / kWeightBlockRows) * kWeightBlockRows;
  error = PackAll(SplitIntoChunks(parts, chunk_rows), chunk_rows, threads, matrix, packed);
  if (error != cudaSuccess) return FromCuda(error, "packing weights");
  return weight;
}

}  // namespace isobit::cuda
