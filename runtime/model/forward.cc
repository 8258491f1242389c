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

Gemm::Epilogue GateOf(const ModelConfig& config) {
  return config.activation == Activation::kSilu ? Gemm::Epilogue::kSiluGate
                                                : Gemm::Epilogue::kGeluGate;
}

// Whether they are 0, 1, 2 and so on.
bool AreFirst(std::span<const int32_t> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != static_cast<int32_t>(i)) return false;
  }
  return true;
}

}  // namespace

std::vector<GemmShape> GemmShapesOf(const ModelConfig& config) {
  using enum Gemm::Epilogue;
  return {{config.qkv_width(), config.width, kBf16},
          {config.width, config.q_width(), kBf16},
          {2 * config.ffn_width, config.width, GateOf(config)},
          {config.width, config.ffn_width, kBf16},
          {config.vocab, config.width, kFp32}};
}

Forward::Forward(const Model& model, KvCache& cache, const ForwardLimits& limits,
                 const SampledToken* sampled)
    : model_(model),
      config_(model.config()),
      backend_(model.backend()),
      cache_(cache),
      limits_(limits),
      sampled_(sampled),
      recorder_(backend_) {}

absl::StatusOr<std::unique_ptr<Forward>> Forward::Create(const Model& model, KvCache& cache,
                                                         const ForwardLimits& limits,
                                                         const SampledToken* sampled) {
  std::unique_ptr<Forward> forward(new Forward(model, cache, limits, sampled));
  if (absl::Status s = forward->AllocateWorkspace(); !s.ok()) return s;
  return forward;
}

int64_t Forward::WorkspaceBytes(const ModelConfig& config, const ForwardLimits& limits) {
  const int64_t row_elements =
      2 * config.width + config.qkv_width() + 2 * config.q_width() + config.ffn_width;
  return limits.max_rows * row_elements * int64_t{sizeof(Bf16)} +
         limits.max_logit_rows * (config.vocab + 1) * int64_t{sizeof(float)} +
         IndexCount(limits) * int64_t{sizeof(int32_t)};
}

absl::Status Forward::AllocateWorkspace() {
  const struct {
    std::unique_ptr<Buffer>* buffer;
    int64_t elements, element_bytes;
  } plan[] = {
      {&indices_, IndexCount(limits_), sizeof(int32_t)},
      {&hidden_, limits_.max_rows * config_.width, sizeof(Bf16)},
      {&normed_, limits_.max_rows * config_.width, sizeof(Bf16)},
      {&qkv_, limits_.max_rows * config_.qkv_width(), sizeof(Bf16)},
      {&query_, limits_.max_rows * config_.q_width(), sizeof(Bf16)},
      {&attended_, limits_.max_rows * config_.q_width(), sizeof(Bf16)},
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
                     .sampled = sampled_,
                     .scale = config_.embedding_scale,
                     .out = hidden_->As<Bf16>()});
  for (int i = 0; i < config_.layers; ++i) Layer(i);
}

RmsNorm Forward::Norm(const Buffer& weight, const Bf16* x, Bf16* out) const {
  RmsNorm norm{
      .rows = batch_.rows, .width = config_.width, .eps = config_.norm_eps, .x = x, .out = out};
  if (config_.wide_norms) {
    norm.wide_weight = weight.As<float>();
  } else {
    norm.weight = weight.As<Bf16>();
  }
  return norm;
}

void Forward::Layer(int index) {
  const LayerWeights& layer = model_.weights().layers[static_cast<size_t>(index)];
  Attend(index, layer);
  AddBranch(*layer.attention_out, layer.attention_out_bias.get(), attended_->As<Bf16>(),
            layer.attention_post_norm.get());
  const Bf16* x = hidden_->As<Bf16>();
  if (layer.ffn_norm) {
    backend_.Run(Norm(*layer.ffn_norm, x, normed_->As<Bf16>()));
    x = normed_->As<Bf16>();
  }
  backend_.Run(Gemm{.rows = batch_.rows,
                    .weight = layer.gate_up.get(),
                    .x = x,
                    .epilogue = GateOf(config_),
                    .out_bf16 = activation_->As<Bf16>()});
  AddBranch(*layer.down, nullptr, activation_->As<Bf16>(), layer.ffn_post_norm.get());
}

