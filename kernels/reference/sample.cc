#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/numerics/philox.h"
#include "kernels/reference/backend.h"
#include "kernels/reference/distribution.h"

namespace isobit::reference {
namespace {

constexpr uint64_t kTopPOff = uint64_t{1} << 32;

// Logit bias and penalties, then temperature unless the row is greedy.
std::vector<float> Edited(const SampleTokens& op, const SamplingRow& row, const float* logits) {
  std::vector<float> z(logits, logits + op.vocab);
  for (int32_t e = row.edit_begin; e < row.edit_end; ++e) {
    const LogitEdit& edit = op.edits[e];
    z[edit.token] = EditLogit(z[edit.token], edit.bias, edit.seen != 0, edit.output_count,
                              row.repetition_penalty, row.frequency_penalty, row.presence_penalty);
  }
  if (!IsGreedy(row.temperature)) {
    for (float& x : z) x = ApplyTemperature(x, row.temperature);
  }
  return z;
}

// Takes out what the filters reject. Each looks at what the one before left.
void Filter(const SamplingRow& row, Distribution& d) {
  std::vector<int32_t>& ranked = d.ranked;
  const auto forbidden = [&](int32_t token) {
    return d.z[token] == -std::numeric_limits<float>::infinity();
  };
  ranked.erase(std::remove_if(ranked.begin(), ranked.end(), forbidden), ranked.end());
  if (IsGreedy(row.temperature)) return;

  const uint64_t min_weight = MinPThreshold(row.min_p_q32);
  const auto unlikely = [&](int32_t token) { return d.Weight(token) < min_weight; };
  ranked.erase(std::remove_if(ranked.begin(), ranked.end(), unlikely), ranked.end());

  if (row.top_k > 0 && static_cast<size_t>(row.top_k) < ranked.size()) ranked.resize(row.top_k);

  if (row.top_p_q32 < kTopPOff) {
    const uint64_t threshold = TopPThreshold(row.top_p_q32, d.TotalWeight());
    size_t kept = 0;
    for (uint64_t before = 0; kept < ranked.size() && before < threshold; ++kept) {
      before += d.Weight(ranked[kept]);
    }
    ranked.resize(kept);
  }
}

int32_t Draw(const SamplingRow& row, const Distribution& d) {
  if (IsGreedy(row.temperature)) return d.ranked[0];
  const uint64_t target =
      DrawTarget(DrawBits(row.seed, row.sample_index, row.position), d.TotalWeight());
  std::vector<int32_t> by_id = d.ranked;
  std::sort(by_id.begin(), by_id.end());
  uint64_t running = 0;
  for (int32_t token : by_id) {
    running += d.Weight(token);
    if (running > target) return token;
  }
  assert(false);  // the target is below the total
  return -1;
}

void SampleRow(const SampleTokens& op, const SamplingRow& row, const float* logits,
               SampledToken* sampled, TokenLogProb* top) {
  *sampled = SampledToken{};
  std::fill_n(top, op.top_stride, TokenLogProb{});
  std::vector<float> z = Edited(op, row, logits);
  if (!IsDistribution(z)) return;

  const Distribution raw = MakeDistribution(std::vector<float>(logits, logits + op.vocab));
  const uint64_t raw_total = raw.TotalWeight();
  Distribution processed = MakeDistribution(std::move(z));
  Filter(row, processed);
  const uint64_t processed_total = processed.TotalWeight();

  const int32_t token = Draw(row, processed);
  sampled->token = token;
  sampled->logprob = LogProb(raw.z[token], raw.max, raw_total);
  if (row.processed != 0) {
    sampled->processed_logprob = LogProb(processed.z[token], processed.max, processed_total);
    WriteTop(processed, processed_total, row.top_count, top);
  } else {
    WriteTop(raw, raw_total, row.top_count, top);
  }
}

}  // namespace

void Run(const SampleTokens& op) {
  for (int64_t r = 0; r < op.rows; ++r) {
    SampleRow(op, op.params[r], op.logits + r * op.vocab, op.sampled + r,
              op.top + r * op.top_stride);
  }
}

}  // namespace isobit::reference
