#include "runtime/model/forward.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <utility>

namespace isobit {
namespace {

// Contexts up to here are planned for alike.
constexpr int64_t kShortContext = 1024;

int64_t IndexCount(const ForwardLimits& limits) {
  return 3 * limits.max_rows + limits.max_sequences + 1 + limits.max_sequences * limits.max_pages;
}

}  // namespace

Forward::Forward(const Model& model, KvCache& cache, const ForwardLimits& limits)
    : model_(model),
      config_(model.config()),
      backend_(model.backend()),
      cache_(cache),
      limits_(limits),
      recorder_(backend_) {}

absl::StatusOr<std::unique_ptr<Forward>> Forward::Create(const Model& model, KvCache& cache,
                                                         const ForwardLimits& limits) {
  std::unique_ptr<Forward> forward(new Forward(model, cache, limits));
  if (absl::Status s = forward->AllocateWorkspace(); !s.ok()) return s;
  return forward;
}

int64_t Forward::WorkspaceBytes(const ModelConfig& config, const ForwardLimits& limits) {
  const int64_t q_width = int64_t{config.heads} * config.head_dim;
  const int64_t kv_width = int64_t{config.kv_heads} * config.head_dim;
  const int64_t row_elements = 2 * config.width + 3 * q_width + 2 * kv_width + config.ffn_width;
  return limits.max_rows * row_elements * int64_t{sizeof(Bf16)} +
         limits.max_logit_rows * (config.vocab + 1) * int64_t{sizeof(float)} +
         IndexCount(limits) * int64_t{sizeof(int32_t)};
}

absl::Status Forward::AllocateWorkspace() {
  const int64_t q_width = int64_t{config_.heads} * config_.head_dim;
  const int64_t kv_width = int64_t{config_.kv_heads} * config_.head_dim;
  const struct {
    std::unique_ptr<Buffer>* buffer;
    int64_t elements, element_bytes;
  } plan[] = {
      {&indices_, IndexCount(limits_), sizeof(int32_t)},
      {&hidden_, limits_.max_rows * config_.width, sizeof(Bf16)},
      {&normed_, limits_.max_rows * config_.width, sizeof(Bf16)},
      {&qkv_, limits_.max_rows * (q_width + 2 * kv_width), sizeof(Bf16)},
      {&query_, limits_.max_rows * q_width, sizeof(Bf16)},
      {&attended_, limits_.max_rows * q_width, sizeof(Bf16)},
      {&activation_, limits_.max_rows * config_.ffn_width, sizeof(Bf16)},
      {&logit_rows_, limits_.max_logit_rows, sizeof(int32_t)},
      {&logits_, limits_.max_logit_rows * config_.vocab, sizeof(float)},
  };
  for (const auto& entry : plan) {
    auto buffer = backend_.Allocate(static_cast<size_t>(entry.elements * entry.element_bytes));
    if (!buffer.ok()) return buffer.status();
    *entry.buffer = *std::move(buffer);
  }
  staging_.reserve(static_cast<size_t>(IndexCount(limits_)));
  return absl::OkStatus();
}

void Forward::Run(const StepRows& rows) {
  assert(rows.rows() <= limits_.max_rows && rows.sequences() <= limits_.max_sequences);
  const bool is_decode = rows.rows() == rows.sequences();
  if (!limits_.record || !is_decode) {
    Place(rows, rows.page_table_stride);
    return Layers();
  }
  // Rounded up, so that few shapes occur as contexts grow.
  const auto stride = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(rows.page_table_stride, 1))));
  Place(rows, std::min(stride, std::max(limits_.max_pages, rows.page_table_stride)));
  batch_.max_context = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max(batch_.max_context, kShortContext))));
  recorder_.Run({.rows = batch_.rows,
                 .sequences = batch_.sequences,
                 .page_table_stride = batch_.page_table_stride,
                 .max_context = batch_.max_context},
                [this] { Layers(); });
}

