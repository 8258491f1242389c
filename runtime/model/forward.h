#ifndef ISOBIT_RUNTIME_MODEL_FORWARD_H_
#define ISOBIT_RUNTIME_MODEL_FORWARD_H_

// The forward pass of a dense decoder over the rows of one step.
//
// A Forward owns the workspace of one engine. One thread at a time.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backends.h"
#include "kernels/ops.h"
#include "runtime/model/model.h"
#include "runtime/model/step_recorder.h"

namespace isobit {

// The rows of a step on the host; RowBatch in kernels/ops.h says what they mean.
struct StepRows {
  std::vector<int32_t> token_ids;   // [rows]; DrawnTokenIds refer to Forward's `sampled`
  std::vector<int32_t> position;    // [rows]
  std::vector<int32_t> sequence;    // [rows]
  std::vector<int32_t> first_row;   // [sequences + 1]
  std::vector<int32_t> page_table;  // [sequences][page_table_stride]
  int64_t page_table_stride = 0;
  int64_t max_context = 0;

  int64_t rows() const { return static_cast<int64_t>(token_ids.size()); }
  int64_t sequences() const { return static_cast<int64_t>(first_row.size()) - 1; }
};

struct ForwardLimits {
  int64_t max_rows = 0;        // of a step
  int64_t max_sequences = 0;   // of a step
  int64_t max_pages = 0;       // of a sequence
  int64_t max_logit_rows = 0;  // of one call of Logits
  bool record = false;         // replay steps in which every sequence has one row
};

// The GEMMs of a model's forward pass, each kind once: what can be tuned before it is loaded.
std::vector<GemmShape> GemmShapesOf(const ModelConfig& config);

class Forward {
 public:
  // `model` and `cache` must outlive it, and so must `sampled`, tokens in the backend's memory that
  // steps may name instead of ids.
  static absl::StatusOr<std::unique_ptr<Forward>> Create(const Model& model, KvCache& cache,
                                                         const ForwardLimits& limits,
                                                         const SampledToken* sampled = nullptr);

  // Bytes of workspace that Create would allocate.
  static int64_t WorkspaceBytes(const ModelConfig& config, const ForwardLimits& limits);

  // Computes the hidden states of all rows and writes their keys and values to their pages.
  // REQUIRES: within the limits.
  void Run(const StepRows& rows);

  // The fp32 logits [row.size()][vocab] of some rows of the last Run, in the backend's memory,
  // until the next call. REQUIRES: at most max_logit_rows rows.
  const float* Logits(std::span<const int32_t> rows);

  const ForwardLimits& limits() const { return limits_; }
  int64_t replayed_steps() const { return recorder_.replayed(); }

 private:
  Forward(const Model& model, KvCache& cache, const ForwardLimits& limits,
          const SampledToken* sampled);
  absl::Status AllocateWorkspace();
  // Copies the indices of a step to the backend and makes batch_ of them.
  void Place(const StepRows& rows, int64_t page_table_stride);
  void Layers();
  void Layer(int index);
  void Attend(int index, const LayerWeights& layer);
  void NormQueriesAndKeys(const LayerWeights& layer, RopeKvWrite& rope);
  void NormHeads(const Buffer& weight, int heads, Bf16* first);
  void AddBranch(const Weight& weight, const Buffer* bias, const Bf16* x, const Buffer* post_norm);
  // Of all rows of the step and the model's width, to be changed.
  RmsNorm Norm(const Buffer& weight, const Bf16* x, Bf16* out) const;

  const Model& model_;
  const ModelConfig& config_;
  Backend& backend_;
  KvCache& cache_;
  const ForwardLimits limits_;
  const SampledToken* const sampled_;

  std::unique_ptr<Buffer> indices_;     // int32: what StepRows holds, one array after the other
  std::unique_ptr<Buffer> hidden_;      // bf16 [max_rows][width], the residual stream
  std::unique_ptr<Buffer> normed_;      // bf16 [max_rows][width]
  std::unique_ptr<Buffer> qkv_;         // bf16 [max_rows][(heads + 2 kv_heads) head_dim]
  std::unique_ptr<Buffer> query_;       // bf16 [max_rows][heads head_dim]
  std::unique_ptr<Buffer> attended_;    // bf16 [max_rows][heads head_dim]
  std::unique_ptr<Buffer> activation_;  // bf16 [max_rows][ffn_width]
  std::unique_ptr<Buffer> logit_rows_;  // int32 [max_logit_rows]
  std::unique_ptr<Buffer> logits_;      // fp32 [max_logit_rows][vocab]

  RowBatch batch_;  // of the last Run
  const int32_t* token_ids_ = nullptr;
  std::vector<int32_t> staging_;
  StepRecorder recorder_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_FORWARD_H_
