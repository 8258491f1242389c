#include "runtime/engine/sampler.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace isobit {
namespace {

// The entries of one row, without the empty ones at its end.
std::vector<TokenLogProb> Row(const std::vector<TokenLogProb>& all, size_t row, size_t stride,
                              size_t count) {
  const auto begin = all.begin() + static_cast<ptrdiff_t>(row * stride);
  const auto end = std::find_if(begin, begin + static_cast<ptrdiff_t>(count),
                                [](const TokenLogProb& entry) { return entry.token < 0; });
  return {begin, end};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Sampler>> Sampler::Create(Backend& backend, int64_t vocab,
                                                         int64_t max_rows, int64_t max_draws) {
  std::unique_ptr<Sampler> sampler(new Sampler(backend, vocab, max_rows));
  const auto rows = static_cast<size_t>(max_rows);
  const struct {
    std::unique_ptr<Buffer>* buffer;
    size_t bytes;
  } plan[] = {
      {&sampler->params_, rows * sizeof(SamplingRow)},
      {&sampler->sampled_, static_cast<size_t>(max_draws) * sizeof(SampledToken)},
      {&sampler->top_, rows * kMaxTopLogProbs * sizeof(TokenLogProb)},
      {&sampler->tokens_, rows * sizeof(int32_t)},
      {&sampler->logprobs_, rows * sizeof(float)},
  };
  for (const auto& entry : plan) {
    if (absl::Status s = sampler->Reserve(entry.buffer, entry.bytes); !s.ok()) return s;
  }
  return sampler;
}

absl::Status Sampler::Reserve(std::unique_ptr<Buffer>* buffer, size_t bytes) {
  if (*buffer && (*buffer)->bytes() >= bytes) return absl::OkStatus();
  // What was issued may still read the old one.
  if (absl::Status s = backend_.Synchronize(); !s.ok()) return s;
  auto larger = backend_.Allocate(std::max<size_t>(bytes, 64));
  if (!larger.ok()) return larger.status();
  *buffer = *std::move(larger);
  return absl::OkStatus();
}

std::vector<TokenLogProb> Draws::TopOf(size_t row) const {
  return Row(top, row, top_stride, top_counts[row]);
}

absl::Status Sampler::Draw(const float* logits, std::span<const SamplingRow> params,
                           std::span<const LogitEdit> edits, size_t first_draw, Draws* draws) {
  const size_t rows = params.size();
  assert(static_cast<int64_t>(rows) <= max_rows_);
  for (const SamplingRow& row : params) {
    draws->top_counts.push_back(static_cast<size_t>(row.top_count));
    draws->top_stride = std::max(draws->top_stride, draws->top_counts.back());
  }
  draws->sampled.resize(rows);
  draws->top.resize(rows * draws->top_stride);
  if (absl::Status s = Reserve(&edits_, 2 * edits.size_bytes()); !s.ok()) return s;

  SampledToken* sampled = sampled_->As<SampledToken>() + first_draw;
  backend_.Upload(params.data(), params.size_bytes(), params_->data());
  if (!edits.empty()) backend_.Upload(edits.data(), edits.size_bytes(), edits_->data());
  backend_.Run(SampleTokens{.rows = static_cast<int64_t>(rows),
                            .vocab = vocab_,
                            .logits = logits,
                            .params = params_->As<SamplingRow>(),
                            .edits = edits_->As<LogitEdit>(),
                            .top_stride = static_cast<int>(draws->top_stride),
                            .sampled = sampled,
                            .top = top_->As<TokenLogProb>()});
  backend_.Download(sampled, rows * sizeof(SampledToken), draws->sampled.data());
  if (!draws->top.empty()) {
    backend_.Download(top_->data(), draws->top.size() * sizeof(TokenLogProb), draws->top.data());
  }
  return absl::OkStatus();
}

absl::Status Sampler::Score(const float* logits, std::span<const int32_t> tokens, int top_count,
                            std::vector<ScoredToken>* scored) {
  const size_t rows = tokens.size();
  assert(static_cast<int64_t>(rows) <= max_rows_ && top_count <= kMaxTopLogProbs);
  backend_.Upload(tokens.data(), tokens.size_bytes(), tokens_->data());
  backend_.Run(ScoreTokens{.rows = static_cast<int64_t>(rows),
                           .vocab = vocab_,
                           .logits = logits,
                           .token = tokens_->As<int32_t>(),
                           .top_count = top_count,
                           .logprob = logprobs_->As<float>(),
                           .top = top_->As<TokenLogProb>()});
  std::vector<float> logprobs(rows);
  std::vector<TokenLogProb> all(rows * static_cast<size_t>(top_count));
  backend_.Download(logprobs_->data(), rows * sizeof(float), logprobs.data());
  if (!all.empty()) backend_.Download(top_->data(), all.size() * sizeof(TokenLogProb), all.data());
  if (absl::Status s = backend_.Synchronize(); !s.ok()) return s;
  scored->resize(rows);
  for (size_t r = 0; r < rows; ++r) {
    (*scored)[r] = {logprobs[r],
                    Row(all, r, static_cast<size_t>(top_count), static_cast<size_t>(top_count))};
  }
  return absl::OkStatus();
}

}  // namespace isobit
