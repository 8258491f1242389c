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

class Sampler {
 public:
  static absl::StatusOr<std::unique_ptr<Sampler>> Create(Backend& backend, int64_t vocab,
                                                         int64_t max_rows);

  // Draws a token a row of `logits` [params.size()][vocab]. `top[r]` gets the alternatives that row
  // r asked for. Waits for the backend; returns its error.
  absl::Status Sample(const float* logits, std::span<const SamplingRow> params,
                      std::span<const LogitEdit> edits, std::vector<SampledToken>* sampled,
                      std::vector<std::vector<TokenLogProb>>* top);

  // Log-probabilities of `tokens` [rows] in `logits` [rows][vocab], with `top_count` alternatives a
  // row.
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
