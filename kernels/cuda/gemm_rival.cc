// cuBLASLt as a rival in time (gemm_timing.h).

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/gemm_timing.h"
#include "kernels/cuda/qualify_cublaslt.h"

namespace isobit::cuda {

absl::StatusOr<std::vector<std::unique_ptr<TimedGraph>>> CaptureCublasLt(const ColdWeights& weights,
                                                                         int64_t rows, int count,
                                                                         int calls, const Bf16* x,
                                                                         Bf16* y, void* workspace,
                                                                         cudaStream_t stream) {
  static_assert(kRivalWorkspaceBytes >= CublasLtGemm::kWorkspaceBytes);
  std::vector<std::unique_ptr<TimedGraph>> graphs;
  std::string error;
  const auto rival =
      CublasLtGemm::Create(rows, weights.layout().rows, weights.layout().cols, &error);
  if (rival == nullptr) return graphs;
  for (const CublasLtAlgorithm& algorithm : rival->Heuristic(count)) {
    auto graph = TimedGraph::Capture(
        absl::StrCat("cublaslt ", graphs.size()), calls,
        [&](int i, cudaStream_t to) {
          return rival->Launch(algorithm, x, weights.Rows(i), y, workspace, to) ? cudaSuccess
                                                                                : cudaErrorUnknown;
        },
        stream);
    if (!graph.ok()) return graph.status();
    graphs.push_back(*std::move(graph));
  }
  return graphs;
}

}  // namespace isobit::cuda
