#ifndef ISOBIT_RUNTIME_ENGINE_SAMPLER_H_
#define ISOBIT_RUNTIME_ENGINE_SAMPLER_H_

// Carries sampling parameters to the backend and results back.
//
// Not thread-safe.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace isobit {

struct ScoredToken {
  float logprob = 0;
  std::vector<TokenLogProb> top;
};

// The tokens of one call of Sampler::Draw. They are there once the backend has been waited for;
// until then it may be moved but must live.
struct Draws {
  std::vector<SampledToken> sampled;
  std::vector<TokenLogProb> top;  // [rows][top_stride]
  size_t top_stride = 0;
  std::vector<size_t> top_counts;  // that the rows asked for

  // The alternatives that the row asked for.
  std::vector<TokenLogProb> TopOf(size_t row) const;
};

class Sampler {
 public:
  // max_rows: of one call. max_draws: of all calls of a step.
  static absl::StatusOr<std::unique_ptr<Sampler>> Create(Backend& backend, int64_t vocab,
                                                         int64_t max_rows, int64_t max_draws);

  // Issues the draw of a token a row of `logits` [params.size()][vocab]. Row r's is row
  // first_draw + r of sampled().
  absl::Status Draw(const float* logits, std::span<const SamplingRow> params,
                    std::span<const LogitEdit> edits, size_t first_draw, Draws* draws);
  // [max_draws] in the backend's memory.
  const SampledToken* sampled() const { return sampled_->As<SampledToken>(); }

  // Log-probabilities of `tokens` [rows] in `logits` [rows][vocab], with `top_count` alternatives a
  // row. Waits for the backend; returns its error.
  absl::Status Score(const float* logits, std::span<const int32_t> tokens, int top_count,
                     std::vector<ScoredToken>* scored);

 private:
  Sampler(Backend& backend, int64_t vocab, int64_t max_rows)
      : backend_(backend), vocab_(vocab), max_rows_(max_rows) {}
  // Makes `buffer` hold at least `bytes`. Grows only.
  absl::Status Reserve(std::unique_ptr<Buffer>* buffer, size_t bytes);

  Backend& backend_;
  const int64_t vocab_;
  [[maybe_unused]] const int64_t max_rows_;  // looked at by assertions only
  std::unique_ptr<Buffer> params_, edits_, sampled_, top_, tokens_, logprobs_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_ENGINE_SAMPLER_H_
