#include "tools/isobit/ceilings.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "invariance/row_sweep.h"
#include "kernels/backends.h"
#include "kernels/host.h"

namespace isobit {
namespace {

// Reads everything once. Several independent sums, so that loads and not additions set the pace;
// the compiler turns them into vectors.
uint64_t ReadAll(std::span<const uint64_t> words) {
  constexpr size_t kLanes = 64;
  std::array<uint64_t, kLanes> sums{};
  for (size_t i = 0; i + kLanes <= words.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += words[i + lane];
  }
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

// By `threads` threads together, the best of several passes.
absl::StatusOr<double> MeasureHostReadBandwidth(int threads) {
  constexpr size_t kBytes = size_t{512} << 20;
  constexpr int kPasses = 5;
  const auto count = static_cast<size_t>(std::max(threads, 1));
  const size_t words_each = kBytes / sizeof(uint64_t) / count;
  // Each thread writes its part first, so that the pages lie where it reads them: in huge ones, as
  // weights do.
  std::vector<std::unique_ptr<Buffer>> parts;
  for (size_t i = 0; i < count; ++i) {
    absl::StatusOr<std::unique_ptr<Buffer>> part =
        AllocateHostBuffer(words_each * sizeof(uint64_t));
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
  }
  std::atomic<uint64_t> sink = 0;
  double best = 0;
  for (int pass = 0; pass <= kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> workers;
    for (const std::unique_ptr<Buffer>& part : parts) {
      workers.emplace_back([words = part->As<uint64_t>(), &sink, words_each, pass] {
        if (pass == 0) std::fill_n(words, words_each, 1);
        sink += ReadAll(std::span(words, words_each));
      });
    }
    for (std::thread& worker : workers) worker.join();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const double read_bytes = static_cast<double>(words_each * count * sizeof(uint64_t));
    if (pass > 0) best = std::max(best, read_bytes / seconds.count());
  }
  return best;
}

absl::StatusOr<double> MeasureReadBandwidth(const DeviceInfo& device) {
  if (device.kind == "cuda") return MeasureCudaReadBandwidth({});
  return MeasureHostReadBandwidth(device.threads);
}

}  // namespace

absl::StatusOr<Ceilings> MeasureCeilings(Backend& backend) {
  constexpr double kSeconds = 0.3;  // threads and clocks need a while to get going
  const bool gpu = backend.Info().kind == "cuda";
  const int64_t size = gpu ? 8192 : 1024, rows = gpu ? 4096 : 64;
  Ceilings ceilings;
  auto bandwidth = MeasureReadBandwidth(backend.Info());
  if (!bandwidth.ok()) return bandwidth.status();
  ceilings.read_bytes_per_second = *bandwidth;

  auto weight = RandomWeight(backend, 1, size, size, WeightLayout::kConcatenated);
  if (!weight.ok()) return weight.status();
  SplitMix random(2);
  std::vector<Bf16> values;
  for (int64_t i = 0; i < rows * size; ++i) values.push_back(RoundToBf16(random.Normal()));
  auto x = UploadNew(backend, values);
  auto out = backend.Allocate(values.size() * sizeof(Bf16));
  if (!x.ok()) return x.status();
  if (!out.ok()) return out.status();
  for (double spent = 0; spent < kSeconds;) {
    const std::unique_ptr<Moment> begin = backend.Mark();
    backend.Run(Gemm{.rows = rows,
                     .weight = weight->get(),
                     .x = (*x)->As<Bf16>(),
                     .out_bf16 = (*out)->As<Bf16>()});
    const std::unique_ptr<Moment> end = backend.Mark();
    if (absl::Status status = backend.Synchronize(); !status.ok()) return status;
    const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(size * size);
    const double seconds = backend.SecondsBetween(*begin, *end);
    ceilings.flops_per_second = std::max(ceilings.flops_per_second, flops / seconds);
    spent += seconds;
  }
  return ceilings;
}

}  // namespace isobit
