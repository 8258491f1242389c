// How an engine's limits and memory are chosen at start.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "runtime/engine/engine_core.h"

namespace isobit {
namespace {

constexpr int64_t kMaxSequences = 4096;
constexpr int64_t kMaxBatchedTokens = int64_t{1} << 20;
constexpr int64_t kMaxBlockSize = 1024;
// Of the memory that is free once the weights are loaded, on a device that is not ours alone (a
// CPU) and on one that is.
constexpr double kSharedMemoryShare = 0.3, kOwnMemoryShare = 0.9;
// Rows of logits that are computed at once, [rows][vocab] in fp32. On a GPU the output matrix
// should be read once a step; on a CPU that gains nothing.
constexpr int64_t kLogitRows = 64, kMaxGpuLogitRows = 512;

absl::Status CheckOption(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be in [", low, ", ", high, "], got ", value));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EngineCore>> EngineCore::Create(std::unique_ptr<Model> model,
                                                               const EngineOptions& options) {
  std::unique_ptr<EngineCore> core(new EngineCore(std::move(model), options));
  if (absl::Status s = core->CheckOptions(); !s.ok()) return s;
  if (absl::Status s = core->PlanMemory(); !s.ok()) return s;
  return core;
}

absl::Status EngineCore::CheckOptions() {
  EngineOptions& o = options_;
  const bool gpu = model_->backend().Info().kind == "cuda";
  if (o.max_model_len == 0) o.max_model_len = model_->max_positions();
  if (o.max_num_batched_tokens == 0) o.max_num_batched_tokens = gpu ? 8192 : 512;
  const struct {
    const char* name;
    int64_t value, low, high;
  } ranges[] = {
      {"max-model-len", o.max_model_len, 1, model_->max_positions()},
      {"max-num-seqs", o.max_num_seqs, 0, kMaxSequences},
      {"max-num-batched-tokens", o.max_num_batched_tokens, 1, kMaxBatchedTokens},
      {"block-size", o.block_size, 16, kMaxBlockSize},
      {"kv-cache-tokens", o.kv_cache_tokens, 0, int64_t{1} << 40},
  };
  for (const auto& r : ranges) {
    if (absl::Status s = CheckOption(r.name, r.value, r.low, r.high); !s.ok()) return s;
  }
  if (!(o.audit_share >= 0 && o.audit_share <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("audit must be in [0, 1], got ", o.audit_share));
  }
  if (o.block_size % 16 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("block-size must be a multiple of 16, got ", o.block_size));
  }
  if (o.kv_cache_tokens != 0 && o.kv_cache_tokens < o.block_size) {
    return absl::InvalidArgumentError(absl::StrCat("kv-cache-tokens must be at least one page of ",
                                                   o.block_size, " tokens, got ",
                                                   o.kv_cache_tokens));
  }
  const ModelConfig& config = model_->config();
  return model_->backend().CheckModel({.width = config.width,
                                       .ffn_width = config.ffn_width,
                                       .vocab = config.vocab,
                                       .heads = config.heads,
                                       .kv_heads = config.kv_heads,
                                       .head_dim = config.head_dim,
                                       .page_tokens = static_cast<int>(o.block_size)});
}

absl::Status EngineCore::PlanMemory() {
  EngineOptions& o = options_;
  const ModelConfig& config = model_->config();
  Backend& backend = model_->backend();
  // A device that has failed has no memory either; what it failed with is the better message.
  if (absl::Status s = backend.Synchronize(); !s.ok()) return s;
  const DeviceInfo device = backend.Info();
  const bool gpu = device.kind == "cuda";
  const int64_t most_sequences = o.max_num_seqs != 0 ? o.max_num_seqs : 256;
  logit_rows_ = gpu ? std::clamp(most_sequences, kLogitRows, kMaxGpuLogitRows) : kLogitRows;
  ForwardLimits limits = {.max_rows = o.max_num_batched_tokens,
                          .max_sequences = std::min(most_sequences, o.max_num_batched_tokens),
                          .max_pages = (o.max_model_len + o.block_size - 1) / o.block_size,
                          .max_logit_rows = logit_rows_,
                          .record = gpu && !o.enforce_eager};
  KvCacheShape shape = {.layers = static_cast<int>(config.layers),
                        .kv_heads = config.kv_heads,
                        .head_dim = config.head_dim,
                        .page_tokens = static_cast<int>(o.block_size)};
  if (o.kv_cache_tokens == 0) {
    const double share = gpu ? kOwnMemoryShare : kSharedMemoryShare;
    const int64_t budget =
        static_cast<int64_t>(std::floor(share * static_cast<double>(device.available_bytes))) -
        (gpu ? Forward::WorkspaceBytes(config, limits) : 0);
    const int64_t useful = most_sequences * limits.max_pages;
    shape.pages = std::min(useful, budget / shape.BytesPerPage());
  } else {
    shape.pages = o.kv_cache_tokens / o.block_size;
  }
  if (shape.pages < 1 || shape.pages * shape.BytesPerPage() > device.available_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a KV pool of ", std::max<int64_t>(shape.pages, 1), " pages of ", shape.BytesPerPage(),
        " bytes does not fit: ", device.available_bytes, " bytes are free on ", device.name));
  }
  o.kv_cache_tokens = shape.pages * o.block_size;
  if (o.max_num_seqs == 0) o.max_num_seqs = std::min(most_sequences, shape.pages);

  auto cache = backend.CreateKvCache(shape);
  if (!cache.ok()) return cache.status();
  cache_ = *std::move(cache);
  pool_ = std::make_unique<PagePool>(shape.pages, o.block_size, o.prefix_cache);

  limits.max_sequences = std::min(limits.max_sequences, o.max_num_seqs);
  limits.max_pages = std::min(limits.max_pages, shape.pages);
  async_scheduling_ = o.async_scheduling.value_or(device.asynchronous);
  auto sampler = Sampler::Create(backend, config.vocab, logit_rows_, o.max_num_seqs + logit_rows_);
  if (!sampler.ok()) return sampler.status();
  sampler_ = *std::move(sampler);
  auto forward = Forward::Create(*model_, *cache_, limits, sampler_->sampled());
  if (!forward.ok()) return forward.status();
  forward_ = *std::move(forward);
  return absl::OkStatus();
}

absl::Status EngineCore::CheckFits(int64_t prompt_tokens, const SamplingParams& params) const {
  const int64_t limit = options_.max_model_len;
  if (prompt_tokens == 0) return absl::InvalidArgumentError("prompt must hold at least one token");
  if (params.max_tokens > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens must be <= ", limit, " (max-model-len), got ", params.max_tokens));
  }
  // At least one token must have room, if one is wanted.
  const int64_t longest_prompt = params.max_tokens == 0 ? limit : limit - 1;
  if (prompt_tokens > longest_prompt) {
    return absl::OutOfRangeError(absl::StrCat("prompt has ", prompt_tokens,
                                              " tokens, the limit is ", longest_prompt,
                                              " (max-model-len ", limit, ")"));
  }
  const int64_t longest = std::min(prompt_tokens + params.max_tokens, limit);
  if (longest > options_.kv_cache_tokens) {
    return absl::OutOfRangeError(absl::StrCat("prompt and max_tokens may need ", longest,
                                              " tokens of KV cache, the pool has ",
                                              options_.kv_cache_tokens, " (kv-cache-tokens)"));
  }
  return absl::OkStatus();
}

}  // namespace isobit
