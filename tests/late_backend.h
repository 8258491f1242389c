#ifndef ISOBIT_TESTS_LATE_BACKEND_H_
#define ISOBIT_TESTS_LATE_BACKEND_H_

// The reference backend as a GPU's host sees one: nothing is done before somebody waits for it, and
// then no more than what was waited for. Recordings are replayed exactly as they were recorded,
// with the numbers of then and the memory of now, as a CUDA graph is.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/reference/backend.h"

namespace isobit {

class LateBackend : public reference::ReferenceBackend {
 public:
  // kind: what Info() says. The engine records steps for "cuda".
  explicit LateBackend(std::string kind = "reference") : kind_(std::move(kind)) {}

  DeviceInfo Info() const override;

  void FillPages(KvCache& cache, std::span<const int32_t> pages, Bf16 value) override;
  void Upload(const void* from, size_t bytes, void* to) override;
  void Download(const void* from, size_t bytes, void* to) override;

  void Run(const Embed& op) override { Issue(op); }
  void Run(const RmsNorm& op) override { Issue(op); }
  void Run(const Gemm& op) override { Issue(op); }
  void Run(const RopeKvWrite& op) override { Issue(op); }
  void Run(const Attention& op) override { Issue(op); }
  void Run(const ScoreTokens& op) override { Issue(op); }
  void Run(const SampleTokens& op) override { Issue(op); }

  std::unique_ptr<Recording> Record(const std::function<void()>& issue) override;
  bool Replay(const Recording& recording) override;

  absl::Status Synchronize() override;
  Fence PlaceFence() override { return {done_ + issued_.size()}; }
  absl::Status Wait(Fence fence) override;

 private:
  using Action = std::function<void()>;
  struct Recorded : Recording {
    std::vector<Action> actions;
  };

  template <typename Op>
  void Issue(const Op& op) {
    if constexpr (requires { op.batch; }) {
      // The batch is the caller's: it is copied too.
      issued_.push_back([this, op, batch = *op.batch] {
        Op with_copy = op;
        with_copy.batch = &batch;
        ReferenceBackend::Run(with_copy);
      });
    } else {
      issued_.push_back([this, op] { ReferenceBackend::Run(op); });
    }
  }

  const std::string kind_;
  std::vector<Action> issued_;  // and not done
  uint64_t done_ = 0;           // actions
};

}  // namespace isobit

#endif  // ISOBIT_TESTS_LATE_BACKEND_H_
