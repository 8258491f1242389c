#ifndef ISOBIT_KERNELS_REFERENCE_BACKEND_H_
#define ISOBIT_KERNELS_REFERENCE_BACKEND_H_

// The oracle: every operation of kernels/ops.h as plain loops over the functions of
// kernels/numerics, in the order in which the contract names them, on one thread. It is made to be
// read and to be compared with; nothing here is made to be fast.

#include <cassert>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "kernels/ops.h"

namespace isobit::reference {

// [rows][cols] as the source gave it; of kGateUp all gate rows, then all up rows.
class ReferenceWeight : public Weight {
 public:
  ReferenceWeight(int64_t rows, int64_t cols, WeightLayout layout, std::unique_ptr<Buffer> memory)
      : Weight(rows, cols, layout), memory_(std::move(memory)) {}

  Bf16* Row(int64_t row) const { return memory_->As<Bf16>() + row * cols(); }

 private:
  std::unique_ptr<Buffer> memory_;
};

// Keys, then values, each [layers][pages][kv_heads][page_tokens][head_dim].
class ReferenceKvCache : public KvCache {
 public:
  ReferenceKvCache(const KvCacheShape& shape, std::unique_ptr<Buffer> memory)
      : KvCache(shape), memory_(std::move(memory)) {}

  // head_dim elements.
  Bf16* Key(int layer, int64_t page, int kv_head, int64_t slot) const {
    const KvCacheShape& s = shape();
    assert(layer >= 0 && layer < s.layers && page >= 0 && page < s.pages);
    assert(kv_head >= 0 && kv_head < s.kv_heads && slot >= 0 && slot < s.page_tokens);
    const int64_t token = ((layer * s.pages + page) * s.kv_heads + kv_head) * s.page_tokens + slot;
    return memory_->As<Bf16>() + token * s.head_dim;
  }
  Bf16* Value(int layer, int64_t page, int kv_head, int64_t slot) const {
    return Key(layer, page, kv_head, slot) + shape().BytesPerPage() / 4 * shape().pages;
  }

 private:
  std::unique_ptr<Buffer> memory_;
};

// The page of a position of a sequence.
inline int32_t PageOf(const RowBatch& batch, int64_t sequence, int64_t position, int page_tokens) {
  return batch.page_table[sequence * batch.page_table_stride + position / page_tokens];
}

void Run(const Embed& op);
void Run(const RmsNorm& op);
void Run(const Gemm& op);
void Run(const RopeKvWrite& op);
void Run(const Attention& op);
void Run(const ScoreTokens& op);
void Run(const SampleTokens& op);

class ReferenceBackend : public Backend {
 public:
  DeviceInfo Info() const override;
  BackendCounters Counters() const override { return {}; }
  absl::Status CheckModel(const ModelShape& shape) const override;

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(std::span<const MatrixSource> parts,
                                                     WeightLayout layout) override;
  absl::StatusOr<std::unique_ptr<KvCache>> CreateKvCache(const KvCacheShape& shape) override;
  void FillPages(KvCache& cache, std::span<const int32_t> pages, Bf16 value) override;

  void Upload(const void* from, size_t bytes, void* to) override;
  void Download(const void* from, size_t bytes, void* to) override;

  void Run(const Embed& op) override { reference::Run(op); }
  void Run(const RmsNorm& op) override { reference::Run(op); }
  void Run(const Gemm& op) override { reference::Run(op); }
  void Run(const RopeKvWrite& op) override { reference::Run(op); }
  void Run(const Attention& op) override { reference::Run(op); }
  void Run(const ScoreTokens& op) override { reference::Run(op); }
  void Run(const SampleTokens& op) override { reference::Run(op); }

  absl::Status Synchronize() override { return absl::OkStatus(); }
};

}  // namespace isobit::reference

#endif  // ISOBIT_KERNELS_REFERENCE_BACKEND_H_