void Forward::Place(const StepRows& rows, int64_t page_table_stride) {
  // One copy for all index arrays: on a GPU each copy costs more than its bytes.
  staging_.clear();
  const auto place = [this](const std::vector<int32_t>& array) {
    const int32_t* placed = indices_->As<int32_t>() + staging_.size();
    staging_.insert(staging_.end(), array.begin(), array.end());
    return placed;
  };
  token_ids_ = place(rows.token_ids);
  batch_ = {.rows = rows.rows(),
            .sequences = rows.sequences(),
            .position = place(rows.position),
            .sequence = place(rows.sequence),
            .first_row = place(rows.first_row),
            .page_table = indices_->As<int32_t>() + staging_.size(),
            .page_table_stride = page_table_stride,
            .max_context = rows.max_context};
  const int32_t* row = rows.page_table.data();
  for (int64_t s = 0; s < rows.sequences(); ++s, row += rows.page_table_stride) {
    staging_.insert(staging_.end(), row, row + rows.page_table_stride);
    staging_.insert(staging_.end(), static_cast<size_t>(page_table_stride - rows.page_table_stride),
                    0);
  }
  backend_.Upload(staging_.data(), staging_.size() * sizeof(int32_t), indices_->data());
}

void Forward::Layers() {
  backend_.Run(Embed{.rows = batch_.rows,
                     .table = model_.weights().embedding.get(),
                     .token_ids = token_ids_,
                     .out = hidden_->As<Bf16>()});
  for (int i = 0; i < config_.layers; ++i) Layer(i);
}

void Forward::Layer(int index) {
  const LayerWeights& layer = model_.weights().layers[static_cast<size_t>(index)];
  const ModelWeights& shared = model_.weights();
  const int64_t rows = batch_.rows;
  Bf16* hidden = hidden_->As<Bf16>();
  Bf16* normed = normed_->As<Bf16>();

  backend_.Run(RmsNorm{.rows = rows,
                       .width = config_.width,
                       .eps = config_.norm_eps,
                       .x = hidden,
                       .weight = layer.attention_norm->As<Bf16>(),
                       .out = normed});
  backend_.Run(
      Gemm{.rows = rows, .weight = layer.qkv.get(), .x = normed, .out_bf16 = qkv_->As<Bf16>()});
  backend_.Run(RopeKvWrite{.batch = &batch_,
                           .heads = config_.heads,
                           .kv_heads = config_.kv_heads,
                           .head_dim = config_.head_dim,
                           .qkv = qkv_->As<Bf16>(),
                           .rotary_dim = config_.rotary_dim,
                           .cos = config_.rotary_dim ? shared.rope_cos->As<float>() : nullptr,
                           .sin = config_.rotary_dim ? shared.rope_sin->As<float>() : nullptr,
                           .q = query_->As<Bf16>(),
                           .cache = &cache_,
                           .layer = index});
  backend_.Run(Attention{.batch = &batch_,
                         .heads = config_.heads,
                         .kv_heads = config_.kv_heads,
                         .head_dim = config_.head_dim,
                         .softmax_scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim)),
                         .q = query_->As<Bf16>(),
                         .cache = &cache_,
                         .layer = index,
                         .out = attended_->As<Bf16>()});
  backend_.Run(Gemm{.rows = rows,
                    .weight = layer.attention_out.get(),
                    .x = attended_->As<Bf16>(),
                    .residual = hidden,
                    .out_bf16 = hidden});
  backend_.Run(RmsNorm{.rows = rows,
                       .width = config_.width,
                       .eps = config_.norm_eps,
                       .x = hidden,
                       .weight = layer.ffn_norm->As<Bf16>(),
                       .out = normed});
  backend_.Run(Gemm{.rows = rows,
                    .weight = layer.gate_up.get(),
                    .x = normed,
                    .epilogue = Gemm::Epilogue::kSiluGate,
                    .out_bf16 = activation_->As<Bf16>()});
  backend_.Run(Gemm{.rows = rows,
                    .weight = layer.down.get(),
                    .x = activation_->As<Bf16>(),
                    .residual = hidden,
                    .out_bf16 = hidden});
}

const float* Forward::Logits(std::span<const int32_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  assert(count <= limits_.max_logit_rows);
  const ModelWeights& weights = model_.weights();
  backend_.Upload(rows.data(), rows.size_bytes(), logit_rows_->data());
  backend_.Run(RmsNorm{.rows = count,
                       .width = config_.width,
                       .eps = config_.norm_eps,
                       .x = hidden_->As<Bf16>(),
                       .row_index = logit_rows_->As<int32_t>(),
                       .weight = weights.final_norm->As<Bf16>(),
                       .out = normed_->As<Bf16>()});
  backend_.Run(Gemm{.rows = count,
                    .weight = weights.lm_head ? weights.lm_head.get() : weights.embedding.get(),
                    .x = normed_->As<Bf16>(),
                    .epilogue = Gemm::Epilogue::kFp32,
                    .out_fp32 = logits_->As<float>()});
  return logits_->As<float>();
}

}  // namespace isobit