// hidden -> attended: norm, projection, rotation, attention.
void Forward::Attend(int index, const LayerWeights& layer) {
  const LayerAttention attention = config_.AttentionOf(index);
  const Bf16* x = hidden_->As<Bf16>();
  if (layer.attention_norm) {
    backend_.Run(Norm(*layer.attention_norm, x, normed_->As<Bf16>()));
    x = normed_->As<Bf16>();
  }
  Bf16* qkv = qkv_->As<Bf16>();
  const Gemm projection{.rows = batch_.rows,
                        .weight = layer.qkv.get(),
                        .x = x,
                        .bias = layer.qkv_bias ? layer.qkv_bias->As<float>() : nullptr,
                        .out_bf16 = qkv};
  RopeKvWrite rope{.batch = &batch_,
                   .heads = config_.heads,
                   .kv_heads = config_.kv_heads,
                   .head_dim = config_.head_dim,
                   .qkv = qkv,
                   .norm_eps = config_.norm_eps,
                   .q = query_->As<Bf16>(),
                   .cache = &cache_,
                   .layer = index};
  if (attention.rotary != kNoRotation && config_.rotary_dim > 0) {
    const RotaryTable& table = model_.weights().rotary[static_cast<size_t>(attention.rotary)];
    rope.rotary_dim = config_.rotary_dim;
    rope.cos = table.cos->As<float>();
    rope.sin = table.sin->As<float>();
  }
  if (config_.ProjectsToCache()) {
    backend_.Run(QkvProjection{projection, rope});
  } else {
    backend_.Run(projection);
    NormQueriesAndKeys(layer, rope);
    backend_.Run(rope);
  }
  const double usual_scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
  backend_.Run(
      Attention{.batch = &batch_,
                .heads = config_.heads,
                .kv_heads = config_.kv_heads,
                .head_dim = config_.head_dim,
                .softmax_scale = config_.softmax_scale > 0 ? config_.softmax_scale : usual_scale,
                .soft_cap = config_.score_cap,
                .window = attention.window,
                .q = query_->As<Bf16>(),
                .cache = &cache_,
                .layer = index,
                .out = attended_->As<Bf16>()});
}

// Normalises the query and key heads in the fused projection, or has `rope` do it.
void Forward::NormQueriesAndKeys(const LayerWeights& layer, RopeKvWrite& rope) {
  if (config_.query_key_norm == QueryKeyNorm::kPerHead && !config_.wide_norms) {
    rope.q_norm = layer.query_norm->As<Bf16>();
    rope.k_norm = layer.key_norm->As<Bf16>();
    return;
  }
  Bf16* qkv = qkv_->As<Bf16>();
  NormHeads(*layer.query_norm, config_.heads, qkv);
  NormHeads(*layer.key_norm, config_.kv_heads, qkv + config_.q_width());
}

// Normalises the query or the key heads in the fused projection, in place.
void Forward::NormHeads(const Buffer& weight, int heads, Bf16* first) {
  const bool full = config_.query_key_norm == QueryKeyNorm::kFull;
  RmsNorm norm = Norm(weight, first, first);
  norm.width = full ? int64_t{heads} * config_.head_dim : config_.head_dim;
  norm.groups = full ? 1 : heads;
  norm.stride = config_.qkv_width();
  backend_.Run(norm);
}

// hidden += scale * (x W^T + bias), with the norm between, if there is one.
void Forward::AddBranch(const Weight& weight, const Buffer* bias, const Bf16* x,
                        const Buffer* post_norm) {
  Bf16* hidden = hidden_->As<Bf16>();
  Bf16* out = post_norm == nullptr ? hidden : normed_->As<Bf16>();
  backend_.Run(Gemm{.rows = batch_.rows,
                    .weight = &weight,
                    .x = x,
                    .bias = bias != nullptr ? bias->As<float>() : nullptr,
                    .scale = config_.residual_scale,
                    .residual = post_norm == nullptr ? hidden : nullptr,
                    .out_bf16 = out});
  if (post_norm == nullptr) return;
  RmsNorm norm = Norm(*post_norm, out, hidden);
  norm.residual = hidden;
  backend_.Run(norm);
}

const float* Forward::Logits(std::span<const int32_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  assert(count <= limits_.max_logit_rows);
  const ModelWeights& weights = model_.weights();
  RmsNorm norm = Norm(*weights.final_norm, hidden_->As<Bf16>(), normed_->As<Bf16>());
  norm.rows = count;
  // The first rows in order, as in every step of decoding, need no list.
  if (!AreFirst(rows)) {
    backend_.Upload(rows.data(), rows.size_bytes(), logit_rows_->data());
    norm.row_index = logit_rows_->As<int32_t>();
  }
  backend_.Run(norm);
  backend_.Run(Gemm{.rows = count,
                    .weight = weights.lm_head ? weights.lm_head.get() : weights.embedding.get(),
                    .x = normed_->As<Bf16>(),
                    .epilogue = Gemm::Epilogue::kFp32,
                    .scale = config_.logit_scale,
                    .soft_cap = config_.logit_cap,
                    .out_fp32 = logits_->As<float>()});
  return logits_->As<float>();
}

}  // namespace isobit
