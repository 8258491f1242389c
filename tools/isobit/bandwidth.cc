#include "tools/isobit/bandwidth.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

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

}  // namespace

double MeasureReadBandwidth(int threads, size_t bytes) {
  constexpr int kPasses = 5;
  const auto count = static_cast<size_t>(std::max(threads, 1));
  const size_t words_each = bytes / sizeof(uint64_t) / count;
  // Each thread writes its part first, so that the pages lie where it reads them.
  std::vector<std::vector<uint64_t>> parts(count);
  std::atomic<uint64_t> sink = 0;
  double best = 0;
  for (int pass = 0; pass <= kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> workers;
    for (std::vector<uint64_t>& part : parts) {
      workers.emplace_back([&part, &sink, words_each] {
        if (part.empty()) part.assign(words_each, 1);
        sink += ReadAll(part);
      });
    }
    for (std::thread& worker : workers) worker.join();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const double read_bytes = static_cast<double>(words_each * count * sizeof(uint64_t));
    if (pass > 0) best = std::max(best, read_bytes / seconds.count());
  }
  return best;
}

}  // namespace isobit
