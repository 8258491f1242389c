#ifndef ISOBIT_KERNELS_CPU_CONTEXT_H_
#define ISOBIT_KERNELS_CPU_CONTEXT_H_

// What every operation of the CPU backend runs on.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hwy/targets.h"
#include "kernels/cpu/thread_pool.h"

namespace isobit {

// Threads, the instruction set and the counters of one backend. Highway's own dispatch is global to
// the process; this one belongs to a backend, so that backends with different instructions can run
// side by side.
struct CpuContext {
  // targets: the Highway targets that may be used. The best of them that was compiled is.
  CpuContext(int threads, int64_t targets) : pool(threads) { target.Update(targets); }

  ThreadPool pool;
  hwy::ChosenTarget target;
  // Relaxed: for people and tests only.
  std::atomic<uint64_t> gemm_tiles{0};
  std::atomic<uint64_t> gemm_tiles_exact{0};
  std::atomic<uint64_t> attention_tiles{0};
  std::atomic<uint64_t> attention_tiles_exact{0};
};

// The function of a table made by HWY_EXPORT that suits the context's instruction set:
//   SelectKernel(HWY_DISPATCH_TABLE(NormRow), context)(arguments)
template <typename Function, size_t kEntries>
Function* SelectKernel(Function* const (&table)[kEntries], const CpuContext& context) {
  // One entry: the program was compiled for a single target.
  return table[kEntries == 1 ? 0 : context.target.GetIndex()];
}

// Calls body(row) for every row, on the pool if there is enough work: a task has so many rows that
// it touches some thousand elements, about a microsecond.
template <typename Body>
void ForRows(CpuContext& context, int64_t rows, int64_t elements_per_row, const Body& body) {
  constexpr int64_t kElementsPerTask = 8192;
  const int64_t grain =
      std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, elements_per_row));
  context.pool.ParallelFor((rows + grain - 1) / grain, [&](int64_t task, int) {
    const int64_t end = std::min(rows, (task + 1) * grain);
    for (int64_t row = task * grain; row < end; ++row) body(row);
  });
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_CONTEXT_H_
